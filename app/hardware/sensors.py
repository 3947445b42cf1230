"""What a machine's sensors say at one moment: load, memory, and of each card power, heat and clocks.

A sensor that is not there is simply absent. Names of quantities hold their units; those of a card begin with `gpu0.`,
`gpu1.`, ... in the order in which the driver counts them.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from app.hardware.nvidia import load_nvml
from app.hardware.tools import NoAnswer

# of NVML's clocks event reasons those that mean a card is held back, not those of an idle or configured one
NVML_THROTTLES = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature",
    0x80: "power brake",
}


@dataclass(frozen=True)
class Reading:
    at_s: float
    """Seconds since 1970."""
    values: Mapping[str, float]
    throttles: tuple[str, ...] = ()
    """Such as `gpu0: temperature`."""


@dataclass
class Found:
    """What the sources have said so far of one moment."""

    values: dict[str, float] = field(default_factory=dict)
    throttles: list[str] = field(default_factory=list)


Source = Callable[[Found], None]


def sources() -> list[Source]:
    """Those that this machine has."""
    psutil.cpu_percent()  # the first answer is of no interval
    return [read_system, *_rapl(), *(_nvml() or _amd())]


def read(found_sources: list[Source]) -> Reading:
    found = Found()
    for source in found_sources:
        with suppress(OSError, ValueError):  # a sensor that fails is absent, and takes no other with it
            source(found)
    return Reading(time.time(), found.values, tuple(dict.fromkeys(found.throttles)))


def read_system(found: Found) -> None:
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    found.values |= {
        "cpu_load_percent": psutil.cpu_percent(),
        "ram_available_bytes": memory.available,
        "swap_used_bytes": swap.used,
        "swapped_bytes": swap.sin + swap.sout,  # since the system started
    }


# --- processors: RAPL's counters of energy ---------------------------------------------------------------------------


class RaplPackage:
    """One processor package's power, from two readings of its energy counter."""

    def __init__(self, folder: Path) -> None:
        self._counter = folder / "energy_uj"
        self._range_uj = int((folder / "max_energy_range_uj").read_text())
        self._last = self._now()

    def _now(self) -> tuple[float, int]:
        return time.monotonic(), int(self._counter.read_text())

    def __call__(self, found: Found) -> None:
        (then_s, then_uj), (now_s, now_uj) = self._last, self._now()
        self._last = now_s, now_uj
        if now_s > then_s:
            power_w = (now_uj - then_uj) % self._range_uj / 1e6 / (now_s - then_s)
            found.values["cpu_power_w"] = found.values.get("cpu_power_w", 0.0) + power_w


def _rapl(root: Path = Path("/sys/class/powercap")) -> Iterator[Source]:
    """Packages only: what lies below them is part of them. Mostly readable by root alone."""
    for folder in sorted(root.glob("intel-rapl:?")):
        with suppress(OSError, ValueError):  # not readable without rights: absent
            yield RaplPackage(folder)


# --- cards -----------------------------------------------------------------------------------------------------------


def _nvml() -> list[Source]:
    try:
        nvml = load_nvml()
        nvml.nvmlInit()
    except NoAnswer:  # no NVML: no such cards
        return []
    except Exception as error:  # NVML's own, whose class only the module has
        if not isinstance(error, nvml.NVMLError):
            raise
        return []
    return [nvml_card(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]


def nvml_card(nvml: Any, index: int) -> Source:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    questions: dict[str, Callable[[], float]] = {
        "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "memory_used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
        "load_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
    }

    def ask(found: Found) -> None:
        for name, question in questions.items():
            with suppress(nvml.NVMLError):  # this card does not tell that
                found.values[f"gpu{index}.{name}"] = float(question())
        with suppress(nvml.NVMLError):  # nor does every card tell why it is held back
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
            found.throttles += [f"gpu{index}: {why}" for bit, why in NVML_THROTTLES.items() if reasons & bit]

    return ask


def _amd(root: Path = Path("/sys/class/drm")) -> list[Source]:
    """Cards of the driver amdgpu, which tells everything in files."""
    folders = [path.parent for path in sorted(root.glob("card*/device/mem_info_vram_used"))]
    return [amd_card(folder, index) for index, folder in enumerate(folders)]


def amd_card(folder: Path, index: int) -> Source:
    monitor = next(iter(sorted(folder.glob("hwmon/hwmon*"))), folder)
    files = {  # https://docs.kernel.org/gpu/amdgpu/thermal.html
        "power_w": ((monitor / "power1_average", monitor / "power1_input"), 1e-6),
        "temperature_c": ((monitor / "temp1_input",), 1e-3),
        "memory_used_bytes": ((folder / "mem_info_vram_used",), 1.0),
        "load_percent": ((folder / "gpu_busy_percent",), 1.0),
        "clock_mhz": ((monitor / "freq1_input",), 1e-6),
        "memory_clock_mhz": ((monitor / "freq2_input",), 1e-6),
    }

    def ask(found: Found) -> None:
        for name, (paths, factor) in files.items():
            for path in paths:
                with suppress(OSError, ValueError):  # not every card has every file
                    found.values[f"gpu{index}.{name}"] = int(path.read_text()) * factor
                    break

    return ask
