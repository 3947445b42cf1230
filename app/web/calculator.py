"""The calculator's state: everything is in the address, so that a result can be linked.

A pasted config.json travels there too, shortened and compressed; it is read anew, with all checks, each time.
"""

import base64
import binascii
import json
import re
import zlib
from dataclasses import dataclass, replace
from typing import Any

from app.ceiling.curve import CONTEXTS, CurvePoint, against_context, contexts_up_to
from app.ceiling.decode import GIGA, TERA, DecodeCeiling, Device, decode_on
from app.ceiling.geometry import Attention, Geometry, typed
from app.ceiling.report import Report, report
from app.ceiling.sources import from_document, from_json
from app.ceiling.traffic import Step
from app.ceiling.types import USUAL_BITS, KvTypes
from app.errors import BadInput
from app.hardware.catalogue import Catalogue
from app.units import size
from app.web.forms import Fields, quantity, whole

MAX_LINK = 6_000
MAX_CONFIG_BYTES = 256 << 10
LONGEST = 131_072
EXAMPLE = Fields(
    [
        ("device", "GeForce RTX 3090"),
        ("total", "8.03"),
        ("bits", "Q4_K_M"),
        ("layers", "32"),
        ("kv_heads", "8"),
        ("head_dim", "128"),
    ]
)
"""An 8 B Llama on a well-known card."""

_NOT_NEEDED = re.compile(r".*(token_id|dropout|_std|initializer|_name_or_path|auto_map|use_cache|transformers_version)")


@dataclass(frozen=True)
class Calculation:
    reports: tuple[Report, ...]
    """One for each context."""
    curve: tuple[CurvePoint, ...]
    device_source: str
    too_large: str
    """That the weights do not fit the device; empty where they do, or where its memory is unknown."""


def calculate(form: Fields, catalogue: Catalogue) -> Calculation:
    """Raises BadInput."""
    geometry = _geometry(form)
    device, source, memory_bytes = _device(form, catalogue)
    kv = KvTypes.parse(form.get("kv").strip() or "f16")
    batch = whole(form.get("batch"), "The batch") or 1

    def allowed(step: Step) -> DecodeCeiling:
        return decode_on(step, device)

    if geometry.weights is None:
        raise BadInput("That config.json does not tell how many weights the model has.")
    return Calculation(
        tuple(report(geometry, device, context, kv, batch) for context in CONTEXTS),
        tuple(against_context(geometry, allowed, kv, contexts_up_to(LONGEST), batch)),
        source,
        _too_large(geometry.weights.total.n_bytes, device, memory_bytes),
    )


def _too_large(weight_bytes: int, device: Device, memory_bytes: int | None) -> str:
    if memory_bytes is None or weight_bytes <= memory_bytes:
        return ""
    return (
        f"The weights are {size(weight_bytes)}, and {device.name} holds {size(memory_bytes)}: one alone cannot hold "
        "them, and whatever lies elsewhere is read more slowly."
    )


def _device(form: Fields, catalogue: Catalogue) -> tuple[Device, str, int | None]:
    """And where its figures come from, and its memory. What is typed stands before the catalogue."""
    bandwidth = quantity(form.get("bandwidth"), "The bandwidth")
    peak = quantity(form.get("tflops"), "Compute", TERA)
    name = form.get("device").strip()
    if not name:
        if bandwidth is None:
            raise BadInput("Pick a device or type a bandwidth: it is what the ceiling is made of.")
        return Device("the device", bandwidth, peak), "as typed", None
    match = catalogue.find(name)
    found = match.device or next((d for d in catalogue.devices if d.name.casefold() == name.casefold()), None)
    if found is None:
        if match.candidates:
            names = ", ".join(device.name for device in match.candidates[:6])
            raise BadInput(f"{name[:60]!r} may be several devices: {names}.")
        raise BadInput(f"The catalogue has no device {name[:60]!r}; leave it empty and type its bandwidth.")
    known_peak = found.fastest_flops_per_s or found.compute_flops_per_s
    source = f"catalogue: {found.source}" + (", corrected as typed" if bandwidth or peak else "")
    device = Device(found.name, bandwidth or found.bandwidth_bytes_per_s, peak or known_peak)
    return device, source, found.memory_bytes


def _geometry(form: Fields) -> Geometry:
    bits = _bits(form.get("bits"))
    if packed := form.get("config"):
        return from_json(_unpacked(packed), bits)
    total = quantity(form.get("total"), "The parameters", GIGA)
    if total is None:
        raise BadInput("Type the model's parameters, or paste its config.json.")
    active = quantity(form.get("active"), "The active parameters", GIGA) or total
    if bits is None:
        raise BadInput("Bits per weight are missing: 4.85 for Q4_K_M, 8.5 for Q8_0, 16 for BF16.")
    found = typed(total, active, bits)
    layers, heads, dim = (
        whole(form.get(key), title)
        for key, title in (("layers", "Layers"), ("kv_heads", "KV heads"), ("head_dim", "The head size"))
    )
    if layers is None or heads is None or dim is None:
        return found
    if not (0 < layers <= 2_000 and 0 < heads <= 4_096 and 0 < dim <= 65_536):
        raise BadInput("Layers, KV heads and head size must be numbers above zero that a model can have.")
    return replace(
        found,
        attention=(Attention(layers, heads * dim, heads * dim, 0, dim, dim),),
        blocks=layers,
        assumptions=(
            *found.assumptions[:1],
            "all layers see the whole context; their attention in prefill is left out",
        ),
    )


def _bits(text: str) -> float | None:
    """A number, or a quantization such as Q4_K_M."""
    text = text.strip()
    if (usual := USUAL_BITS.get(text.upper())) is not None:
        return usual
    return quantity(text, "Bits per weight", 1)


# --- config.json in an address ---------------------------------------------------------------------------------------


def packed(text: str) -> str:
    """A config.json as a piece of an address. Raises BadInput when it is none, or too long for one."""
    if len(text) > MAX_CONFIG_BYTES:
        raise BadInput("It is larger than any config.json.")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput("This is not sound JSON; paste the whole file, from { to }.") from error
    if not isinstance(document, dict):
        raise BadInput("It is JSON, but no config.json of a model.")
    needed = _needed(document)
    from_document(needed)
    link = base64.urlsafe_b64encode(zlib.compress(json.dumps(needed, separators=(",", ":")).encode(), 9)).decode()
    if len(link) > MAX_LINK:
        raise BadInput("This config.json is too long for a link; `roofmark ceiling FILE` reads it.")
    return link


def _needed(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if not _NOT_NEEDED.match(key)}


def _unpacked(link: str) -> bytes:
    try:
        stream = zlib.decompressobj()
        text = stream.decompress(base64.urlsafe_b64decode(link[:MAX_LINK]), MAX_CONFIG_BYTES)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise BadInput("The link is damaged: its config.json cannot be read. Paste it again.") from error
    if not stream.eof:
        raise BadInput("The link is damaged: its config.json is not whole. Paste it again.")
    return text
