"""Macs, by `system_profiler` and `sysctl`. The GPU of Apple silicon shares the memory of its processor."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.core.i18n import _
from app.hardware.profile import Accelerator
from app.hardware.tools import ToolUnavailable, json_of, number, run_tool

SYSCTL_NAMES = ("machdep.cpu.brand_string", "hw.perflevel0.l2cachesize", "hw.l3cachesize", "hw.l2cachesize")


@dataclass(frozen=True)
class AppleCpu:
    name: str
    llc_bytes: int | None


def read_cpu() -> AppleCpu:
    """Raises NoAnswer."""
    return from_sysctl(run_tool("sysctl", *SYSCTL_NAMES))


def read_gpus() -> Sequence[Accelerator]:
    """Raises NoAnswer."""
    return from_system_profiler(run_tool("system_profiler", "SPDisplaysDataType", "-json"))


def from_sysctl(text: str) -> AppleCpu:
    """Lines of `name: value`; a name that this Mac does not know has none. Raises NoAnswer."""
    values = {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    name = values.get("machdep.cpu.brand_string", "")
    if not name:
        raise ToolUnavailable(_("sysctl does not tell the processor"))
    sizes = (number(values.get(key)) for key in ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize"))
    return AppleCpu(name, next((int(size) for size in sizes if size), None))


def from_system_profiler(text: str) -> Sequence[Accelerator]:
    """Apple silicon names its GPU by the chip and tells the cores, which decide its bandwidth. Raises NoAnswer."""
    document = json_of(text, "system_profiler")
    rows = document.get("SPDisplaysDataType") if isinstance(document, dict) else None
    found = []
    for row in rows if isinstance(rows, list) else []:
        name = row.get("sppci_model") if isinstance(row, dict) else None
        if not isinstance(name, str) or not name.strip():
            continue
        cores = number(row.get("sppci_cores"))
        vram = re.fullmatch(r"(\d+) (GB|MB)", str(row.get("spdisplays_vram", "")))
        unit = {"GB": 1 << 30, "MB": 1 << 20}
        found.append(
            Accelerator(
                name=f"{name.strip()} ({cores:.0f}-core GPU)" if cores else name.strip(),
                memory_bytes=int(vram[1]) * unit[vram[2]] if vram else None,
            )
        )
    if not found:
        raise ToolUnavailable(_("system_profiler lists no GPU"))
    return found
