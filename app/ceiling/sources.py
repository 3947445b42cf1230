"""The geometry of a file, a text, or Ollama's `/api/show`.

In `/api/show`, `model_info` holds a GGUF file's key-values and `tensors` its tensor table.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.ceiling import ggml_geometry, gguf, hf_config
from app.ceiling.geometry import Certainty, Geometry, Part, Source, Weights
from app.ceiling.ggml_geometry import geometry
from app.ceiling.ggml_keys import Keys
from app.ceiling.gguf import MAX_DIMENSIONS, MAX_NAME, Header, Tensor
from app.ceiling.named_totals import with_totals_checked
from app.ceiling.number_formats import GGML_BLOCKS, USUAL_BITS
from app.core.errors import BadInput, NotFound
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
        raise BadInput(_("Ollama's description of the model is invalid: {error}", error=error)) from error
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
        raise BadInput(_("Ollama's list of tensors is invalid.")) from error


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
    return weights, words if table else _("{words}, including those of a table that is only looked up", words=words)


MAX_JSON_BYTES = 4 << 20
MAX_INDEX_BYTES = 64 << 20
"""The largest index, which names every tensor of the model."""


def from_path(path: Path, bits: float | None = None) -> Geometry:
    """Reads a GGUF file (any shard of it), a config.json, or an answer of Ollama's /api/show. Raises BadInput,
    NotFound.
    """
    try:
        if not path.is_file():
            raise NotFound(_("There is no file {path}.", path=path))
        with path.open("rb") as file:
            start = file.read(len(gguf.MAGIC))
            if gguf.is_gguf(start):
                if bits is not None:
                    raise BadInput("A GGUF file says itself how many bits each weight has; leave --bits out.")
                return with_totals_checked(ggml_geometry.from_file(path), [path.name])
            rest = file.read(MAX_JSON_BYTES + 1)
    except OSError as error:
        raise BadInput(_("{name} cannot be read: {why}.", name=path.name, why=_(str(error.strerror)))) from error
    if path.suffix.lower() == ".gguf":
        raise BadInput(_("{name} is not a valid GGUF file: it does not begin with the letters GGUF.", name=path.name))
    try:
        geometry = from_document({**_quantization_beside(path), **_document(start + rest)}, bits)
    except BadInput as error:
        raise BadInput(_("{name}: {error}", name=path.name, error=error)) from error
    return with_totals_checked(geometry, [path.name, path.absolute().parent.name], n_bytes=_indexed_bytes(path, bits))


def _indexed_bytes(path: Path, bits: float | None) -> object:
    """Returns the total bytes that the index beside a config.json states; None without an index."""
    metadata = {} if bits is not None else _beside(path, "model.safetensors.index.json").get("metadata")
    return metadata.get("total_size") if isinstance(metadata, dict) else None


def _quantization_beside(path: Path) -> dict[str, Any]:
    """Returns the quantization from the file that ModelOpt writes beside config.json."""
    settings = _beside(path, "hf_quant_config.json").get("quantization")
    return {"quantization_config": {"quant_method": "modelopt", **settings}} if isinstance(settings, dict) else {}


def _beside(path: Path, name: str) -> dict[str, Any]:
    """Returns another file of the same model; empty when there is none, or a broken one."""
    file = path.with_name(name)
    try:
        if not file.is_file() or file == path or file.stat().st_size > MAX_INDEX_BYTES:
            return {}
        document = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):  # no file that can be read
        return {}
    return document if isinstance(document, dict) else {}


def from_gguf(text: str) -> Geometry:
    """Reads a GGUF file on this machine by its whole path, as a person typed it. Raises BadInput."""
    path = Path(text.strip())
    if not path.is_absolute() or not text.isprintable():
        raise BadInput(_("Enter the full path of the GGUF file, from the root of its drive."))
    try:
        if not path.exists():
            raise BadInput(
                _("There is no file {name} at that path on the machine that Roofmark runs on.", name=path.name)
            )
    except OSError as error:
        raise BadInput(_("{name} cannot be read: {why}.", name=path.name[:60], why=_(str(error.strerror)))) from error
    return ggml_geometry.from_file(path)


def from_json(text: str | bytes, bits: float | None = None) -> Geometry:
    """Reads the text of a config.json, or of an answer of Ollama's /api/show. Raises BadInput."""
    return from_document(_document(text), bits)


def _document(text: str | bytes) -> dict[str, Any]:
    if len(text) > MAX_JSON_BYTES:
        raise BadInput(_("It is larger than any config.json."))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(_("It is neither GGUF nor valid JSON.")) from error
    if not isinstance(document, dict):
        raise BadInput(_("It is JSON, but not the config.json of a model."))
    return document


def from_document(document: Mapping[str, Any], bits: float | None = None) -> Geometry:
    """Reads a parsed config.json or answer of Ollama, and compares the counts that it names with the geometry."""
    if (info := document.get("model_info")) is not None:
        details = document.get("details")
        label = details.get("parameter_size") if isinstance(details, dict) else None
        geometry = from_show(document)
        count = info.get("general.parameter_count") if isinstance(info, dict) else None
        return with_totals_checked(geometry, [label], count)
    return with_totals_checked(hf_config.from_config(document, bits), [document.get("_name_or_path")])
