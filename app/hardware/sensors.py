"""Reads a machine's sensors once: load, memory and power of the system; power, temperature and clocks of GPUs.

A sensor that does not exist is absent. Quantities have their units in their names; those of a GPU begin with `gpu0.`,
`gpu1.`, ... in the order in which they are found: NVIDIA's by NVML, then AMD's and Intel's by the kernel's files.
"""

import re
import struct
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from app.hardware.nvidia import load_nvml
from app.hardware.tools import ToolUnavailable

PLAUSIBLE: Mapping[str, tuple[float, float]] = {
    "power_w": (0.0, 5_000.0),
    "temperature_c": (-50.0, 200.0),
    "load_percent": (0.0, 100.0),
    "clock_mhz": (0.0, 50_000.0),
    "memory_used_bytes": (0.0, 1e15),
}
"""Plausible ranges by the ending of a quantity's name. Drivers report values outside of them (such as 0xFFFF) for
unknown ones."""


@dataclass(frozen=True)
class SensorReading:
    """All sensors at one moment."""

    at_s: float
    """Seconds since 1970."""
    values: Mapping[str, float]
    throttles: tuple[str, ...] = ()
    """Such as `gpu0: temperature`."""


@dataclass
class SensorValues:
    """What the sources have reported so far for one reading."""

    values: dict[str, float] = field(default_factory=dict)
    throttles: list[str] = field(default_factory=list)


SensorSource = Callable[[SensorValues], None]
"""A function that adds what one sensor or one GPU reports."""


def find_sources() -> list[SensorSource]:
    """Returns the sources that this machine has. GPUs come last, since an APU's power may be reported with its
    processor already."""
    sources: list[SensorSource] = []
    for find in (system_sources, gpu_sources):
        with suppress(Exception):  # drivers fail in many ways: a source that cannot be searched for is absent
            sources += find()
    return sources


def read_sensors(sources: Sequence[SensorSource]) -> SensorReading:
    """Reads every source once, without implausible values."""
    readings = SensorValues()
    for source in sources:
        with suppress(Exception):  # drivers fail in many ways: a failed source is absent, and the others go on
            source(readings)
    plausible = {name: value for name, value in readings.values.items() if _is_plausible(name, value)}
    return SensorReading(time.time(), plausible, tuple(dict.fromkeys(readings.throttles)))


def _is_plausible(name: str, value: float) -> bool:
    bounds = next((bounds for suffix, bounds in PLAUSIBLE.items() if name.endswith(suffix)), None)
    return bounds is None or bounds[0] <= value <= bounds[1]


# --- the system ------------------------------------------------------------------------------------------------------


def system_sources() -> list[SensorSource]:
    """Load, memory, swap, and the power of the processors."""
    psutil.cpu_percent()  # the first answer covers no interval
    return [_cpu_load, _memory, _swap, *rapl_sources()]


def _cpu_load(readings: SensorValues) -> None:
    readings.values["cpu_load_percent"] = psutil.cpu_percent()


def _memory(readings: SensorValues) -> None:
    readings.values["ram_available_bytes"] = psutil.virtual_memory().available


def _swap(readings: SensorValues) -> None:
    """Adds swap counters. Where the system hides them, psutil warns and reports 0: then swapping is unknown."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        swap = psutil.swap_memory()
    swapped_bytes = swap.sin + swap.sout  # since the system started
    readings.values |= {"swap_used_bytes": swap.used, "swapped_bytes": swapped_bytes}


class EnergyCounter:
    """Computes power from two readings of a counter of microjoules. Counters of one name are added up."""

    def __init__(self, path: Path, name: str, range_uj: int | None = None) -> None:
        """`range_uj` is the value at which the counter wraps around."""
        self._path, self._name, self._range_uj = path, name, range_uj
        self._last = self._read()

    def _read(self) -> tuple[float, int]:
        return time.monotonic(), int(self._path.read_text())

    def __call__(self, readings: SensorValues) -> None:
        (last_s, last_uj), (now_s, now_uj) = self._last, self._read()
        self._last = now_s, now_uj
        used_uj = now_uj - last_uj
        if used_uj < 0 and self._range_uj:
            used_uj += self._range_uj
        if now_s > last_s and used_uj >= 0:  # less than before: its driver was reloaded
            power_w = used_uj / 1e6 / (now_s - last_s)
            readings.values[self._name] = readings.values.get(self._name, 0.0) + power_w


def rapl_sources(root: Path = Path("/sys/class/powercap")) -> Iterator[SensorSource]:
    """Returns sources for the power of the processor packages only: other domains (cores, the whole board) are parts of
    them or include them.

    Most systems let only root read them.
    """
    for folder in sorted(root.glob("intel-rapl:*")):
        with suppress(OSError, ValueError):  # not readable without rights: absent
            if (folder / "name").read_text().startswith("package"):
                range_uj = int((folder / "max_energy_range_uj").read_text())
                yield EnergyCounter(folder / "energy_uj", "cpu_power_w", range_uj)


# --- GPUs ------------------------------------------------------------------------------------------------------------


def gpu_sources(root: Path = Path("/sys/class/drm")) -> list[SensorSource]:
    """Returns one source for each GPU; graphics within an Intel processor have none."""
    sources = nvml_sources()
    for folder in _card_folders(root):
        if (folder / "mem_info_vram_used").exists():
            sources.append(amd_source(folder, len(sources)))
        else:
            sources.extend(intel_sources(folder, len(sources)))
    return sources


def _card_folders(root: Path) -> list[Path]:
    """Returns the folders of cards in the order of their numbers, without connectors (`card1-DP-1`)."""
    numbered = {int(match[1]): path for path in root.glob("card*") if (match := re.fullmatch(r"card(\d+)", path.name))}
    return [numbered[number] / "device" for number in sorted(numbered)]


NVML_THROTTLES: Mapping[int, str] = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature",
    0x80: "power brake",
}
"""NVML's clocks event reasons that mean a card is throttled, without those of an idle or configured card."""


def nvml_sources() -> list[SensorSource]:
    """One source for each NVIDIA GPU, in NVML's order."""
    try:
        nvml = load_nvml()
    except ToolUnavailable:  # no NVML: no such GPUs
        return []
    sources: list[SensorSource] = []
    with suppress(nvml.NVMLError):  # no driver: no such GPUs
        nvml.nvmlInit()
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                sources.append(nvml_source(nvml, index))
            except nvml.NVMLError:  # this GPU is lost, and keeps its number
                sources.append(_no_values)
    return sources


def _no_values(_: SensorValues) -> None:
    """Adds nothing: the source of a GPU that is lost."""


def nvml_source(nvml: Any, index: int) -> SensorSource:
    """Returns the source of one NVIDIA GPU; `nvml` is the initialised module pynvml. Raises NVMLError for a GPU that is
    lost."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    queries: dict[str, Callable[[], float]] = {
        "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "memory_used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
        "load_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
    }

    def read(readings: SensorValues) -> None:
        for name, query in queries.items():
            with suppress(nvml.NVMLError):  # this GPU does not report that
                readings.values[f"gpu{index}.{name}"] = float(query())
        with suppress(nvml.NVMLError):  # not every GPU reports why it is throttled
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
            readings.throttles += [f"gpu{index}: {reason}" for bit, reason in NVML_THROTTLES.items() if reasons & bit]

    return read


AMD_THROTTLES: Mapping[int, str] = {
    0x0000_0000_0000_00FF: "power limit",
    0x0000_0000_00FF_0000: "current limit",
    0x0000_FFFF_0000_0000: "temperature",
}
"""The amdgpu throttle bits that mean the same for every chip."""
AMD_THROTTLE_OFFSETS: Mapping[tuple[int, int], int] = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
"""Offsets of the throttle bits in the file gpu_metrics by the two revisions in its header; other formats do not have
them."""
APU_REVISIONS = (2, 3)
"""First revision of gpu_metrics for APUs."""


def amd_source(folder: Path, index: int) -> SensorSource:
    """Returns the source of one AMD GPU; `folder` is that of the driver amdgpu, whose files come and go."""
    files = {  # https://docs.kernel.org/gpu/amdgpu/thermal.html
        "power_w": (("hwmon/hwmon*/power1_average", "hwmon/hwmon*/power1_input"), 1e-6),
        "temperature_c": (("hwmon/hwmon*/temp1_input",), 1e-3),
        "memory_used_bytes": (("mem_info_vram_used",), 1.0),
        "load_percent": (("gpu_busy_percent",), 1.0),
        "clock_mhz": (("hwmon/hwmon*/freq1_input",), 1e-6),
        "memory_clock_mhz": (("hwmon/hwmon*/freq2_input",), 1e-6),
    }
    is_apu = _is_apu(folder)

    def read(readings: SensorValues) -> None:
        values = {
            name: number * factor
            for name, (patterns, factor) in files.items()
            for number in _first_number(folder, patterns)
        }
        if is_apu:  # its processor reports the same power, and shares most of its memory
            if (power_w := values.pop("power_w", None)) is not None:
                readings.values.setdefault("cpu_power_w", power_w)
            shared_bytes = sum(_first_number(folder, ("mem_info_gtt_used",)))
            values["memory_used_bytes"] = values.get("memory_used_bytes", 0.0) + shared_bytes
        readings.values |= {f"gpu{index}.{name}": value for name, value in values.items()}
        status = _throttle_status(_read_gpu_metrics(folder))
        readings.throttles += [f"gpu{index}: {reason}" for mask, reason in AMD_THROTTLES.items() if status & mask]

    return read


def _first_number(folder: Path, patterns: tuple[str, ...]) -> Iterator[int]:
    """Returns the number in the first of these files that holds one, if any."""
    for path in (path for pattern in patterns for path in sorted(folder.glob(pattern))):
        with suppress(OSError, ValueError):  # not every GPU has every file, nor lets everybody read it
            yield int(path.read_text())
            return


def _read_gpu_metrics(folder: Path) -> bytes:
    """Reads the file gpu_metrics: its size (16 bits), two revisions (8 bits each), and the fields that those define.
    Empty when unknown."""
    with suppress(OSError):  # older kernels and chips have none
        content = (folder / "gpu_metrics").read_bytes()
        if len(content) >= struct.calcsize("<HBB"):
            return content
    return b""


def _throttle_status(metrics: bytes) -> int:
    if not metrics:
        return 0
    _size, *revisions = struct.unpack_from("<HBB", metrics)
    offset = AMD_THROTTLE_OFFSETS.get((revisions[0], revisions[1]))
    if offset is None or len(metrics) < offset + 8:
        return 0
    (status,) = struct.unpack_from("<Q", metrics, offset)
    return 0 if status == 0xFFFF_FFFF_FFFF_FFFF else int(status)  # all bits set: not reported


def _is_apu(folder: Path) -> bool:
    if metrics := _read_gpu_metrics(folder):
        return metrics[2] in APU_REVISIONS
    return not any(folder.glob("hwmon/hwmon*/power1_cap"))  # only a card has a power limit of its own


def intel_sources(folder: Path, index: int) -> Iterator[SensorSource]:
    """One source where the drivers i915 and xe count a card's energy; graphics within a processor have no counter."""
    for path in sorted(folder.glob("hwmon/hwmon*/energy1_input")):
        with suppress(OSError, ValueError):  # not readable: absent
            yield EnergyCounter(path, f"gpu{index}.power_w")
            return
