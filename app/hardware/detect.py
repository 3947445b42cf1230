"""What this machine is made of. Every source that reports nothing is an UnknownItem with its reason, never an error."""

import platform
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from app.core.i18n import _
from app.hardware import amd, apple, intel, memory_detection, nvidia
from app.hardware.catalogue import Catalogue, CatalogueDevice, built_in
from app.hardware.host import logical_cores, physical_cores, this_host
from app.hardware.profile import CATALOGUE, SENSOR, Accelerator, Profile, UnknownItem
from app.hardware.tools import ToolUnavailable


def detect(catalogue: Catalogue | None = None) -> Profile:
    """The hardware of this machine, from the system's own tools; this takes about a second.

    What the tools do not report, the catalogue adds by name.
    """
    catalogue = catalogue or built_in()
    is_mac = platform.system() == "Darwin"
    profile = Profile(host=this_host(), physical_cores=physical_cores(), logical_cores=logical_cores())
    profile = _with_mac(profile) if is_mac else _with_board(profile)
    cards: list[Accelerator] = []
    sources: dict[str, Callable[[], Sequence[Accelerator]]] = (
        {_("GPU"): apple.read_gpus}
        if is_mac
        else {_("NVIDIA GPUs"): nvidia.read_gpus, _("AMD GPUs"): amd.read_gpus, _("Intel GPUs"): intel.read_gpus}
    )
    unknowns = list(profile.unknowns)
    for what, read in sources.items():
        try:
            cards += read()
        except ToolUnavailable as reason:
            unknowns.append(UnknownItem(what, reason.message))
    return _with_accelerators(replace(profile, unknowns=tuple(unknowns)), cards, catalogue)


def _with_board(profile: Profile) -> Profile:
    ram, unknowns = memory_detection.read_ram()
    llc_bytes = None
    try:
        llc_bytes = memory_detection.llc_bytes()
    except ToolUnavailable as reason:
        unknowns.append(UnknownItem(_("Last-level cache"), reason.message))
    return replace(profile, ram=ram, llc_bytes=llc_bytes, unknowns=tuple(unknowns))


def _with_mac(profile: Profile) -> Profile:
    try:
        cpu = apple.read_cpu()
    except ToolUnavailable as reason:
        return replace(profile, unknowns=(UnknownItem(_("Processor"), reason.message),))
    return replace(profile, host=replace(profile.host, cpu=cpu.name), llc_bytes=cpu.llc_bytes)


def _with_accelerators(profile: Profile, cards: Sequence[Accelerator], catalogue: Catalogue) -> Profile:
    """`profile` with its GPUs counted and looked up, and with the bandwidth of its memory.

    That is the bandwidth of its modules, else that of the chip's entry in the catalogue.
    """
    unknowns = list(profile.unknowns)
    accelerators = []
    bandwidth, source = profile.ram.bandwidth_bytes_per_s, SENSOR
    for card in merge_equal_cards(cards):
        device = find_device(card.name, card.memory_bytes, catalogue)
        accelerators.append(fill_from_catalogue(card, catalogue))
        if accelerators[-1].bandwidth_bytes_per_s is None:
            unknowns.append(
                UnknownItem(
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


def find_device(name: str, memory_bytes: int | None, catalogue: Catalogue) -> CatalogueDevice | None:
    """Finds the catalogue's device of that name; of chips that come with different GPUs, the one with this number of
    cores."""
    for spelling in (name, re.sub(r" \(\d+-core GPU\)$", "", name)):
        if device := catalogue.find(spelling, memory_bytes).device:
            return device
    return None


def merge_equal_cards(cards: Iterable[Accelerator]) -> list[Accelerator]:
    """Merges equal cards into one entry with their count. The drivers of equal cards may report slightly different
    memory sizes."""
    merged: list[Accelerator] = []
    for card in cards:
        for index, group in enumerate(merged):
            if group.name == card.name and _is_same_size(group.memory_bytes, card.memory_bytes):
                merged[index] = replace(group, count=group.count + card.count)
                break
        else:
            merged.append(card)
    return merged


def _is_same_size(first_bytes: int | None, second_bytes: int | None) -> bool:
    if first_bytes is None or second_bytes is None:
        return first_bytes == second_bytes
    return first_bytes == second_bytes or abs(first_bytes / second_bytes - 1) < 0.02


def fill_from_catalogue(card: Accelerator, catalogue: Catalogue) -> Accelerator:
    """Returns `card` with the catalogue's figures where it reports none itself."""
    device = find_device(card.name, card.memory_bytes, catalogue)
    if device is None:
        return card
    listed = device.accelerator()
    has_bandwidth = card.bandwidth_bytes_per_s is not None
    return replace(
        card,
        # a shared-memory chip reports only the slice of the machine's memory that is reserved for it
        memory_bytes=None if device.kind == "apu" else card.memory_bytes or listed.memory_bytes,
        bandwidth_bytes_per_s=card.bandwidth_bytes_per_s if has_bandwidth else listed.bandwidth_bytes_per_s,
        compute_flops_per_s=card.compute_flops_per_s or listed.compute_flops_per_s,
        fastest_flops_per_s=card.fastest_flops_per_s or listed.fastest_flops_per_s,
        llc_bytes=card.llc_bytes or listed.llc_bytes,
        source=card.source if has_bandwidth else listed.source,
        note=card.note if has_bandwidth else listed.note,
    )
