"""AMD GPUs, by `amd-smi`, else by the older `rocm-smi`, which tells no bandwidth."""

from collections.abc import Sequence
from typing import Any

from app.core.i18n import _, joined
from app.hardware.profile import SENSOR, Accelerator
from app.hardware.tools import ToolUnavailable, json_of, number, run_tool

MIB = 1 << 20


def read() -> Sequence[Accelerator]:
    """One for each card. Raises NoAnswer."""
    try:
        return from_amd_smi(run_tool("amd-smi", "static", "--asic", "--vram", "--json"))
    except ToolUnavailable as reason:
        try:
            return from_rocm_smi(run_tool("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json"))
        except ToolUnavailable as second:
            raise ToolUnavailable(joined(reason.message, second.message, by="; ")) from second


def from_amd_smi(text: str) -> Sequence[Accelerator]:
    """A list of cards, from ROCm 6.4 on within `gpu_data`. Raises NoAnswer."""
    document = json_of(text, "amd-smi")
    cards = document.get("gpu_data") if isinstance(document, dict) else document
    found = [_smi_card(card) for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
    named = [card for card in found if card.name]
    if not named:
        raise ToolUnavailable(_("amd-smi lists no GPU"))
    return named


def _smi_card(card: dict[str, Any]) -> Accelerator:
    asic, vram = _part(card, "asic"), _part(card, "vram")
    memory = number(vram.get("size"))  # MB, which here are MiB
    bandwidth = number(vram.get("max_bandwidth"))  # GB/s
    return Accelerator(
        name=_name(asic.get("market_name")),
        memory_bytes=int(memory * MIB) if memory else None,
        bandwidth_bytes_per_s=bandwidth * 1e9 if bandwidth else None,
        source=SENSOR if bandwidth else "",
        note=_("amd-smi: maximum bandwidth") if bandwidth else "",
    )


def from_rocm_smi(text: str) -> Sequence[Accelerator]:
    """`{"card0": {...}, "system": {...}}`; the names of the fields change in their case. Raises NoAnswer."""
    document = json_of(text, "rocm-smi")
    cards = [
        {key.lower(): value for key, value in card.items()}
        for key, card in sorted(document.items() if isinstance(document, dict) else [])
        if key.startswith("card") and isinstance(card, dict)
    ]
    found = []
    for card in cards:
        name = _name(card.get("card series")) or _name(card.get("device name")) or _name(card.get("card model"))
        memory = number(card.get("vram total memory (b)"))
        if name:
            found.append(Accelerator(name=name, memory_bytes=int(memory) if memory else None))
    if not found:
        raise ToolUnavailable(_("rocm-smi lists no GPU"))
    return found


def _part(card: dict[str, Any], key: str) -> dict[str, Any]:
    part = card.get(key)
    return part if isinstance(part, dict) else {}


def _name(value: object) -> str:
    """A market name; an id such as 0x744c and N/A are none."""
    text = value.strip() if isinstance(value, str) else ""
    return "" if text.upper() == "N/A" or text.startswith("0x") else text
