"""Model details from a form, of the calculator or the model's page: a config.json, a GGUF file, or figures."""

import json
from dataclasses import replace
from typing import Any

from app.ceiling.geometry import Attention, Geometry, check_bits, from_parameter_counts
from app.ceiling.number_formats import bits_of_label
from app.ceiling.sources import from_document, from_gguf
from app.core.errors import BadInput
from app.core.i18n import N_, _
from app.core.units import GIGA, format_number
from app.web.forms import Fields, parse_int, parse_quantity

MAX_CONFIG_CHARS = 256 << 10
MAX_LABEL_CHARS = 60
FIGURES = ("total", "active", "bits", "layers", "kv_heads", "head_dim")
EXAMPLES_OF_BITS = N_("4.85 for Q4_K_M, 8.5 for Q8_0, 16 for BF16")


def parse_form(form: Fields) -> tuple[Geometry, dict[str, str]]:
    """The geometry, and the fields that describe it. Raises BadInput.

    The field `way` selects the part of the form: config (`file` or `text`, and `bits`), gguf (`path`), or figures.
    """
    way = form.get("way")
    if way == "gguf":
        path = form.get("path").strip()
        return from_gguf(path), {"way": way, "path": path}
    if way == "config":
        text = form.get("file") or form.get("text")
        geometry = from_document(config_json(text), bits_per_weight(form))
        return geometry, {"way": way, "text": text, "bits": form.get("bits").strip()}
    return geometry_from_figures(form), {"way": "figures", **{key: form.get(key).strip() for key in FIGURES}}


def config_json(text: str) -> dict[str, Any]:
    """The parsed config.json. Raises BadInput for other text."""
    if len(text) > MAX_CONFIG_CHARS:
        raise BadInput(_("It is larger than any config.json."))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(_("This is not valid JSON; paste the whole config.json, from { to }.")) from error
    if not isinstance(document, dict):
        raise BadInput(_("It is JSON, but not the config.json of a model."))
    return document


def geometry_from_figures(form: Fields) -> Geometry:
    """A geometry from the number of parameters and bits per weight; with a KV cache if layers, KV heads and head size
    are given. Raises BadInput."""
    total = parse_quantity(form.get("total"), _("The parameters"), GIGA)
    if total is None:
        raise BadInput(_("Type the model's parameters, or paste its config.json."))
    active = parse_quantity(form.get("active"), _("The active parameters"), GIGA) or total
    bits = bits_per_weight(form)
    if bits is None:
        raise BadInput(_("Bits per weight are missing: {examples}.", examples=_(EXAMPLES_OF_BITS)))
    geometry = from_parameter_counts(total, active, bits)
    layers, heads, dim = (
        parse_int(form.get(key), title)
        for key, title in (("layers", _("Layers")), ("kv_heads", _("KV heads")), ("head_dim", _("The head size")))
    )
    if layers is None or heads is None or dim is None:
        return geometry
    if not (0 < layers <= 2_000 and 0 < heads <= 4_096 and 0 < dim <= 65_536):
        raise BadInput(_("Layers, KV heads and head size must be numbers above zero that a model can have."))
    return replace(
        geometry,
        attention=(Attention(layers, heads * dim, heads * dim, 0, dim, dim),),
        blocks=layers,
        assumptions=(
            *geometry.assumptions[:1],
            _("all layers see the whole context; their attention in prefill is left out"),
        ),
    )


def bits_per_weight(form: Fields, field: str = "bits") -> float | None:
    """Bits per weight from a number or a quantization such as Q4_K_M; None for an empty field. Raises BadInput."""
    text = form.get(field).strip()
    if (usual := bits_of_label(text[:MAX_LABEL_CHARS])) is not None:
        return usual
    return parse_quantity(text, _("Bits per weight"), 1)


def requantize(geometry: Geometry, bits: float | None) -> Geometry:
    """The geometry with its weights scaled to `bits` per weight; unchanged for None."""
    if bits is None or geometry.weights is None:
        return geometry
    check_bits(bits)
    words = _(
        "its weights scaled to {bits} bits each instead of {bits_per_weight}",
        bits=format_number(bits),
        bits_per_weight=format_number(geometry.weights.bits_per_weight),
    )
    weights = geometry.weights.scaled(bits / geometry.weights.bits_per_weight)
    return replace(geometry, weights=weights, assumptions=(*geometry.assumptions, words))
