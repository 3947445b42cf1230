"""Geometry from Ollama's `/api/show`: `model_info` holds a GGUF file's key-values, `tensors` its tensor table."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.ceiling.geometry import Certainty, Geometry, Part, Source, Weights
from app.ceiling.ggml_geometry import geometry
from app.ceiling.ggml_keys import Keys
from app.ceiling.gguf import MAX_DIMENSIONS, Header, Tensor
from app.ceiling.gguf_reader import MAX_NAME
from app.ceiling.number_formats import GGML_BLOCKS, USUAL_BITS
from app.core.errors import BadInput
from app.core.i18n import _

MAX_TENSORS = 65_536


def from_show(document: Mapping[str, Any]) -> Geometry:
    """Reads the geometry from Ollama's answer. An older one lists no tensors: weights then follow from the
    quantization's label.

    Raises BadInput.
    """
    info, details = document.get("model_info"), document.get("details")
    if not isinstance(info, dict) or not info:
        raise BadInput(_("Ollama's answer has no model_info."))
    tensors = _tensors(document.get("tensors"))
    try:
        ollama_geometry = geometry(Header(info, tensors), Source.OLLAMA)
    except BadInput as error:
        raise BadInput(_("What Ollama says of the model makes no sense: {error}", error=error)) from error
    if tensors:
        return ollama_geometry
    label = str(details.get("quantization_level") or "") if isinstance(details, dict) else ""
    weights, words = _weights_by_label(Keys(info), ollama_geometry, label)
    return replace(
        ollama_geometry,
        weights=weights,
        assumptions=(words, *ollama_geometry.assumptions),
        certainty=Certainty.ESTIMATE,
    )


def _tensors(rows: object) -> tuple[Tensor, ...]:
    if rows is None:
        return ()
    try:
        if not isinstance(rows, list) or len(rows) > MAX_TENSORS:
            raise ValueError(_("not a list of tensors"))
        return tuple(_tensor(row) for row in rows)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(_("Ollama's list of tensors makes no sense.")) from error


def _tensor(row: Mapping[str, Any]) -> Tensor:
    name, type_name = row["name"], str(row["type"]).upper()
    block_elements, block_bytes = GGML_BLOCKS[type_name]
    if not isinstance(name, str) or len(name) > MAX_NAME or not 1 <= len(row["shape"]) <= MAX_DIMENSIONS:
        raise ValueError(_("impossible name or shape"))
    shape = tuple(int(size) for size in row["shape"])
    tensor = Tensor(name, type_name, shape, 0)
    if min(shape) < 1 or not 0 < tensor.elements < 1 << 60:
        raise ValueError("impossible shape")
    return replace(tensor, n_bytes=tensor.elements * block_bytes // block_elements)


def _weights_by_label(keys: Keys, ollama_geometry: Geometry, label: str) -> tuple[Weights | None, str]:
    count = keys.metadata.get("general.parameter_count")
    bits = USUAL_BITS.get(label.upper())
    if not isinstance(count, int) or isinstance(count, bool) or count <= 0 or bits is None:
        return None, _("Ollama lists no tensors, and the quantization's label is unknown, so the weights are unknown")
    width, vocabulary = keys.number("embedding_length"), keys.number("vocab_size")
    routed = 0
    if ollama_geometry.experts_total:
        layers = (ollama_geometry.blocks or 0) - keys.number("leading_dense_block_count")
        routed = 3 * width * keys.number("expert_feed_forward_length") * ollama_geometry.experts_total * layers
        routed = min(max(routed, 0), count)
    table = min(width * vocabulary, (count - routed) // 2)
    weights = Weights(
        dense=Part.of(count - routed - 2 * table, bits),
        routed=Part.of(routed, bits),
        head=Part.of(table, bits),
        unread=Part.of(table, bits),
    )
    words = _(
        "Ollama lists no tensors: {bits:g} bits per weight, usual for {label}, on all parameters",
        bits=bits,
        label=label,
    )
    return weights, words if table else _("{words}, those of a table that is only looked up among them", words=words)
