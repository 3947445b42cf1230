"""Memory modules as the board's firmware tells them: `udevadm` knows them without rights, `dmidecode` with."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.core.i18n import N_, _, joined
from app.hardware.memory import CHANNEL_BITS, DATA_RATES_MT_PER_S
from app.hardware.profile import Ram, Unknown
from app.hardware.tools import ToolUnavailable, run_tool

MODULES = N_("Speed and channels of the memory")


@dataclass(frozen=True)
class Module:
    """A slot with memory in it."""

    kind: str
    data_rate_mt_per_s: float | None
    data_bits: int | None
    locator: str
    bank: str


def read() -> tuple[Ram, list[Unknown]]:
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
            return ram_of(modules)
        reasons.append(_("{command} lists no modules", command=command[0]))
    return Ram(), [Unknown(_(MODULES), joined(*reasons, by="; "))]


def parse_udevadm(text: str) -> list[Module]:
    slots: dict[int, dict[str, str]] = {}
    for index, key, value in re.findall(r"^(?:E: ?)?MEMORY_DEVICE_(\d+)_(\w+)=(.*)$", text, re.MULTILINE):
        slots.setdefault(int(index), {})[key] = value.strip()
    present = [slots[index] for index in sorted(slots) if slots[index].get("PRESENT") != "0"]
    return [
        _module(slot, "CONFIGURED_SPEED_MTS", "SPEED_MTS", "DATA_WIDTH", "BANK_LOCATOR", "LOCATOR", "TYPE")
        for slot in present
        if _number(slot.get("SIZE"))
    ]


def parse_dmidecode(text: str) -> list[Module]:
    modules = []
    for block in re.split(r"\n(?=Handle )", text):
        if "Memory Device\n" not in block:
            continue
        slot = {key: value.strip() for key, value in re.findall(r"^\s+([\w ]+): (.*)$", block, re.MULTILINE)}
        if _number(slot.get("Size")):  # an empty slot says "No Module Installed"
            rate = "Configured Memory Speed" if "Configured Memory Speed" in slot else "Configured Clock Speed"
            modules.append(_module(slot, rate, "Speed", "Data Width", "Bank Locator", "Locator", "Type"))
    return modules


def ram_of(modules: Sequence[Module]) -> tuple[Ram, list[Unknown]]:
    """Kind, the rate of the slowest module, and the width of all channels that hold one."""
    kinds = {module.kind for module in modules if module.kind}
    rates = [module.data_rate_mt_per_s for module in modules if module.data_rate_mt_per_s]
    unknowns = []
    if len(rates) < len(modules):
        unknowns.append(Unknown(_("Speed of the memory"), _("the board does not report it for every module")))
        rates = []
    bus_bits = _bus_bits(modules)
    if bus_bits is None:
        reason = _("the board does not say on which channel each of its {count} modules is", count=len(modules))
        unknowns.append(Unknown(_("Channels of the memory"), reason))
    return Ram(kinds.pop() if len(kinds) == 1 else "", min(rates, default=None), bus_bits), unknowns


def _bus_bits(modules: Sequence[Module]) -> int | None:
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


def _channel(module: Module) -> str | None:
    """Names one channel among all sockets and controllers; several modules may share one."""
    text = f"{module.bank} {module.locator}".lower()
    letter = re.search(r"chan(?:nel)?[\s_-]*([a-z0-9])(?![a-z])", text) or re.search(
        r"dimm[\s_-]*([a-p])[0-9]?\b", text
    )
    if letter is None:
        return None
    above = re.findall(r"(?:controller|node|cpu|proc|p)[\s_-]*(\d+)", text)
    return "/".join([*above, letter[1]])


def _module(slot: Mapping[str, str], rate: str, rated: str, width: str, bank: str, locator: str, kind: str) -> Module:
    name = slot.get(kind, "").upper()
    bits = _number(slot.get(width))
    if bits is None and name.startswith("DDR"):
        bits = CHANNEL_BITS  # a module is 64 bits wide; only soldered memory comes in other widths
    return Module(
        kind=name if name in DATA_RATES_MT_PER_S else "",
        # older dmidecode writes MHz behind what is MT/s
        data_rate_mt_per_s=_number(slot.get(rate)) or _number(slot.get(rated)),
        data_bits=int(bits) if bits else None,
        locator=slot.get(locator, ""),
        bank=slot.get(bank, ""),
    )


def _number(text: str | None) -> float | None:
    found = re.match(r"\s*(\d+)", text or "")
    return float(found[1]) or None if found else None
