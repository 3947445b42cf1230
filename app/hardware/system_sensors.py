"""Sensors of the machine itself: load, memory, swap, and the power of its processors."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil


@dataclass
class SensorValues:
    """What the sources have said so far of one moment."""

    values: dict[str, float] = field(default_factory=dict)
    throttles: list[str] = field(default_factory=list)


SensorSource = Callable[[SensorValues], None]


def system_sources() -> list[SensorSource]:
    psutil.cpu_percent()  # the first answer is of no interval
    return [_load, _memory, _swap, *rapl_sources()]


def _load(found: SensorValues) -> None:
    found.values["cpu_load_percent"] = psutil.cpu_percent()


def _memory(found: SensorValues) -> None:
    found.values["ram_available_bytes"] = psutil.virtual_memory().available


def _swap(found: SensorValues) -> None:
    """Where the system hides its counters, psutil warns and says 0: then nothing is known of swapping."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        swap = psutil.swap_memory()
    found.values |= {"swap_used_bytes": swap.used, "swapped_bytes": swap.sin + swap.sout}  # since the system started


# --- power by counters of energy -------------------------------------------------------------------------------------


class EnergyCounter:
    """Power from two readings of a counter of microjoules. Several of one name add up."""

    def __init__(self, path: Path, name: str, range_uj: int | None = None) -> None:
        """`range_uj`: where it begins anew."""
        self._path, self._name, self._range_uj = path, name, range_uj
        self._last = self._now()

    def _now(self) -> tuple[float, int]:
        return time.monotonic(), int(self._path.read_text())

    def __call__(self, found: SensorValues) -> None:
        (then_s, then_uj), (now_s, now_uj) = self._last, self._now()
        self._last = now_s, now_uj
        used_uj = now_uj - then_uj
        if used_uj < 0 and self._range_uj:
            used_uj += self._range_uj
        if now_s > then_s and used_uj >= 0:  # less than before: its driver was loaded anew
            power_w = used_uj / 1e6 / (now_s - then_s)
            found.values[self._name] = found.values.get(self._name, 0.0) + power_w


def rapl_sources(root: Path = Path("/sys/class/powercap")) -> Iterator[SensorSource]:
    """The processor's packages only: other domains (cores, the whole board) are part of them or hold them.

    Mostly readable by root alone.
    """
    for folder in sorted(root.glob("intel-rapl:*")):
        with suppress(OSError, ValueError):  # not readable without rights: absent
            if (folder / "name").read_text().startswith("package"):
                range_uj = int((folder / "max_energy_range_uj").read_text())
                yield EnergyCounter(folder / "energy_uj", "cpu_power_w", range_uj)
