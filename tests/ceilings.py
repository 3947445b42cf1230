"""Runs under their ceilings, without a database."""

from collections.abc import Sequence
from typing import Any

from app.ceiling.geometry import Attention, Geometry, Part, Source, Weights
from app.core.samples import Workload
from app.db.machines import BandwidthValue, MachineDevice
from app.db.models import best_geometry
from app.db.tables import FULL_GEOMETRY, Config, Model
from app.metrics import MetricResult
from app.results.ceiling import Placement, Unknown, resolve_placement

GEOMETRY = Geometry(
    source=Source.GGUF,
    architecture="llama",
    weights=Weights(dense=Part(7_000_000_000, 9_000_000_000), head=Part(500_000_000, 1_000_000_000)),
    attention=(Attention(10, 1000, 1000, 32, 128, 128),),
    blocks=10,
)

POINT = Workload(512, 128)
RAM = MachineDevice("Memory", "ram", 1, None, [BandwidthValue(50e9, "measured")], llc_bytes=32 << 20)


def card(
    bandwidth: float | None = 1000e9, count: int = 1, memory: int = 24, peak: float | None = None
) -> MachineDevice:
    stated = [BandwidthValue(bandwidth, "catalogue")] if bandwidth else []
    return MachineDevice("Card", "accelerator", count, memory << 30, stated, peak, None, 64 << 20)


def placement_of(
    devices: Sequence[MachineDevice], geometry: Geometry | None = GEOMETRY, **settings: Any
) -> Placement | Unknown:
    config = Config(server_id=1, model_id=1, engine="llama.cpp", settings=settings, fingerprint="f")
    model_geometry = {FULL_GEOMETRY: geometry.to_json()} if geometry else {"parameters": 5, "size_bytes": 7}
    return resolve_placement(
        devices, config, best_geometry(Model(name="m", geometry=model_geometry, geometry_sha256=""), None)
    )


def measured(metric: str, value: float, point: Workload = POINT) -> MetricResult:
    return MetricResult(point, metric, "client", "tok/s", value, samples=5, is_shown=True)
