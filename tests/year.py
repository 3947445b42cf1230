"""A notebook of a year, made up but deterministic: 340 runs on three machines, with answers that are known.

6 models in up to 4 quantizations each, measured anew with each of 8 builds of llama.cpp. Build UPDATE slowed decode
down by 8 % on the machine strix-halo; the run WRONG is 45 % slower than the others of its configuration; mac-studio is
busy with other work; the workstation has a second card since DOUBLED; strix-halo runs Qwen3 with a KV cache of q8_0
since QUANTIZED_KV.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlmodel import Session

from app.ceiling.bytes_per_step import kv_bytes, step
from app.ceiling.number_formats import USUAL_BITS, KvTypes
from app.core.configuration import Snapshot
from app.core.samples import Workload
from app.db import configs, machines, measurements, samples, servers
from app.db.tables import Measurement, Run, Server
from app.metrics import metrics
from app.results import hardware
from app.results.compare.soundness import machine_busy
from app.suites import BUILT_IN, Suite
from tests.remembered import remembered
from tests.seed import accelerator, geometry_json, geometry_of, made_run, made_sample, triple

RUNS = 340
END = datetime(2026, 11, 29, 20, tzinfo=UTC)
START = END - timedelta(days=364)
BUILDS = ("b7180", "b7340", "b7512", "b7689", "b7841", "b8003", "b8177", "b8342")
UPDATE = 4
"""The index of the build that slowed strix-halo down."""
SLOWDOWN = 0.92
QUANTIZATIONS = ("Q8_0", "Q6_K", "Q4_K_M", "Q3_K_M")
DOUBLED = START + timedelta(days=250)
QUANTIZED_KV = START + timedelta(days=300)
WRONG = "year-wrong"
"""The public id of the run that is wrong."""
GB = 10**9


class _Box(NamedTuple):
    """A machine with one server, and how much of its ceilings an engine reaches there."""

    name: str
    card: tuple[str, int, int, int, int]
    """Name, count, memory in GB, bandwidth in GB/s, TFLOP/s."""
    ram_bytes: int
    models: dict[str, tuple[str, ...]]
    efficiency: float
    run_deviation: float
    """The standard deviation between runs of one configuration."""


BOXES = (
    _Box(
        "strix-halo", ("Radeon 8060S", 1, 96, 256, 59), 128 * GB,
        dict.fromkeys(("Qwen3-30B-A3B", "Gemma-3-27B", "Llama-3.3-70B"), QUANTIZATIONS), 0.68, 0.008,
    ),
    _Box(
        "workstation", ("RTX 4090", 1, 24, 1008, 165), 64 * GB,
        {"Llama-3.1-8B": QUANTIZATIONS, "Mistral-Small-24B": ("Q4_K_M", "Q3_K_M")}, 0.76, 0.006,
    ),
    _Box(
        "mac-studio", ("M3 Ultra", 1, 192, 819, 114), 256 * GB,
        dict.fromkeys(("Qwen2.5-Coder-32B", "Mistral-Small-24B", "Qwen3-30B-A3B"), QUANTIZATIONS), 0.62, 0.05,
    ),
)  # fmt: skip
FAVOURITES = {
    ("strix-halo", "Qwen3-30B-A3B", "Q4_K_M"),
    ("strix-halo", "Gemma-3-27B", "Q4_K_M"),
    ("workstation", "Llama-3.1-8B", "Q4_K_M"),
    ("workstation", "Llama-3.1-8B", "Q8_0"),
    ("workstation", "Mistral-Small-24B", "Q4_K_M"),
    ("mac-studio", "Qwen2.5-Coder-32B", "Q4_K_M"),
}
"""What is measured more often."""


@dataclass(frozen=True)
class _Planned:
    """One run to make."""

    at: datetime
    box: int
    model: str
    quantization: str
    build: int
    suite: str = "triple"
    is_wrong: bool = False

    def settings(self) -> dict[str, Any]:
        settings = {"context": 32768, "parallel": 1, "cards": 1, "split_mode": "layer", "gpu_layers": 999}
        settings |= {"kv_type_k": "f16", "kv_type_v": "f16", "batch": 2048, "ubatch": 512, "threads": 16}
        box = BOXES[self.box].name
        if box == "workstation" and self.model == "Mistral-Small-24B" and self.at >= DOUBLED:
            settings["cards"] = 2
        if box == "strix-halo" and self.model == "Qwen3-30B-A3B" and self.at >= QUANTIZED_KV:
            settings |= {"kv_type_k": "q8_0", "kv_type_v": "q8_0"}
        return settings | {"flash_attention": "on"}


@remembered
def seed_year(session: Session, detailed: int = 3) -> list[str]:
    """Adds the notebook and gives the public ids of its runs, oldest first; only the newest `detailed` have samples."""
    chance = random.Random(2026)
    places = _servers(session)
    planned = _plan(chance)
    ids = []
    has_doubled = False
    for number, plan in enumerate(planned):
        if plan.at >= DOUBLED and not has_doubled:
            machines.edit_machine(session, "workstation", accelerators=[_card(BOXES[1], count=2)])
            has_doubled = True
        run = _add_run(session, places[plan.box], plan, WRONG if plan.is_wrong else f"year{number:06d}", chance)
        suite = BUILT_IN[plan.suite]
        if number >= RUNS - detailed:
            _add_samples(session, run, suite, plan, chance)
        else:
            session.add_all(_measured(run, suite, plan, chance))
        ids.append(run.public_id)
    return ids


def _plan(chance: random.Random) -> list[_Planned]:
    """Every variant once with each build, favourites again, and some at several depths; in order of time."""
    planned = list(_sweeps(chance))
    favourites = sorted(FAVOURITES)
    while len(planned) < RUNS - 1:
        box_name, model, quantization = favourites[len(planned) % len(favourites)]
        box = next(place for place, candidate in enumerate(BOXES) if candidate.name == box_name)
        at = START + timedelta(days=chance.uniform(8, 363))
        build = max(build for build in range(len(BUILDS)) if _installed(box, build) <= at)
        planned.append(_Planned(at, box, model, quantization, build, chance.choice(("triple", "triple", "depth"))))
    last = len(BUILDS) - 1
    wrong_at = _installed(1, last) + timedelta(days=12)
    planned += [_Planned(wrong_at, 1, "Llama-3.1-8B", "Q4_K_M", last, is_wrong=True)]
    return sorted(planned, key=lambda plan: plan.at)


def _sweeps(chance: random.Random) -> Iterator[_Planned]:
    for build in range(len(BUILDS)):
        for box_place, box in enumerate(BOXES):
            at = _installed(box_place, build)
            for model, quantizations in box.models.items():
                for quantization in quantizations:
                    at += timedelta(minutes=chance.randrange(5, 40))
                    yield _Planned(at, box_place, model, quantization, build)
                    if build == len(BUILDS) - 1 and (box.name, model, quantization) in FAVOURITES:
                        yield _Planned(at + timedelta(days=2), box_place, model, quantization, build, "depth")
                        for day in (4, 9, 15):
                            yield _Planned(at + timedelta(days=day), box_place, model, quantization, build)


def _installed(box: int, build: int) -> datetime:
    """When a build was installed on a machine."""
    return START + timedelta(days=1 + 46 * build + 2 * box)


def _servers(session: Session) -> list[Server]:
    added = []
    for place, box in enumerate(BOXES):
        machine = machines.add_machine(
            session, box.name, kind="desktop", accelerators=[_card(box)], ram_bytes=box.ram_bytes
        )
        assert machine.id is not None
        added.append(
            servers.add_server(session, machine.id, box.name, "llama.cpp", f"http://192.168.1.{20 + place}:8080")
        )
    return added


def _card(box: _Box, count: int = 1) -> dict[str, Any]:
    name, _count, memory_gb, bandwidth_gb_per_s, teraflops = box.card
    return accelerator(name, count, memory_gb, bandwidth_gb_per_s, teraflops)


def _add_run(session: Session, server: Server, plan: _Planned, public_id: str, chance: random.Random) -> Run:
    snapshot = Snapshot("llama.cpp", BUILDS[plan.build], plan.model, plan.quantization, plan.settings())
    config = configs.freeze(session, server.id or 0, snapshot, geometry_json(snapshot), "llama.cpp")
    run = made_run(server, config.id, BUILT_IN[plan.suite], plan.at, public_id)
    if BOXES[plan.box].name == "mac-studio" and chance.random() < 0.15:
        run.evidence = {"unsound": [machine_busy("during", chance.uniform(0.3, 0.7))]}
    session.add(run)
    session.flush()
    run.machine = machines.machine(session, BOXES[plan.box].name)
    run.hardware = hardware.freeze(session, run)
    return run


class _Speed(NamedTuple):
    ttft_ms: float
    decode_tokens_per_s: float


def _speed(plan: _Planned, point: Workload, factor: float) -> _Speed:
    """The speed at a point: a share of what bandwidth and compute allow; `factor` is how fast this run is."""
    box = BOXES[plan.box]
    settings = plan.settings()
    _name, _count, _memory_gb, bandwidth_gb_per_s, teraflops = box.card
    geometry = geometry_of(plan.model, USUAL_BITS[plan.quantization])
    read = step(geometry, context=point.prompt_tokens + point.output_tokens // 2)
    assert read is not None
    assert geometry.params_active is not None
    decode = factor * box.efficiency * bandwidth_gb_per_s * GB / read.n_bytes
    decode *= {"Q3_K_M": 0.86, "Q6_K": 0.95}.get(plan.quantization, 1)  # what unpacking costs
    if box.name == "strix-halo" and plan.build >= UPDATE:
        decode *= SLOWDOWN
    if settings["kv_type_k"] == "q8_0":
        decode *= 0.97
    if plan.is_wrong:
        decode *= 0.55
    prefill = 0.3 * factor * teraflops * 1e12 / (2 * geometry.params_active)
    return _Speed(25 + point.prompt_tokens / prefill * 1000, decode)


def _measured(run: Run, suite: Suite, plan: _Planned, chance: random.Random) -> Iterator[Measurement]:
    factor = chance.gauss(1, BOXES[plan.box].run_deviation)
    for case in suite.cases:
        yield from triple(run, case, *_speed(plan, case.point, factor), chance)
        if BOXES[plan.box].name != "mac-studio":  # whose sensors do not report it
            yield _gpu_memory(run, case.point, plan)


def _gpu_memory(run: Run, point: Workload, plan: _Planned) -> Measurement:
    """Weights, the KV cache of the whole context, and what an engine needs besides."""
    geometry = geometry_of(plan.model, USUAL_BITS[plan.quantization])
    settings = plan.settings()
    cache = kv_bytes(geometry, settings["context"], KvTypes(settings["kv_type_k"], settings["kv_type_v"]))
    assert run.id is not None
    assert geometry.weights is not None
    assert cache is not None
    used_gb = (geometry.weights.total.n_bytes + cache) / GB + 0.7
    return Measurement(
        run_id=run.id,
        point_key=point.key,
        metric="gpu_memory_gb",
        source="sensor",
        unit="GB",
        is_shown=True,
        value=used_gb,
        minimum=used_gb,
        maximum=used_gb,
        standard_deviation=0.0,
        sample_count=5,
        formula_version=metrics()["gpu_memory_gb"].formula_version,
    )


def _add_samples(session: Session, run: Run, suite: Suite, plan: _Planned, chance: random.Random) -> None:
    assert run.id is not None
    factor = chance.gauss(1, BOXES[plan.box].run_deviation)
    ordinal = 0
    for case in suite.cases:
        speed = _speed(plan, case.point, factor)
        for place in range(suite.warmups + suite.repetitions):
            sample = made_sample(
                ordinal,
                case.point,
                speed.ttft_ms * chance.gauss(1, 0.01),
                speed.decode_tokens_per_s * chance.gauss(1, 0.005),
                place < suite.warmups,
                chance,
            )
            samples.add_sample(session, run.id, replace(sample, ordinal=ordinal), plan.at)
            ordinal += 1
    measurements.derive(session, run.id)
