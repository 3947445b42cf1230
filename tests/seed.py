"""A notebook of several months, made up but deterministic: for tests, for looking at pages and for benchmarks."""

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from sqlmodel import Session

from app.ceiling.geometry import Geometry
from app.ceiling.hf_config import from_config
from app.ceiling.number_formats import USUAL_BITS
from app.core.configuration import Snapshot
from app.core.samples import CacheDefeat, CountSource, Event, Kind, Sample, ServerFigures, Status, Trace, Workload
from app.db import configs, machines, measurements, samples, servers
from app.db.tables import FULL_GEOMETRY, Machine, Measurement, Run, Server
from app.hardware.profile import CATALOGUE
from app.metrics import flags_of, metrics
from app.suites import BUILT_IN, Case, Suite
from tests.ceiling.models import MODELS
from tests.remembered import remembered

START = datetime(2026, 8, 1, 9, 30, tzinfo=UTC)
DAYS = 110
GB = 10**9


@dataclass(frozen=True)
class _Setup:
    """One configuration and about how fast it is."""

    server: int
    snapshot: Snapshot
    ttft_ms: float
    decode_tokens_per_s: float


def _setups() -> list[_Setup]:
    qwen, llama, gpt = "Qwen3-30B-A3B", "Llama-3.3-70B", "gpt-oss-120b"
    return [
        _Setup(0, Snapshot("llama.cpp", "b6301", qwen, "Q8_0", {"context": 4096, "cards": 1}), 560, 45),
        _Setup(0, Snapshot("llama.cpp", "b6301", qwen, "Q4_K_M", {"context": 8192, "cards": 1}), 545, 66),
        _Setup(0, Snapshot("llama.cpp", "b6400", qwen, "Q4_K_M", {"context": 8192, "cards": 1}), 520, 71),
        _Setup(1, Snapshot("llama.cpp", "b6301", llama, "Q4_K_M", {"cards": 2, "split_mode": "row"}), 1900, 17.5),
        _Setup(
            1,
            Snapshot("llama.cpp", "b6400", llama, "Q4_K_M", {"cards": 2, "split_mode": "row", "kv_type_k": "q8_0"}),
            1850,
            18.4,
        ),
        _Setup(2, Snapshot("openai", None, gpt, "MXFP4", {"context": 32768}, ["night"]), 410, 69),
        _Setup(2, Snapshot("openai", None, gpt, "MXFP4", {"context": 65536}), 415, 67),
    ]


@remembered
def seed(
    session: Session, runs: int = 60, configs_used: int = 7, detailed: int = 12, repetitions: int | None = None
) -> list[str]:
    """Adds three machines with a server each and `runs` done runs over 110 days; gives their public ids, oldest first.

    Only the newest `detailed` runs have samples and all of their metrics; the others have the triple, which is what
    lists and histories read. `repetitions` of each point are those of its suite unless given.
    """
    chance = random.Random(runs)
    setups = _setups()[:configs_used]
    places = _servers(session)
    rows = {
        i: configs.freeze(
            session, places[config_id.server].id or 0, config_id.snapshot, geometry_json(config_id.snapshot), ""
        )
        for i, config_id in enumerate(setups)
    }
    ids = []
    step = timedelta(days=DAYS) / max(1, runs)
    for number in range(runs):
        # later configurations come up later, and servers take turns
        reached = min(len(setups), 1 + number * (len(setups) + 1) // runs + 1)
        newest = {setups[i].server: i for i in range(reached)}
        place = chance.choice(sorted(newest.values()))
        setup, config = setups[place], rows[place]
        suite = BUILT_IN["lengths"] if number % 11 == 10 else BUILT_IN["triple"]
        suite = suite.with_counts(repetitions)
        started = START + step * number + timedelta(minutes=chance.randrange(60))
        run = made_run(places[setup.server], config.id, suite, started, f"seed{number:06d}")
        session.add(run)
        session.flush()
        assert run.id is not None
        if number >= runs - detailed:
            for sample in _samples(suite, setup, chance):
                samples.add_sample(session, run.id, sample, started)
            measurements.derive(session, run.id)
        else:
            case = suite.cases[0]
            ttft_ms = setup.ttft_ms * case.point.prompt_tokens / 512
            session.add_all(triple(run, case, ttft_ms, setup.decode_tokens_per_s, chance, deviation=0.015))
        ids.append(run.public_id)
    return ids


def geometry_json(snapshot: Snapshot) -> dict[str, Any]:
    return {FULL_GEOMETRY: geometry_of(snapshot.model, USUAL_BITS[snapshot.quantization or "F16"]).to_json()}


@cache
def geometry_of(model: str, bits: float) -> Geometry:
    return from_config(MODELS[model], bits)


def _servers(session: Session) -> list[Server]:
    server_rows = [
        ("strix-halo", 8080, "llama.cpp", ("Radeon 8060S", 1, 96, 256, 59)),
        ("2×3090", 8081, "llama.cpp", ("RTX 3090", 2, 24, 936, 142)),
        ("m3-ultra", 8000, "openai", ("M3 Ultra", 1, 192, 819, None)),
    ]
    made = []
    for name, port, engine, card in server_rows:
        machine: Machine = machines.add_machine(session, name, kind="desktop", accelerators=[accelerator(*card)])
        assert machine.id is not None
        title = f"{name} {port}"
        made.append(servers.add_server(session, machine.id, title, engine, f"http://127.0.0.1:{port}"))
    return made


def accelerator(
    name: str, count: int, memory_gb: int, bandwidth_gb_per_s: int, teraflops: int | None
) -> dict[str, Any]:
    return {
        "name": name,
        "count": count,
        "memory_bytes": memory_gb * GB,
        "bandwidth_bytes_per_s": bandwidth_gb_per_s * GB,
        "compute_flops_per_s": teraflops and teraflops * 10**12,
        "source": CATALOGUE,
    }


def made_run(server: Server, config_id: int | None, suite: Suite, started: datetime, public_id: str) -> Run:
    assert server.id is not None
    return Run(
        public_id=public_id,
        machine_id=server.machine_id,
        server_id=server.id,
        config_id=config_id,
        suite_key=suite.key,
        suite_sha256=suite.sha256,
        plan={"repetitions": suite.repetitions, "warmups": suite.warmups, "model": None},
        status="done",
        main_point_key=suite.cases[0].point.key,
        samples_planned=suite.sample_count(suite.cases),
        samples_done=suite.sample_count(suite.cases),
        queued_at=started,
        started_at=started,
        finished_at=started + timedelta(seconds=21),
    )


def triple(
    run: Run,
    case: Case,
    ttft_ms: float,
    decode_tokens_per_s: float,
    chance: random.Random,
    deviation: float = 0.005,
) -> list[Measurement]:
    """The headline metrics of a case: what lists and histories read. `deviation` is that of the run's medians."""
    assert run.id is not None
    tokens = case.point.prompt_tokens
    ttft = ttft_ms * chance.gauss(1, deviation * 4 / 3)
    decode = decode_tokens_per_s * chance.gauss(1, deviation)
    triple_values = (
        ("ttft_ms", "client", "ms", ttft),
        ("prefill_tokens_per_s", "server", "tok/s", tokens / ttft * 1030),
        ("decode_tokens_per_s", "client", "tok/s", decode),
    )
    return [
        Measurement(
            run_id=run.id,
            point_key=case.point.key,
            metric=metric,
            source=source,
            unit=unit,
            is_shown=True,
            value=value,
            low=value * 0.985,
            high=value * 1.015,
            minimum=value * 0.98,
            maximum=value * 1.02,
            standard_deviation=value * 0.012,
            sample_count=5,
            formula_version=metrics()[metric].formula_version,
        )
        for metric, source, unit, value in triple_values
    ]


def _samples(suite: Suite, setup: _Setup, chance: random.Random) -> list[Sample]:
    samples: list[Sample] = []
    for case in suite.cases:
        for place in range(suite.warmups + suite.repetitions):
            sample = made_sample(
                ordinal=len(samples),
                point=case.point,
                ttft_ms=setup.ttft_ms * case.point.prompt_tokens / 512 * chance.gauss(1, 0.02),
                decode_tokens_per_s=setup.decode_tokens_per_s * chance.gauss(1, 0.015),
                is_warmup=place < suite.warmups,
                chance=chance,
            )
            samples.append(sample)
    return samples


def made_sample(
    ordinal: int,
    point: Workload,
    ttft_ms: float,
    decode_tokens_per_s: float,
    is_warmup: bool = False,
    chance: random.Random | None = None,
) -> Sample:
    """A sample with one event per token and a server that tells its own durations."""
    chance = chance or random.Random(ordinal)
    gap = 1000 / decode_tokens_per_s
    events, at = [Event(0.4 * ttft_ms, Kind.ROLE)], ttft_ms
    for _ in range(point.output_tokens):
        events.append(Event(round(at, 3), Kind.ANSWER, size_bytes=4))
        at += gap * (chance.lognormvariate(0, 0.08) + (1.5 if chance.random() < 0.02 else 0))
    last = events[-1].at_ms
    events += [Event(last + 0.1, Kind.FINISH), Event(last + 0.2, Kind.USAGE), Event(last + 0.3, Kind.DONE)]
    trace = Trace(
        status=Status.OK,
        events=tuple(events),
        prompt_tokens=point.prompt_tokens,
        cached_tokens=0,
        output_tokens=point.output_tokens,
        count_source=CountSource.USAGE,
        finish_reason="length",
        text_sha256=f"{ordinal:064x}",
        end_ms=last + 0.4,
        server=ServerFigures(
            prompt_tokens=point.prompt_tokens,
            prompt_ms=ttft_ms * 0.97,
            output_tokens=point.output_tokens,
            decode_ms=(last - ttft_ms) * 0.998,
        ),
    )
    sample = Sample(ordinal, point, is_warmup, CacheDefeat.SWITCH, trace)
    return replace(sample, flags=flags_of(sample))
