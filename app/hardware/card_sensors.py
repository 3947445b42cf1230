"""Sensors of cards: of NVIDIA by NVML, of AMD and Intel by the kernel's files. They are counted in this order."""

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from app.hardware.nvidia import load_nvml
from app.hardware.system_sensors import EnergyCounter, SensorSource, SensorValues
from app.hardware.tools import ToolUnavailable

NVML_THROTTLES: Mapping[int, str] = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "temperature",
    0x80: "power brake",
}
"""Of NVML's clocks event reasons those that mean a card is held back, not those of an idle or configured one."""
AMD_THROTTLES: Mapping[int, str] = {
    0x0000_0000_0000_00FF: "power limit",
    0x0000_0000_00FF_0000: "current limit",
    0x0000_FFFF_0000_0000: "temperature",
}
"""Of amdgpu's throttlers that are the same for every chip."""
AMD_THROTTLE_OFFSETS: Mapping[tuple[int, int], int] = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
"""Where they stand in the file gpu_metrics, by the two revisions in its head; other formats do not have them."""
APU_REVISIONS = (2, 3)
"""First revision of gpu_metrics of chips that are processor and graphics in one."""


def gpu_sources(root: Path = Path("/sys/class/drm")) -> list[SensorSource]:
    found = nvml_sources()
    for folder in _card_folders(root):
        if (folder / "mem_info_vram_used").exists():
            found.append(amd_source(folder, len(found)))
        else:
            found.extend(intel_sources(folder, len(found)))
    return found


def _card_folders(root: Path) -> list[Path]:
    """Without their connectors (`card1-DP-1`), in the order of their numbers."""
    numbered = {int(match[1]): path for path in root.glob("card*") if (match := re.fullmatch(r"card(\d+)", path.name))}
    return [numbered[number] / "device" for number in sorted(numbered)]


# --- NVIDIA ----------------------------------------------------------------------------------------------------------


def nvml_sources() -> list[SensorSource]:
    try:
        nvml = load_nvml()
    except ToolUnavailable:  # no NVML: no such cards
        return []
    found: list[SensorSource] = []
    with suppress(nvml.NVMLError):  # no driver: no such cards
        nvml.nvmlInit()
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                found.append(nvml_source(nvml, index))
            except nvml.NVMLError:  # this one is lost, and keeps its number
                found.append(_no_values)
    return found


def _no_values(_: SensorValues) -> None:
    """Says nothing."""


def nvml_source(nvml: Any, index: int) -> SensorSource:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    questions: dict[str, Callable[[], float]] = {
        "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "memory_used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
        "load_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
    }

    def ask(found: SensorValues) -> None:
        for name, question in questions.items():
            with suppress(nvml.NVMLError):  # this card does not tell that
                found.values[f"gpu{index}.{name}"] = float(question())
        with suppress(nvml.NVMLError):  # nor does every card tell why it is held back
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
            found.throttles += [f"gpu{index}: {why}" for bit, why in NVML_THROTTLES.items() if reasons & bit]

    return ask


# --- AMD -------------------------------------------------------------------------------------------------------------


def amd_source(folder: Path, index: int) -> SensorSource:
    """`folder`: of a device of the driver amdgpu. Files come and go with the kernel, the chip and its sleep."""
    files = {  # https://docs.kernel.org/gpu/amdgpu/thermal.html
        "power_w": (("hwmon/hwmon*/power1_average", "hwmon/hwmon*/power1_input"), 1e-6),
        "temperature_c": (("hwmon/hwmon*/temp1_input",), 1e-3),
        "memory_used_bytes": (("mem_info_vram_used",), 1.0),
        "load_percent": (("gpu_busy_percent",), 1.0),
        "clock_mhz": (("hwmon/hwmon*/freq1_input",), 1e-6),
        "memory_clock_mhz": (("hwmon/hwmon*/freq2_input",), 1e-6),
    }
    is_apu = _is_apu(folder)

    def ask(found: SensorValues) -> None:
        told = {
            name: value * factor for name, (paths, factor) in files.items() for value in _first_number(folder, paths)
        }
        if is_apu:  # its processor draws the same power, and most of its memory is not its own
            if (power_w := told.pop("power_w", None)) is not None:
                found.values.setdefault("cpu_power_w", power_w)
            told["memory_used_bytes"] = told.get("memory_used_bytes", 0.0) + sum(
                _first_number(folder, ("mem_info_gtt_used",))
            )
        found.values |= {f"gpu{index}.{name}": value for name, value in told.items()}
        status = _throttle_status(_read_gpu_metrics(folder))
        found.throttles += [f"gpu{index}: {why}" for mask, why in AMD_THROTTLES.items() if status & mask]

    return ask


def _first_number(folder: Path, patterns: tuple[str, ...]) -> Iterator[int]:
    """The number in the first of these files that has one, if any."""
    for path in (path for pattern in patterns for path in sorted(folder.glob(pattern))):
        with suppress(OSError, ValueError):  # not every card has every file, nor lets everybody read it
            yield int(path.read_text())
            return


def _read_gpu_metrics(folder: Path) -> bytes:
    """The file gpu_metrics: its size (16 bits), two revisions (8 bits each), and what those define. Empty: unknown."""
    with suppress(OSError):  # older kernels and chips have none
        content = (folder / "gpu_metrics").read_bytes()
        if len(content) >= struct.calcsize("<HBB"):
            return content
    return b""


def _throttle_status(metrics: bytes) -> int:
    if not metrics:
        return 0
    _size, *revisions = struct.unpack_from("<HBB", metrics)
    at = AMD_THROTTLE_OFFSETS.get((revisions[0], revisions[1]))
    if at is None or len(metrics) < at + 8:
        return 0
    (status,) = struct.unpack_from("<Q", metrics, at)
    return 0 if status == 0xFFFF_FFFF_FFFF_FFFF else int(status)  # all bits set: not told


def _is_apu(folder: Path) -> bool:
    if metrics := _read_gpu_metrics(folder):
        return metrics[2] in APU_REVISIONS
    return not any(folder.glob("hwmon/hwmon*/power1_cap"))  # what has a power limit of its own is a card


# --- Intel -----------------------------------------------------------------------------------------------------------


def intel_sources(folder: Path, index: int) -> Iterator[SensorSource]:
    """One where the drivers i915 and xe count a card's energy; graphics within a processor have no counter."""
    for path in sorted(folder.glob("hwmon/hwmon*/energy1_input")):
        with suppress(OSError, ValueError):  # not readable: absent
            yield EnergyCounter(path, f"gpu{index}.power_w")
            return
