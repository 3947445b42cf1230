"""Macs, by `system_profiler` and `sysctl`. The GPU of Apple silicon shares the memory of its processor."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.core.i18n import _
from app.hardware.profile import Accelerator
from app.hardware.tools import ToolUnavailable, parse_json_output, parse_number, run_tool

SYSCTL_NAMES = ("machdep.cpu.brand_string", "hw.perflevel0.l2cachesize", "hw.l3cachesize", "hw.l2cachesize")


@dataclass(frozen=True)
class AppleCpu:
    """The processor of a Mac."""

    name: str
    llc_bytes: int | None


def read_cpu() -> AppleCpu:
    """Name and last-level cache of the processor. Raises ToolUnavailable."""
    return from_sysctl(run_tool("sysctl", *SYSCTL_NAMES))


def read_gpus() -> Sequence[Accelerator]:
    """The GPUs of this Mac. Raises ToolUnavailable."""
    return from_system_profiler(run_tool("system_profiler", "SPDisplaysDataType", "-json"))


def from_sysctl(text: str) -> AppleCpu:
    """Reads lines of `name: value`; names that this Mac does not know are missing in the result. Raises
    ToolUnavailable."""
    values = {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    name = values.get("machdep.cpu.brand_string", "")
    if not name:
        raise ToolUnavailable(_("sysctl does not tell the processor"))
    sizes = (parse_number(values.get(key)) for key in ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize"))
    return AppleCpu(name, next((int(size) for size in sizes if size), None))


def from_system_profiler(text: str) -> Sequence[Accelerator]:
    """Reads the GPUs: Apple silicon names its GPU by the chip and reports the cores, which decide its bandwidth.

    Raises ToolUnavailable.
    """
    document = parse_json_output(text, "system_profiler")
    rows = document.get("SPDisplaysDataType") if isinstance(document, dict) else None
    accelerators = []
    for row in rows if isinstance(rows, list) else []:
        name = row.get("sppci_model") if isinstance(row, dict) else None
        if not isinstance(name, str) or not name.strip():
            continue
        cores = parse_number(row.get("sppci_cores"))
        vram = re.fullmatch(r"(\d+) (GB|MB)", str(row.get("spdisplays_vram", "")))
        unit = {"GB": 1 << 30, "MB": 1 << 20}
        accelerators.append(
            Accelerator(
                name=f"{name.strip()} ({cores:.0f}-core GPU)" if cores else name.strip(),
                memory_bytes=int(vram[1]) * unit[vram[2]] if vram else None,
            )
        )
    if not accelerators:
        raise ToolUnavailable(_("system_profiler lists no GPU"))
    return accelerators
