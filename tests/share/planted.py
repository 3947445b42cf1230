"""A notebook in which every text that anybody could have written is a secret of its own."""

import re
from typing import Any

from sqlalchemy import JSON, String
from sqlmodel import AutoString, Session, SQLModel, select

from app.db.database import Database
from app.db.machines import BandwidthValue, MachineDevice
from app.db.tables import (
    FULL_GEOMETRY,
    Annotation,
    BandwidthProbe,
    Baseline,
    Config,
    Device,
    Machine,
    Model,
    Run,
    SampleRow,
    SavedView,
    Server,
    Share,
    StatedGeometry,
    Suite,
    now,
)
from app.results.hardware import freeze_devices
from tests.seed import seed

PUBLIC = {("config", "engine")}
"""What a share is about."""
AROUND = {
    ("model", "name"): "/home/{}/models/Qwen3-8B.gguf",
    ("model", "quantization"): "/{}/Q4_K_M",
    ("config", "engine_version"): "b6301 (/{}/llama.cpp)",
}
"""What a share is about too, with a secret where a server might put one."""
CODED = {
    ("bandwidth_probe", "status"),
    ("run", "status"),
    ("run", "source"),
    ("run", "main_point_key"),
    ("sample", "status"),
    ("measurement", "point_key"),
    ("measurement", "metric"),
    ("measurement", "source"),
    ("measurement", "unit"),
    ("measurement", "null_reason"),
}
"""Words of the code itself, which nothing else ever stands in."""
JSON_COLUMNS = {
    ("bandwidth_probe", "record"),
    ("config", "labels"),
    ("config", "settings"),
    ("machine", "accelerators"),
    ("measurement", "left_out"),
    ("model", "geometry"),
    ("run", "evidence"),
    ("run", "hardware"),
    ("run", "labels"),
    ("run", "plan"),
    ("run", "progress"),
    ("sample", "flags"),
    ("sample", "point"),
    ("sample", "record"),
    ("sample", "sensors"),
    ("server", "capabilities"),
    ("server", "facts"),
    ("server", "labels"),
    ("server", "model_settings"),
    ("server", "settings"),
    ("share", "snapshot"),
    ("stated_geometry", "form"),
    ("stated_geometry", "geometry"),
    ("suite", "definition"),
}
"""All there are: a new one must be planted below, or be looked at."""


MARK = "zqwv"


def secret(*where: object, longest: int = 99) -> str:
    """One word, so that no form of a share breaks it: `zqwvRunNote0`."""
    name = "".join(str(part).title().replace("_", "") for part in where)
    return MARK + name[len(MARK) - longest :]


def secrets_in(text: str) -> set[str]:
    """By their names, without numbers."""
    return {name.rstrip("0123456789") for name in re.findall(rf"{MARK}(\w*)", text)}


def plant(database: Database) -> list[str]:
    """Gives the public ids of two runs of one point, and of one of several."""
    with database.write() as session:
        seed(session, runs=11, detailed=11)
        for row in _further(session):
            session.add(row)
    with database.write() as session:
        for table in SQLModel.metadata.sorted_tables:
            rows = session.exec(select(_class_of(table.name))).all()
            assert rows, f"plant something in {table.name}"
            for place, row in enumerate(rows):
                _plant_texts(table, row, place)
                _plant_json(row)
                session.add(row)
    with database.write() as session:
        session.get_one(Run, 1).suite_sha256 = session.get_one(Suite, 1).sha256
        return [session.get_one(Run, number).public_id for number in (1, 2, 11)]


def _further(session: Session) -> list[Any]:
    """A row in each table that the seed leaves empty."""
    run = session.get_one(Run, 1)
    prompt = {"prompt": secret("suite", "prompt"), "output_tokens": 128, "repetitions": 5, "warmups": 1}
    return [
        Suite(key="own", title="own", definition=prompt, sha256="own"),
        StatedGeometry(model_name="own"),
        Device(name="own", bandwidth_bytes_per_s=1e11),
        BandwidthProbe(machine_id=2, status="done", best_bytes_per_s=9e10, record={"remarks": []}, finished_at=now()),
        Baseline(machine_id=1, model_name="", suite_key="", run_id=run.id or 0),
        Share(slug="other", kind="run", title="other"),
        Annotation(machine_id=1, at=now(), text="own"),
        SavedView(name="own", page="history", query=""),
    ]


def _class_of(name: str) -> Any:
    return next(mapper.class_ for mapper in SQLModel._sa_registry.mappers if str(mapper.local_table) == name)


def _plant_texts(table: Any, row: Any, place: int) -> None:
    for column in table.columns:
        key = (table.name, column.name)
        if isinstance(column.type, JSON):
            assert key in JSON_COLUMNS, f"plant something in {key}"
        if isinstance(column.type, (String, AutoString)) and key not in PUBLIC | CODED:
            frame = AROUND.get(key, "{}")
            longest = (getattr(column.type, "length", None) or 99) - len(frame)
            setattr(row, column.name, frame.format(secret(*key, place, longest=longest)))


def _plant_json(row: Any) -> None:
    match row:
        case Machine():
            texts = {
                "name": secret("accelerator", row.slug),
                "note": secret("accelerator", "note"),
                "source": secret("source"),
            }
            row.accelerators = [card | texts for card in row.accelerators]
        case Server():
            row.capabilities = row.facts = row.settings = {"flags": secret("server", "json")}
            row.model_settings = {secret("server", "model"): {"flags": secret("server", "json")}}
            row.labels = [secret("server", "labels")]
        case Model():
            full = dict(
                row.geometry[FULL_GEOMETRY], architecture=secret("architecture"), assumptions=[secret("assumed")]
            )
            row.geometry = {FULL_GEOMETRY: full}
        case StatedGeometry():
            row.form = {"name": secret("stated", "form")}
            row.geometry = {"architecture": secret("stated", "geometry")}
        case Config():
            own = {
                "flags": secret("config", "flags"),
                secret("setting"): secret("config", "own"),
                "split_mode": secret("split"),
            }
            row.settings = row.settings | own | {"kv_type_k": secret("kv"), "flash_attention": secret("flash")}
            row.labels = [secret("config", "labels")]
        case Run():
            row.labels = [secret("run", "labels")]
            ram = MachineDevice(secret("run", "memory"), "ram", 1, None, [])
            card = MachineDevice(
                secret("run", "card"), "accelerator", 1, 10**12, [BandwidthValue(1e11, secret("run", "source"))]
            )
            row.hardware = freeze_devices([ram, card])
            row.plan = row.progress = {"model": secret("run", "plan")}
            row.evidence = {"warnings": [secret("run", "evidence")], "checks": [secret("run", "checks")]}
        case SampleRow():
            texts = {key: secret("trace", key) for key in ("finish_reason", "model", "text_sha256")}
            learned = {"learned": {"x": secret("trace", "learned")}}
            server = dict(row.record["trace"]["server"], raw={"x": secret("trace", "raw")})
            trace = row.record["trace"] | texts | learned | {"server": server}
            row.record = row.record | {"trace": trace}
            row.flags = [secret("sample", "flags")]
            row.sensors = {"x": secret("sample", "sensors")}
        case _:
            pass
