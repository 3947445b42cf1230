"""Runs made for comparing: a server with two configurations, and samples of chosen speeds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sqlalchemy import event
from sqlmodel import Session, select

from app.core.configuration import Snapshot
from app.core.samples import Sample, Workload
from app.db import configs, machines, servers
from app.db.database import Database
from app.db.tables import Config, Run, Server
from app.metrics import HEADLINE_METRICS
from app.results.compare import Comparison, compare
from tests.seed import made_sample
from tests.web.notebook import add_run

POINT = Workload(512, 32)
SUITE = "a" * 64
QUIET = (1.0, 1.002, 0.998, 1.001, 0.999)
BEGAN = datetime(2026, 9, 1, 12, tzinfo=UTC)
Q8 = Snapshot("llama.cpp", "b6301", "Qwen3-8B", "Q8_0", {"context": 4096})
Q4 = replace(Q8, quantization="Q4_K_M")


def timed(
    ttft_ms: float, decode_tokens_per_s: float, point: Workload = POINT, noise: Sequence[float] = QUIET
) -> list[Sample]:
    """One repetition for each value of `noise`, after a warm-up that is far slower; all with the same pauses."""
    factors = [5.0, *noise]
    return [
        made_sample(
            place, point, ttft_ms * factor, decode_tokens_per_s / factor, is_warmup=place == 0, chance=Random(1)
        )
        for place, factor in enumerate(factors)
    ]


def place(database: Database, *snapshots: Snapshot, name: str = "strix-halo") -> list[int]:
    """A machine with a server and these configurations; gives the ids of these."""
    with database.write() as session:
        machine = machines.add_machine(session, name)
        assert machine.id is not None
        server = servers.add_server(session, machine.id, f"{name} 8080", "llama.cpp", "http://127.0.0.1:9")
        assert server.id is not None
        return [configs.freeze(session, server.id, snapshot, {}, "").id or 0 for snapshot in snapshots or (Q8, Q4)]


def run(database: Database, config: int, samples: Sequence[Sample], hours: float = 0, **fields: Any) -> str:
    """A run that began so many hours after the first; gives its public id."""
    begun = BEGAN + timedelta(hours=hours)
    with database.read() as session:
        server = session.get_one(Server, session.get_one(Config, config).server_id)
    where = {"config_id": config, "server_id": server.id, "machine_id": server.machine_id}
    values = {**where, "suite_sha256": SUITE, "started_at": begun, "queued_at": begun, **fields}
    return add_run(database, samples, **values)


CALM = (0.998, 1.003, 0.996, 1.001, 1.004, 0.999, 0.997, 1.002, 1.0, 1.002)


def calm_history(database: Database, config: int, ttft_ms: float = 500, decode_tokens_per_s: float = 50) -> list[str]:
    """Ten runs of a machine that hardly varies, a day before the first of the others."""
    return [
        run(database, config, timed(ttft_ms * factor, decode_tokens_per_s / factor), hours=hour - 24)
        for hour, factor in enumerate(CALM)
    ]


def change(database: Database, public_id: str, **fields: Any) -> None:
    with database.write() as session:
        run_row = session.exec(select(Run).where(Run.public_id == public_id)).one()
        for key, value in fields.items():
            setattr(run_row, key, value)
        session.add(run_row)


def compared(database: Database, *names: str, keys: tuple[str, ...] = HEADLINE_METRICS) -> Comparison:
    with database.read() as session:
        return compare(session, names, {"llama.cpp": "llama.cpp"}, keys)


def statements(database: Database, work: Callable[[Session], object]) -> int:
    """How many queries `work` makes."""
    seen: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("SELECT"):
            seen.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    with database.read() as session:
        work(session)
    event.remove(database.engine, "before_cursor_execute", note)
    return len(seen)
