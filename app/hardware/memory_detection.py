"""Memory modules as the board's firmware reports them, and the size of the last-level cache.

`udevadm` knows the modules without rights, `dmidecode` with. What fits in the cache is not read from memory.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.core.i18n import N_, _, joined
from app.hardware.memory import CHANNEL_BITS, DATA_RATES_MT_PER_S
from app.hardware.profile import Ram, UnknownItem
from app.hardware.tools import ToolUnavailable, parse_json_output, parse_number, run_tool

MODULES = N_("Speed and channels of the memory")
CPUS = Path("/sys/devices/system/cpu")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

# --- memory modules --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryModule:
    """One memory module: a slot with memory in it."""

    kind: str
    data_rate_mt_per_s: float | None
    data_bits: int | None
    locator: str
    bank: str


def read_ram() -> tuple[Ram, list[UnknownItem]]:
    """The memory modules, and what of them the board does not report."""
    reasons = []
    for command, parse in (
        (("udevadm", "info", "/sys/class/dmi/id"), parse_udevadm),
        (("dmidecode", "-t", "17"), parse_dmidecode),
    ):
        try:
            modules = parse(run_tool(*command))
        except ToolUnavailable as reason:
            reasons.append(reason.message)
            continue
        if modules:
            return summarize_modules(modules)
        reasons.append(_("{command} lists no modules", command=command[0]))
    return Ram(), [UnknownItem(_(MODULES), joined(*reasons, by="; "))]


def parse_udevadm(text: str) -> list[MemoryModule]:
    """The slots of `udevadm info /sys/class/dmi/id` that have memory in them."""
    slots: dict[int, dict[str, str]] = {}
    for index, key, value in re.findall(r"^(?:E: ?)?MEMORY_DEVICE_(\d+)_(\w+)=(.*)$", text, re.MULTILINE):
        slots.setdefault(int(index), {})[key] = value.strip()
    present = [slots[index] for index in sorted(slots) if slots[index].get("PRESENT") != "0"]
    return [
        _module(slot, "CONFIGURED_SPEED_MTS", "SPEED_MTS", "DATA_WIDTH", "BANK_LOCATOR", "LOCATOR", "TYPE")
        for slot in present
        if _number(slot.get("SIZE"))
    ]


def parse_dmidecode(text: str) -> list[MemoryModule]:
    """The slots of `dmidecode -t 17` that have memory in them."""
    modules = []
    for block in re.split(r"\n(?=Handle )", text):
        if "Memory Device\n" not in block:
            continue
        slot = {key: value.strip() for key, value in re.findall(r"^\s+([\w ]+): (.*)$", block, re.MULTILINE)}
        if _number(slot.get("Size")):  # an empty slot says "No Module Installed"
            rate = "Configured Memory Speed" if "Configured Memory Speed" in slot else "Configured Clock Speed"
            modules.append(_module(slot, rate, "Speed", "Data Width", "Bank Locator", "Locator", "Type"))
    return modules


def summarize_modules(modules: Sequence[MemoryModule]) -> tuple[Ram, list[UnknownItem]]:
    """Returns the kind, the rate of the slowest module and the width of all channels that hold a module; and what is
    unknown."""
    kinds = {module.kind for module in modules if module.kind}
    rates = [module.data_rate_mt_per_s for module in modules if module.data_rate_mt_per_s]
    unknowns = []
    if len(rates) < len(modules):
        unknowns.append(UnknownItem(_("Speed of the memory"), _("the board does not report it for every module")))
        rates = []
    bus_bits = _bus_bits(modules)
    if bus_bits is None:
        reason = _("the board does not say on which channel each of its {count} modules is", count=len(modules))
        unknowns.append(UnknownItem(_("Channels of the memory"), reason))
    return Ram(kinds.pop() if len(kinds) == 1 else "", min(rates, default=None), bus_bits), unknowns


def _bus_bits(modules: Sequence[MemoryModule]) -> int | None:
    if any(module.data_bits is None for module in modules):
        return None
    if len(modules) == 1:
        return modules[0].data_bits
    widths: dict[str, int] = {}
    for module in modules:
        channel = _channel(module)
        if channel is None:
            return None
        widths[channel] = max(widths.get(channel, 0), module.data_bits or 0)
    return sum(widths.values())


def _channel(module: MemoryModule) -> str | None:
    """Returns a name for the channel that is unique among all sockets and controllers; several modules may share a
    channel."""
    text = f"{module.bank} {module.locator}".lower()
    letter = re.search(r"chan(?:nel)?[\s_-]*([a-z0-9])(?![a-z])", text) or re.search(
        r"dimm[\s_-]*([a-p])[0-9]?\b", text
    )
    if letter is None:
        return None
    parents = re.findall(r"(?:controller|node|cpu|proc|p)[\s_-]*(\d+)", text)
    return "/".join([*parents, letter[1]])


def _module(
    slot: Mapping[str, str], rate: str, rated: str, width: str, bank: str, locator: str, kind: str
) -> MemoryModule:
    name = slot.get(kind, "").upper()
    bits = _number(slot.get(width))
    if bits is None and name.startswith("DDR"):
        bits = CHANNEL_BITS  # a module is 64 bits wide; only soldered memory has other widths
    return MemoryModule(
        kind=name if name in DATA_RATES_MT_PER_S else "",
        # older versions of dmidecode label MT/s as MHz
        data_rate_mt_per_s=_number(slot.get(rate)) or _number(slot.get(rated)),
        data_bits=int(bits) if bits else None,
        locator=slot.get(locator, ""),
        bank=slot.get(bank, ""),
    )


def _number(text: str | None) -> float | None:
    match = re.match(r"\s*(\d+)", text or "")
    return float(match[1]) or None if match else None


# --- the last-level cache --------------------------------------------------------------------------------------------


def llc_bytes() -> int:
    """The size of all last-level caches of the machine together. Raises ToolUnavailable."""
    return caches_from_sysfs(CPUS) or caches_from_lscpu(run_tool("lscpu", "--caches", "--json", "--bytes"))


def caches_from_sysfs(cpus: Path) -> int | None:
    """Returns the total size of the last-level caches. A cache that several cores share is listed with each of them and
    counted once."""
    levels: dict[int, dict[str, int]] = {}
    for folder in cpus.glob("cpu[0-9]*/cache/index*"):
        try:
            kind, level, size, cores = (
                (folder / name).read_text().strip() for name in ("type", "level", "size", "shared_cpu_list")
            )
        except OSError:  # a cache with fewer attributes is left out
            continue
        match = re.fullmatch(r"(\d+)([KMG]?)", size)
        if kind != "Instruction" and match and level.isdigit():
            levels.setdefault(int(level), {})[cores] = int(match[1]) * _UNITS[match[2]]
    return sum(levels[max(levels)].values()) or None if levels else None


def caches_from_lscpu(text: str) -> int:
    """Reads the last-level cache from `lscpu --caches --json --bytes`. Raises ToolUnavailable."""
    document = parse_json_output(text, "lscpu")
    rows = document.get("caches") if isinstance(document, dict) else None
    sizes = {
        int(level): int(size)
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
        and row.get("type") != "Instruction"
        and (level := parse_number(row.get("level")))
        and (size := parse_number(row.get("all-size")))
    }
    if not sizes:
        raise ToolUnavailable(_("lscpu lists no caches"))
    return sizes[max(sizes)]
