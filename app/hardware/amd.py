"""AMD GPUs, by `amd-smi`, else by the older `rocm-smi`, which reports no bandwidth."""

from collections.abc import Sequence
from typing import Any

from app.core.i18n import _, joined
from app.hardware.profile import SENSOR, Accelerator
from app.hardware.tools import ToolUnavailable, parse_json_output, parse_number, run_tool

MIB = 1 << 20


def read_gpus() -> Sequence[Accelerator]:
    """One accelerator for each GPU. Raises ToolUnavailable."""
    try:
        return from_amd_smi(run_tool("amd-smi", "static", "--asic", "--vram", "--json"))
    except ToolUnavailable as reason:
        try:
            return from_rocm_smi(run_tool("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json"))
        except ToolUnavailable as second_reason:
            raise ToolUnavailable(joined(reason.message, second_reason.message, by="; ")) from second_reason


def from_amd_smi(text: str) -> Sequence[Accelerator]:
    """Reads `amd-smi static --json`: a list of cards, from ROCm 6.4 on within `gpu_data`. Raises ToolUnavailable."""
    document = parse_json_output(text, "amd-smi")
    cards = document.get("gpu_data") if isinstance(document, dict) else document
    accelerators = [_accelerator(card) for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
    named = [accelerator for accelerator in accelerators if accelerator.name]
    if not named:
        raise ToolUnavailable(_("amd-smi lists no GPU"))
    return named


def _accelerator(card: dict[str, Any]) -> Accelerator:
    asic, vram = _part(card, "asic"), _part(card, "vram")
    memory = parse_number(vram.get("size"))  # MB, which here are MiB
    bandwidth = parse_number(vram.get("max_bandwidth"))  # GB/s
    return Accelerator(
        name=_name(asic.get("market_name")),
        memory_bytes=int(memory * MIB) if memory else None,
        bandwidth_bytes_per_s=bandwidth * 1e9 if bandwidth else None,
        source=SENSOR if bandwidth else "",
        note=_("amd-smi: maximum bandwidth") if bandwidth else "",
    )


def from_rocm_smi(text: str) -> Sequence[Accelerator]:
    """Reads `{"card0": {...}, "system": {...}}`; the case of field names varies between versions. Raises
    ToolUnavailable."""
    document = parse_json_output(text, "rocm-smi")
    cards = [
        {key.lower(): value for key, value in card.items()}
        for key, card in sorted(document.items() if isinstance(document, dict) else [])
        if key.startswith("card") and isinstance(card, dict)
    ]
    accelerators = []
    for card in cards:
        name = _name(card.get("card series")) or _name(card.get("device name")) or _name(card.get("card model"))
        memory = parse_number(card.get("vram total memory (b)"))
        if name:
            accelerators.append(Accelerator(name=name, memory_bytes=int(memory) if memory else None))
    if not accelerators:
        raise ToolUnavailable(_("rocm-smi lists no GPU"))
    return accelerators


def _part(card: dict[str, Any], key: str) -> dict[str, Any]:
    part = card.get(key)
    return part if isinstance(part, dict) else {}


def _name(value: object) -> str:
    """Returns a market name; None for an id such as 0x744c and for N/A."""
    text = value.strip() if isinstance(value, str) else ""
    return "" if text.upper() == "N/A" or text.startswith("0x") else text
