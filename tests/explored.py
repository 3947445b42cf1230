"""A notebook with something for every chart of the explorer: quantizations, prompt lengths, depths, streams, power."""

import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlmodel import Session

from app.ceiling.hf_config import from_config
from app.ceiling.number_formats import bits_of_label
from app.core.configuration import Snapshot
from app.core.samples import Workload
from app.db import configs, machines, servers
from app.db.tables import FULL_GEOMETRY, Measurement, Run, Server
from app.metrics import metrics
from tests.ceiling.models import MODELS
from tests.remembered import remembered

START = datetime(2026, 8, 1, 9, 30, tzinfo=UTC)
GB = 10**9
MODEL_SPEEDS = {"Qwen3-30B-A3B": 300.0, "Llama-3.3-70B": 65.0}
"""Decode in tok/s with one bit per weight."""
QUANTIZATIONS = ("Q8_0", "Q4_K_M", "IQ2_XS", "F16", "Q6_K")
"""Not in the order of their sizes."""


@remembered
def add_notebook(session: Session, repeats: int = 3) -> list[str]:
    """Two machines with a server each, ten configurations of two models; gives the public ids of the runs."""
    chance = random.Random(repeats)
    places = list(_servers(session))
    ids: list[str] = []
    for number, (model, speed) in enumerate(MODEL_SPEEDS.items()):
        server = places[number]
        for quantization in QUANTIZATIONS:
            snapshot = Snapshot("llama.cpp", f"b{6301 + number}", model, quantization, _settings(number))
            bits = bits_of_label(quantization) or 16
            geometry = {FULL_GEOMETRY: from_config(MODELS[model], bits).to_json()}
            config = configs.freeze(session, server.id or 0, snapshot, geometry, "")
            for repeat in range(repeats):
                for suite, points in SUITES.items():
                    started = START + timedelta(days=len(ids) // 3, minutes=repeat)
                    public_id = f"exp{len(ids):05d}"
                    run = add_run(session, server, config.id, suite, points[0], public_id, started)
                    session.add_all(_numbers(run, points, speed / bits, chance))
                    ids.append(public_id)
    return ids


SUITES = {
    "triple": (Workload(512, 128),),
    "lengths": (Workload(200, 128), Workload(2000, 128), Workload(8000, 128)),
    "depth": tuple(Workload(64, 64, 1, depth) for depth in (0, 4096, 16384)),
    "concurrency": tuple(Workload(512, 128, streams) for streams in (1, 2, 4, 8)),
}


def _settings(number: int) -> dict[str, Any]:
    return {"context": 8192 * (number + 1), "kv_type_k": ("f16", "q8_0")[number], "governor": "=performance"}


def _servers(session: Session) -> Iterator[Server]:
    for name, count, bandwidth in (("strix-halo", 1, 256), ("2×3090", 2, 936)):
        card = {"name": name, "count": count, "memory_bytes": 96 * GB, "bandwidth_bytes_per_s": bandwidth * GB}
        machine = machines.add_machine(session, name, accelerators=[{**card, "source": "catalogue"}])
        assert machine.id is not None
        yield servers.add_server(session, machine.id, f"{name} 8080", "llama.cpp", f"http://127.0.0.1:{9000 + count}")


def add_run(
    session: Session,
    server: Server,
    config_id: int | None,
    suite: str,
    main: Workload,
    public_id: str,
    started: datetime,
) -> Run:
    assert server.id is not None
    run = Run(
        public_id=public_id,
        machine_id=server.machine_id,
        server_id=server.id,
        config_id=config_id,
        suite_key=suite,
        suite_sha256=suite,
        status="done",
        main_point_key=main.key,
        labels=["night"] if started.day % 2 else [],
        queued_at=started,
        started_at=started,
        finished_at=started + timedelta(seconds=21),
    )
    session.add(run)
    session.flush()
    return run


def _numbers(run: Run, points: Iterable[Workload], speed: float, chance: random.Random) -> Iterator[Measurement]:
    for point in points:
        decode = speed * chance.gauss(1, 0.02) / (1 + (point.depth + point.prompt_tokens) / 20_000)
        decode /= 1 + 0.35 * (point.concurrency - 1) / 2
        ttft = 40 + point.prompt_tokens * 25 / speed * chance.gauss(1, 0.02)
        yield number(run, point, "decode_tokens_per_s", "client", "tok/s", decode)
        yield number(run, point, "decode_tokens_per_s", "server", "tok/s", decode * 1.01, is_shown=False)
        yield number(run, point, "ttft_ms", "client", "ms", ttft)
        yield number(run, point, "prefill_tokens_per_s", "server", "tok/s", point.prompt_tokens / ttft * 1000)
        yield number(run, point, "output_tokens_per_s", "client", "tok/s", decode * point.concurrency * 0.9)
        yield number(run, point, "joules_per_output_token", "client", "J", (90 + 20 * point.concurrency) / decode)


def number(
    run: Run,
    point: Workload,
    metric: str,
    source: str,
    unit: str,
    value: float | None,
    is_shown: bool = True,
    null_reason: str | None = None,
) -> Measurement:
    assert run.id is not None
    return Measurement(
        run_id=run.id,
        point_key=point.key,
        metric=metric,
        source=source,
        unit=unit,
        is_shown=is_shown,
        value=value,
        null_reason=null_reason,
        sample_count=5,
        formula_version=metrics()[metric].formula_version,
    )
