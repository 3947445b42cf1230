"""The state of the ceiling calculator, all of which is in the address, and texts about a model's geometry.

A pasted config.json is in the address too, shortened and compressed; each request parses and checks it again.
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
from app.ceiling.decode import CONTEXTS, CurvePoint, DecodeCeiling, Device, against_context, contexts_up_to
from app.ceiling.fit import Fit, fit
from app.ceiling.geometry import Attention, Geometry, Source
from app.ceiling.layout import Memory
from app.ceiling.number_formats import KvTypes
from app.ceiling.offload import Offload
from app.ceiling.report import Report, report
from app.ceiling.sources import from_document, from_json
from app.core.errors import BadInput
from app.core.i18n import N_, _
from app.core.units import TERA, format_number
from app.db.devices import KnownDevice, KnownDevices, local_name
from app.db.models import KnownGeometry, KnownModel
from app.results.ceiling import Placement, PointCeiling
from app.web.forms import Fields, format_input, parse_int, parse_quantity
from app.web.model_form import MAX_CONFIG_CHARS, bits_per_weight, config_json, geometry_from_figures, requantize

_GEOMETRY_SOURCES = {
    Source.GGUF: N_("read from the model's GGUF file"),
    Source.CONFIG: N_("from its config.json"),
    Source.OLLAMA: N_("as reported by Ollama"),
    Source.LLAMA_CPP: N_("read from the GGUF file that the server named"),
    Source.TYPED: N_("as typed"),
}


def attention_words(geometry: Geometry) -> list[str]:
    """The layers of each kind, such as `15 see the last 512 tokens, 256 + 256 values per token`: values of K and V,
    or of the latent of MLA."""
    if geometry.attention is None:
        return []
    words = []
    for layers in geometry.attention:
        if not layers.k_elements:
            words.append(_("{layers} use the cache of another layer", layers=layers.layers))
            continue
        values = f"{layers.k_elements:,} + {layers.v_elements:,}" if layers.v_elements else f"{layers.k_elements:,}"
        words.append(
            _(
                "{layers} see {context}, {values} values per token",
                layers=layers.layers,
                context=_seen(layers),
                values=values,
            )
        )
    without = (geometry.blocks or 0) - sum(layers.layers for layers in geometry.attention)
    return [*words, _("{without} without attention", without=without)] if without > 0 else words


def _seen(layers: Attention) -> str:
    """Returns in words which part of the cache a layer reads."""
    if layers.compression and layers.top_k:
        return _(
            "the last {window:,} tokens and {top_k:,} picked entries, one for each {compression:,} tokens",
            window=layers.window or 0,
            top_k=layers.top_k,
            compression=layers.compression,
        )
    if layers.compression:
        return _(
            "the last {window:,} tokens and an entry for each {compression:,} tokens",
            window=layers.window or 0,
            compression=layers.compression,
        )
    if layers.top_k:
        return _("{top_k:,} picked tokens", top_k=layers.top_k)
    if layers.chunk:
        return _("their chunk of {chunk:,} tokens", chunk=layers.chunk)
    return _("the last {window:,} tokens", window=layers.window) if layers.window else _("the whole context")


def geometry_source_words(record: KnownGeometry) -> str:
    """The source of a geometry, such as `from its config.json, stated on 2026-11-29`."""
    when = _(", stated on {at}", at=f"{record.stated_at:%Y-%m-%d}") if record.stated_at else ""
    return f"{_(_GEOMETRY_SOURCES[record.geometry.source])}{when}"


MAX_LINK_CHARS = 6_000
MAX_CONTEXT = 131_072
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
    known_geometry: KnownGeometry
    reports: tuple[Report, ...]
    """One for each context."""
    fits: tuple[Fit | None, ...]
    """Whether the model fits at each of them; None where its layers are unknown."""
    curve: tuple[CurvePoint, ...]
    known_device: KnownDevice
    model: tuple[str, str]
    """Name and quantization of a measured model; empty where they are typed."""
    placement: tuple[str, ...]
    """Sentences about a model that does not fit the device and its ceiling then; empty where it fits."""
    no_decode: str
    """The reason why there is no decode ceiling with an empty cache; empty where there is one."""


def calculate(form: Fields, devices: KnownDevices, models: Sequence[KnownModel] = ()) -> Calculation:
    """The ceilings for the fields of the form; its `model` is the id of one of `models`, which were measured. Raises
    BadInput."""
    known_geometry = _known_geometry(form, models)
    known_device = _device(form, devices)
    kv = KvTypes.parse(form.get("kv").strip() or "f16")
    batch = parse_int(form.get("batch"), _("The batch")) or 1
    geometry, device = known_geometry.geometry, known_device.device

    if geometry.weights is None:
        reason = geometry.assumptions[0]
        raise BadInput(_("The bytes the model reads per token are unknown: {why}.", why=reason))
    layout = known_device.layout(_ram(form), _offload(form))

    def ceiling_of(step: Step) -> DecodeCeiling | None:
        return layout.decode(geometry, step)

    reports = tuple(report(geometry, device, context, kv, batch, layout=layout) for context in CONTEXTS)
    memories = tuple(Memory(card.device, card.capacity_bytes or known_device.shared_bytes) for card in layout.cards)
    holding = replace(layout, cards=memories)
    fits = tuple(fit(holding, geometry, report.step, kv) if report.step else None for report in reports)
    curve = tuple(against_context(geometry, ceiling_of, kv, contexts_up_to(MAX_CONTEXT), batch))
    empty, no_decode = reports[0].step, reports[0].no_decode
    overflows = empty is not None and layout.overflow(geometry, empty) is not None and not no_decode
    placement = tuple(layout.sentences(geometry, empty)) if empty and overflows else ()
    return Calculation(
        known_geometry, reports, fits, curve, known_device, _model_name(form, models), placement, no_decode
    )


def _model_name(form: Fields, models: Sequence[KnownModel]) -> tuple[str, str]:
    chosen = form.get("model").strip()
    known_model = next((model for model in models if chosen and chosen in map(str, model.ids)), None)
    if known_model is None:
        return "", form.get("bits").strip()
    return known_model.name, form.get("as_bits").strip() or known_model.quantization


def _ram(form: Fields) -> Device | None:
    bandwidth = parse_quantity(form.get("ram_bandwidth"), _("The bandwidth of system memory"))
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
    """A device of the catalogue by name, with the typed figures in place of the known ones. Raises BadInput."""
    bandwidth = parse_quantity(form.get("bandwidth"), _("The bandwidth"))
    peak = parse_quantity(form.get("tflops"), _("Compute"), TERA)
    name = form.get("device").strip()
    if not name:
        if bandwidth is None:
            raise BadInput(_("Pick a device or type a bandwidth."))
        return KnownDevice(Device(_("the device"), bandwidth, peak), _("as typed"), None)
    known_device = devices.find(name)
    if bandwidth is None and peak is None:
        return known_device
    device = replace(
        known_device.device,
        bandwidth_bytes_per_s=bandwidth or known_device.device.bandwidth_bytes_per_s,
        peak_flops=peak or known_device.device.peak_flops,
    )
    return replace(known_device, device=device, source=_("{source}, corrected as typed", source=known_device.source))


def _known_geometry(form: Fields, models: Sequence[KnownModel]) -> KnownGeometry:
    if chosen := form.get("model").strip():
        known_model = next((model for model in models if chosen in map(str, model.ids)), None)
        if known_model is None or known_model.geometry_record is None:
            raise BadInput(_("That model has no ceiling any more: pick another, or type its parameters."))
        record = known_model.geometry_record
        return replace(record, geometry=requantize(record.geometry, bits_per_weight(form, "as_bits")))
    if packed := form.get("config"):
        return KnownGeometry(from_json(_unpack_config(packed), bits_per_weight(form)))
    return KnownGeometry(geometry_from_figures(form))


MAIN_CONTEXT = 5
"""The place of the context, among all, that the page's verdict and figures are about."""


def verdict_words(calculation: Calculation) -> list[str]:
    """Returns the answer that the page begins with: whether the model fits and what is left, and how fast it can be."""
    first, at, fit = calculation.reports[0], calculation.reports[MAIN_CONTEXT], calculation.fits[MAIN_CONTEXT]
    sentences = [fit.words] if fit else []
    if first.decode and at.decode:
        sentences.append(
            _(
                "Decode reaches {empty} tok/s at most with an empty cache, and {filled} with {tokens:,} tokens in it.",
                empty=format_number(first.decode.tokens_per_s),
                filled=format_number(at.decode.tokens_per_s),
                tokens=at.context,
            )
        )
    return sentences


def query_of_run(
    model_id: int, machine: str, known_devices: Sequence[KnownDevice], placement: Placement, top: PointCeiling
) -> str:
    """The query of a calculation with the model and the device of a run, or the equivalent of its several devices."""
    batch = str(top.step.batch) if top.step.batch > 1 else ""
    query = {"model": str(model_id), "kv": str(placement.kv), "batch": batch}
    only_device = placement.device_shares[0].device if len(placement.device_shares) == 1 else None
    name = local_name(only_device.name, machine) if only_device else None
    known_device = next((device for device in known_devices if device.name == name), None)
    if known_device is not None:
        query["device"] = known_device.name
    if (
        known_device is None
        or only_device is None
        or replace(only_device, name=known_device.name) != known_device.device
    ):
        equivalent = placement.equivalent_device(top.step)
        query["bandwidth"] = format_input(equivalent.bandwidth_bytes_per_s)
        query["tflops"] = format_input(equivalent.peak_flops, TERA)
    return urlencode({key: value for key, value in query.items() if value})


# --- config.json in an address ---------------------------------------------------------------------------------------


def pack_config(text: str) -> str:
    """A config.json as a part of an address. Raises BadInput for other text, or when it is too long."""
    document = _needed_keys(config_json(text))
    from_document(document)
    link = base64.urlsafe_b64encode(zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 9)).decode()
    if len(link) > MAX_LINK_CHARS:
        raise BadInput(_("This config.json is too long for a link; `roofmark ceiling FILE` reads it."))
    return link


def _needed_keys(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if not _NOT_NEEDED.match(key)}


def _unpack_config(link: str) -> bytes:
    try:
        stream = zlib.decompressobj()
        text = stream.decompress(base64.urlsafe_b64decode(link[:MAX_LINK_CHARS]), MAX_CONFIG_CHARS)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise BadInput(_("The link is damaged: its config.json cannot be read. Paste it again.")) from error
    if not stream.eof:
        raise BadInput(_("The link is damaged: its config.json is incomplete. Paste it again."))
    return text
