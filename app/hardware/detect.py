"""What this machine is made of. Every source that says nothing is an Unknown with its reason, never an error."""

import platform
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from app.core.i18n import _
from app.hardware import amd, apple, caches, dmi, intel, nvidia
from app.hardware.catalogue import Catalogue, Device, built_in
from app.hardware.host import logical_cores, physical_cores, this_host
from app.hardware.profile import CATALOGUE, SENSOR, Accelerator, Profile, Unknown
from app.hardware.tools import ToolUnavailable


def detect(catalogue: Catalogue | None = None) -> Profile:
    """Asks the system's own tools, for a second or so. What the tools do not tell, the catalogue adds by name."""
    catalogue = catalogue or built_in()
    is_mac = platform.system() == "Darwin"
    profile = Profile(host=this_host(), physical_cores=physical_cores(), logical_cores=logical_cores())
    profile = _with_mac(profile) if is_mac else _with_board(profile)
    found: list[Accelerator] = []
    sources: dict[str, Callable[[], Sequence[Accelerator]]] = (
        {_("GPU"): apple.read_gpus}
        if is_mac
        else {_("NVIDIA GPUs"): nvidia.read, _("AMD GPUs"): amd.read, _("Intel GPUs"): intel.read}
    )
    unknowns = list(profile.unknowns)
    for what, read in sources.items():
        try:
            found += read()
        except ToolUnavailable as reason:
            unknowns.append(Unknown(what, reason.message))
    return _completed(replace(profile, unknowns=tuple(unknowns)), found, catalogue)


def _with_board(profile: Profile) -> Profile:
    ram, unknowns = dmi.read()
    llc_bytes = None
    try:
        llc_bytes = caches.llc_bytes()
    except ToolUnavailable as reason:
        unknowns.append(Unknown(_("Last-level cache"), reason.message))
    return replace(profile, ram=ram, llc_bytes=llc_bytes, unknowns=tuple(unknowns))


def _with_mac(profile: Profile) -> Profile:
    try:
        cpu = apple.read_cpu()
    except ToolUnavailable as reason:
        return replace(profile, unknowns=(Unknown(_("Processor"), reason.message),))
    return replace(profile, host=replace(profile.host, cpu=cpu.name), llc_bytes=cpu.llc_bytes)


def _completed(profile: Profile, cards: Sequence[Accelerator], catalogue: Catalogue) -> Profile:
    """Cards counted and looked up, and the bandwidth of the memory: of its modules, else that of the chip's entry."""
    unknowns = list(profile.unknowns)
    accelerators = []
    bandwidth, source = profile.ram.bandwidth_bytes_per_s, SENSOR
    for card in counted(cards):
        device = look_up(card.name, card.memory_bytes, catalogue)
        accelerators.append(completed(card, catalogue))
        if accelerators[-1].bandwidth_bytes_per_s is None:
            unknowns.append(
                Unknown(
                    _("Bandwidth of {name}", name=card.name),
                    _("not reported by the device and not in the catalogue"),
                )
            )
        if device is not None and device.kind == "apu" and bandwidth is None:
            bandwidth = device.cpu_bandwidth_bytes_per_s or device.bandwidth_bytes_per_s
            source = CATALOGUE
    return replace(
        profile,
        accelerators=tuple(accelerators),
        ram_bandwidth_bytes_per_s=bandwidth,
        ram_bandwidth_source=source if bandwidth else None,
        unknowns=tuple(unknowns),
    )


def look_up(name: str, memory_bytes: int | None, catalogue: Catalogue) -> Device | None:
    """Chips that come with different GPUs are told apart by its cores, all others are found without them."""
    for each in (name, re.sub(r" \(\d+-core GPU\)$", "", name)):
        if device := catalogue.find(each, memory_bytes).device:
            return device
    return None


def counted(cards: Iterable[Accelerator]) -> list[Accelerator]:
    """Equal cards as one with their number. Drivers of equal cards may leave slightly different memory."""
    found: list[Accelerator] = []
    for card in cards:
        for place, known in enumerate(found):
            if known.name == card.name and _is_same(known.memory_bytes, card.memory_bytes):
                found[place] = replace(known, count=known.count + card.count)
                break
        else:
            found.append(card)
    return found


def _is_same(one: int | None, other: int | None) -> bool:
    return one == other or (one is not None and other is not None and abs(one / other - 1) < 0.02)


def completed(card: Accelerator, catalogue: Catalogue) -> Accelerator:
    """A card with what the catalogue knows where the card itself says nothing; its own figures stay."""
    device = look_up(card.name, card.memory_bytes, catalogue)
    if device is None:
        return card
    known = device.accelerator()
    has_bandwidth = card.bandwidth_bytes_per_s is not None
    return replace(
        card,
        # what a shared-memory chip calls its own is only a slice of the machine's memory
        memory_bytes=None if device.kind == "apu" else card.memory_bytes or known.memory_bytes,
        bandwidth_bytes_per_s=card.bandwidth_bytes_per_s if has_bandwidth else known.bandwidth_bytes_per_s,
        compute_flops_per_s=card.compute_flops_per_s or known.compute_flops_per_s,
        fastest_flops_per_s=card.fastest_flops_per_s or known.fastest_flops_per_s,
        llc_bytes=card.llc_bytes or known.llc_bytes,
        source=card.source if has_bandwidth else known.source,
        note=card.note if has_bandwidth else known.note,
    )
