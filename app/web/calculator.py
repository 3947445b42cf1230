"""The calculator's state: everything is in the address, so that a result can be linked.

A pasted config.json travels there too, shortened and compressed; it is read anew, with all checks, each time.
"""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from app.ceiling.curve import CONTEXTS, CurvePoint, against_context, contexts_up_to
from app.ceiling.decode import DecodeCeiling, Device, decode_on
from app.ceiling.report import Report, report
from app.ceiling.sources import from_document, from_json
from app.ceiling.traffic import Step
from app.ceiling.types import KvTypes
from app.errors import BadInput
from app.i18n import _, translated
from app.roof import Foundation, PointRoof
from app.store.devices import KnownDevice, KnownDevices, local_name
from app.store.models import KnownModel, Told
from app.units import TERA, size
from app.web.forms import Fields, quantity, typed, whole
from app.web.model_form import MAX_CONFIG_CHARS, at_bits, bits_per_weight, config_json, from_figures

MAX_LINK = 6_000
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
    told: Told
    reports: tuple[Report, ...]
    """One for each context."""
    curve: tuple[CurvePoint, ...]
    device_source: str
    too_large: str
    """That the weights do not fit the device; empty where they do, or where its memory is unknown."""


def calculate(form: Fields, devices: KnownDevices, models: Sequence[KnownModel] = ()) -> Calculation:
    """`models`: those that were measured, which `model` may choose by id. Raises BadInput."""
    told = _told(form, models)
    known = _device(form, devices)
    kv = KvTypes.parse(form.get("kv").strip() or "f16")
    batch = whole(form.get("batch"), _("The batch")) or 1
    geometry, device = told.geometry, known.device

    def allowed(step: Step) -> DecodeCeiling:
        return decode_on(step, device)

    if geometry.weights is None:
        why = translated(geometry.assumptions[0])
        raise BadInput(_("That does not tell how many bytes the model reads for a token: {why}.", why=why))
    return Calculation(
        told,
        tuple(report(geometry, device, context, kv, batch) for context in CONTEXTS),
        tuple(against_context(geometry, allowed, kv, contexts_up_to(LONGEST), batch)),
        known.source,
        _too_large(geometry.weights.total.n_bytes, device, known.memory_bytes),
    )


def _too_large(weight_bytes: int, device: Device, memory_bytes: int | None) -> str:
    if memory_bytes is None or weight_bytes <= memory_bytes:
        return ""
    return _(
        "The weights are {weight_bytes}, and {name} holds {memory_bytes}: one alone cannot hold "
        "them, and whatever lies elsewhere is read more slowly.",
        weight_bytes=size(weight_bytes),
        name=device.name,
        memory_bytes=size(memory_bytes),
    )


def _device(form: Fields, devices: KnownDevices) -> KnownDevice:
    """What is typed stands before what is known."""
    bandwidth = quantity(form.get("bandwidth"), _("The bandwidth"))
    peak = quantity(form.get("tflops"), _("Compute"), TERA)
    name = form.get("device").strip()
    if not name:
        if bandwidth is None:
            raise BadInput(_("Pick a device or type a bandwidth: it is what the ceiling is made of."))
        return KnownDevice(Device(_("the device"), bandwidth, peak), _("as typed"), None)
    found = devices.find(name)
    if bandwidth is None and peak is None:
        return found
    device = replace(
        found.device,
        bandwidth_bytes_per_s=bandwidth or found.device.bandwidth_bytes_per_s,
        peak_flops=peak or found.device.peak_flops,
    )
    return replace(found, device=device, source=_("{source}, corrected as typed", source=found.source))


def _told(form: Fields, models: Sequence[KnownModel]) -> Told:
    if chosen := form.get("model").strip():
        known = next((one for one in models if chosen in map(str, one.ids)), None)
        if known is None or known.told is None:
            raise BadInput(_("No ceiling is known of that model any more: pick another, or type its parameters."))
        return replace(known.told, geometry=at_bits(known.told.geometry, bits_per_weight(form, "as_bits")))
    if packed := form.get("config"):
        return Told(from_json(_unpacked(packed), bits_per_weight(form)))
    return Told(from_figures(form))


def of_run(model_id: int, machine: str, known: Sequence[KnownDevice], found: Foundation, top: PointRoof) -> str:
    """The query of a calculation like a run's: its model, and its device, or what several are worth together."""
    batch = str(top.step.batch) if top.step.batch > 1 else ""
    asked = {"model": str(model_id), "kv": str(found.kv), "batch": batch}
    alone = found.holders[0].device if len(found.holders) == 1 else None
    same = next((one for one in known if alone and one.name == local_name(alone.name, machine)), None)
    if same is not None:
        asked["device"] = same.name
    if same is None or alone is None or replace(alone, name=same.name) != same.device:
        worth = found.worth(top.step)
        asked["bandwidth"] = typed(worth.bandwidth_bytes_per_s)
        asked["tflops"] = typed(worth.peak_flops, TERA)
    return urlencode({key: value for key, value in asked.items() if value})


# --- config.json in an address ---------------------------------------------------------------------------------------


def packed(text: str) -> str:
    """A config.json as a piece of an address. Raises BadInput when it is none, or too long for one."""
    needed = _needed(config_json(text))
    from_document(needed)
    link = base64.urlsafe_b64encode(zlib.compress(json.dumps(needed, separators=(",", ":")).encode(), 9)).decode()
    if len(link) > MAX_LINK:
        raise BadInput(_("This config.json is too long for a link; `roofmark ceiling FILE` reads it."))
    return link


def _needed(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if not _NOT_NEEDED.match(key)}


def _unpacked(link: str) -> bytes:
    try:
        stream = zlib.decompressobj()
        text = stream.decompress(base64.urlsafe_b64decode(link[:MAX_LINK]), MAX_CONFIG_CHARS)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise BadInput(_("The link is damaged: its config.json cannot be read. Paste it again.")) from error
    if not stream.eof:
        raise BadInput(_("The link is damaged: its config.json is not whole. Paste it again."))
    return text
