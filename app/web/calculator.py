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

from app.ceiling.bytes_per_step import Step
from app.ceiling.curve import CONTEXTS, CurvePoint, against_context, contexts_up_to
from app.ceiling.decode import DecodeCeiling, Device
from app.ceiling.offload import Offload
from app.ceiling.report import Report, report
from app.ceiling.sources import from_document, from_json
from app.ceiling.types import KvTypes
from app.core.errors import BadInput
from app.core.i18n import _, translated
from app.core.units import TERA
from app.db.devices import KnownDevice, KnownDevices, local_name
from app.db.models import KnownGeometry, KnownModel
from app.results.ceiling import Placement, PointCeiling
from app.web.forms import Fields, format_input, parse_int, quantity
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
    told: KnownGeometry
    reports: tuple[Report, ...]
    """One for each context."""
    curve: tuple[CurvePoint, ...]
    device_source: str
    placement: tuple[str, ...]
    """That the model does not fit the device, and what its ceiling is then; empty where it fits."""
    no_decode: str
    """Why there is no decode ceiling with an empty cache; empty where there is one."""


def calculate(form: Fields, devices: KnownDevices, models: Sequence[KnownModel] = ()) -> Calculation:
    """`models`: those that were measured, which `model` may choose by id. Raises BadInput."""
    told = _told(form, models)
    known_device = _device(form, devices)
    kv = KvTypes.parse(form.get("kv").strip() or "f16")
    batch = parse_int(form.get("batch"), _("The batch")) or 1
    geometry, device = told.geometry, known_device.device

    if geometry.weights is None:
        why = translated(geometry.assumptions[0])
        raise BadInput(_("That does not tell how many bytes the model reads for a token: {why}.", why=why))
    layout = known_device.layout(_ram(form), _offload(form))

    def allowed(step: Step) -> DecodeCeiling | None:
        return layout.decode(geometry, step)

    reports = tuple(report(geometry, device, context, kv, batch, layout=layout) for context in CONTEXTS)
    curve = tuple(against_context(geometry, allowed, kv, contexts_up_to(LONGEST), batch))
    empty, no_decode = reports[0].step, reports[0].no_decode
    overflows = empty is not None and layout.overflow(geometry, empty) is not None and not no_decode
    placement = tuple(layout.sentences(geometry, empty)) if empty and overflows else ()
    return Calculation(told, reports, curve, known_device.source, placement, no_decode)


def _ram(form: Fields) -> Device | None:
    bandwidth = quantity(form.get("ram_bandwidth"), _("The bandwidth of system memory"))
    return None if bandwidth is None else Device(_("system memory"), bandwidth)


def _offload(form: Fields) -> Offload:
    return Offload(
        gpu_layers=_count(form, "gpu_layers", _("Layers on GPU")),
        n_cpu_moe=_count(form, "n_cpu_moe", _("Layers with experts in system memory")),
        override_tensor=form.get("override_tensor").strip()[:500],
    )


def _count(form: Fields, name: str, title: str) -> int | None:
    count = parse_int(form.get(name), title)
    if count is not None and count < 0:
        raise BadInput(_("{title} must be a whole number, neither negative nor absurdly large.", title=title))
    return count


def _device(form: Fields, devices: KnownDevices) -> KnownDevice:
    """What is typed stands before what is known."""
    bandwidth = quantity(form.get("bandwidth"), _("The bandwidth"))
    peak = quantity(form.get("tflops"), _("Compute"), TERA)
    name = form.get("device").strip()
    if not name:
        if bandwidth is None:
            raise BadInput(_("Pick a device or type a bandwidth."))
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


def _told(form: Fields, models: Sequence[KnownModel]) -> KnownGeometry:
    if chosen := form.get("model").strip():
        known = next((one for one in models if chosen in map(str, one.ids)), None)
        if known is None or known.geometry_record is None:
            raise BadInput(_("No ceiling is known of that model any more: pick another, or type its parameters."))
        return replace(
            known.geometry_record, geometry=at_bits(known.geometry_record.geometry, bits_per_weight(form, "as_bits"))
        )
    if packed := form.get("config"):
        return KnownGeometry(from_json(_unpacked(packed), bits_per_weight(form)))
    return KnownGeometry(from_figures(form))


def of_run(model_id: int, machine: str, known: Sequence[KnownDevice], found: Placement, top: PointCeiling) -> str:
    """The query of a calculation like a run's: its model, and its device, or what several are worth together."""
    batch = str(top.step.batch) if top.step.batch > 1 else ""
    asked = {"model": str(model_id), "kv": str(found.kv), "batch": batch}
    alone = found.device_shares[0].device if len(found.device_shares) == 1 else None
    same = next((one for one in known if alone and one.name == local_name(alone.name, machine)), None)
    if same is not None:
        asked["device"] = same.name
    if same is None or alone is None or replace(alone, name=same.name) != same.device:
        worth = found.equivalent_device(top.step)
        asked["bandwidth"] = format_input(worth.bandwidth_bytes_per_s)
        asked["tflops"] = format_input(worth.peak_flops, TERA)
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
