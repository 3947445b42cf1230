"""Intel GPUs, by `xpu-smi`, else by what the kernel lists of them. Neither reports a bandwidth.

Graphics within a processor share its memory and read it no faster than its cores do: they are no card of their own.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.core.i18n import _, joined
from app.hardware.profile import Accelerator
from app.hardware.tools import ToolUnavailable, parse_json_output, parse_number, run_tool

DRM = Path("/sys/class/drm")
VENDOR = "0x8086"
NAMES = {
    "0x56a0": "Arc A770",
    "0x56a1": "Arc A750",
    "0x56a2": "Arc A580",
    "0x56a5": "Arc A380",
    "0x56a6": "Arc A310",
    "0xe20b": "Arc B580",
    "0xe20c": "Arc B570",
    "0xe211": "Arc Pro B60",
    "0xe212": "Arc Pro B50",
}
"""Names by PCI device id; the kernel has no names."""
MEMORY_FILES = ("lmem_total_bytes", "prelim_lmem_total_bytes", "device/tile*/physical_vram_size_bytes")
"""The files in which drivers of several generations report the memory of a card."""
_SHARED = re.compile(r"\b(?:UHD|HD|Iris)\b|\bArc(?:\(TM\))?(?: \d+[TV])? (?:Graphics|GPU)$")


def read_gpus() -> Sequence[Accelerator]:
    """One accelerator for each GPU; none where the kernel lists no Intel graphics. Raises ToolUnavailable."""
    try:
        accelerators = from_xpu_smi(run_tool("xpu-smi", "discovery", "-j"))
    except ToolUnavailable as reason:
        try:
            return from_sysfs(DRM)
        except ToolUnavailable as second_reason:
            raise ToolUnavailable(joined(reason.message, second_reason.message, by="; ")) from second_reason
    return [replace(card, memory_bytes=_memory_of(index)) for index, card in accelerators.items()]


def from_xpu_smi(text: str) -> dict[int, Accelerator]:
    """Cards by their id, from `{"device_list": [{"device_id": 0, "device_name": ...}]}`. Raises ToolUnavailable."""
    document = parse_json_output(text, "xpu-smi")
    devices = document.get("device_list") if isinstance(document, dict) else None
    named = [
        (device["device_id"], device["device_name"].strip())
        for device in (devices if isinstance(devices, list) else [])
        if isinstance(device, dict)
        and isinstance(device.get("device_id"), int)
        and isinstance(device.get("device_name"), str)
    ]
    accelerators = {index: Accelerator(name) for index, name in named if name and not _SHARED.search(name)}
    if not accelerators:
        raise ToolUnavailable(_("xpu-smi lists no GPU with memory of its own") if named else _("xpu-smi lists no GPU"))
    return accelerators


def memory_from_xpu_smi(text: str) -> int | None:
    """The memory of one GPU, from its properties. Raises ToolUnavailable."""
    document = parse_json_output(text, "xpu-smi")
    value: Any = document.get("memory_physical_size_byte") if isinstance(document, dict) else None
    n_bytes = parse_number(value)
    return int(n_bytes) if n_bytes else None


def _memory_of(index: int) -> int | None:
    try:
        return memory_from_xpu_smi(run_tool("xpu-smi", "discovery", "-d", str(index), "-j"))
    except ToolUnavailable:  # the catalogue may know it
        return None


def from_sysfs(drm: Path) -> Sequence[Accelerator]:
    """The GPUs that the kernel lists. Raises ToolUnavailable where it lists none, or only one not in NAMES."""
    if not drm.is_dir():
        raise ToolUnavailable(_("there is no {drm}", drm=drm))
    accelerators, nameless = [], []
    for card in sorted(drm.glob("card[0-9]*")):
        if "-" in card.name or _text(card / "device/vendor") != VENDOR:  # card0-DP-1 is a connector
            continue
        identifier = _text(card / "device/device")
        sizes = (parse_number(_text(path)) for name in MEMORY_FILES for path in sorted(card.glob(name)))
        memory = sum(int(size) for size in sizes if size) or None
        if identifier in NAMES:
            accelerators.append(Accelerator(NAMES[identifier], memory_bytes=memory))
        elif memory:
            nameless.append(identifier)
    if nameless and not accelerators:
        raise ToolUnavailable(_("the kernel lists a card with the PCI id {id} and no name", id=nameless[0]))
    return accelerators


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip().lower()
    except OSError:  # a file that this card lacks
        return ""
