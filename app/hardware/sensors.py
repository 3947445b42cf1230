"""What a machine's sensors say at one moment: load, memory, and of each card power, heat and clocks.

A sensor that is not there is simply absent. Names of quantities hold their units; those of a card begin with `gpu0.`,
`gpu1.`, ... in the order in which they were found (see card_sensors).
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from app.hardware import card_sensors, system_sensors
from app.hardware.system_sensors import SensorSource, SensorValues

PLAUSIBLE: Mapping[str, tuple[float, float]] = {
    "power_w": (0.0, 5_000.0),
    "temperature_c": (-50.0, 200.0),
    "load_percent": (0.0, 100.0),
    "clock_mhz": (0.0, 50_000.0),
    "memory_used_bytes": (0.0, 1e15),
}
"""By how a quantity's name ends: what lies outside is a driver's way to say that it does not know (such as 0xFFFF)."""


@dataclass(frozen=True)
class SensorReading:
    at_s: float
    """Seconds since 1970."""
    values: Mapping[str, float]
    throttles: tuple[str, ...] = ()
    """Such as `gpu0: temperature`."""


def find_sources() -> list[SensorSource]:
    """Those that this machine has. Cards come last: what a chip with graphics draws may be its processor's already."""
    found: list[SensorSource] = []
    for find in (system_sensors.system_sources, card_sensors.gpu_sources):
        with suppress(Exception):  # drivers fail in many ways: what cannot be looked for is absent
            found += find()
    return found


def read_sensors(found_sources: Sequence[SensorSource]) -> SensorReading:
    found = SensorValues()
    for source in found_sources:
        with suppress(Exception):  # drivers fail in many ways: what fails is absent, and takes no other with it
            source(found)
    known = {name: value for name, value in found.values.items() if _is_plausible(name, value)}
    return SensorReading(time.time(), known, tuple(dict.fromkeys(found.throttles)))


def _is_plausible(name: str, value: float) -> bool:
    bounds = next((bounds for ends, bounds in PLAUSIBLE.items() if name.endswith(ends)), None)
    return bounds is None or bounds[0] <= value <= bounds[1]
