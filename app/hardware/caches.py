"""The size of the last-level cache: what fits in it is not read from memory."""

import re
from pathlib import Path

from app.core.i18n import _
from app.hardware.tools import ToolUnavailable, json_of, number, run_tool

CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def llc_bytes() -> int:
    """All last-level caches of the machine together. Raises NoAnswer."""
    return from_sysfs(CPUS) or from_lscpu(run_tool("lscpu", "--caches", "--json", "--bytes"))


def from_sysfs(cpus: Path) -> int | None:
    """Caches that several cores share are listed with each of them and count once."""
    levels: dict[int, dict[str, int]] = {}
    for folder in cpus.glob("cpu[0-9]*/cache/index*"):
        try:
            kind, level, size, shared = (
                (folder / name).read_text().strip() for name in ("type", "level", "size", "shared_cpu_list")
            )
        except OSError:  # a cache that tells less is left out
            continue
        found = re.fullmatch(r"(\d+)([KMG]?)", size)
        if kind != "Instruction" and found and level.isdigit():
            levels.setdefault(int(level), {})[shared] = int(found[1]) * _UNITS[found[2]]
    return sum(levels[max(levels)].values()) or None if levels else None


def from_lscpu(text: str) -> int:
    """`lscpu --caches --json --bytes`. Raises NoAnswer."""
    document = json_of(text, "lscpu")
    rows = document.get("caches") if isinstance(document, dict) else None
    sizes = {
        int(level): int(size)
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
        and row.get("type") != "Instruction"
        and (level := number(row.get("level")))
        and (size := number(row.get("all-size")))
    }
    if not sizes:
        raise ToolUnavailable(_("lscpu lists no caches"))
    return sizes[max(sizes)]
