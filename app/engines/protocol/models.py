"""Models as servers list them, and their names as people read them."""

import re
from collections.abc import Mapping
from typing import Any

_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
# at the end of a file name or of one of its parts: Q4_K_M, IQ3_XXS, UD-Q4_K_XL, MXFP4, BF16, ...
_QUANTIZATION = re.compile(
    r"(?:^|[-._:])((?:I?Q|TQ)\d(?:_[A-Z0-9]+)*|MXFP4|NVFP4|BF16|F16|F32|FP16|FP8|AWQ|GPTQ|INT[48])(?=$|[-._])",
    re.IGNORECASE,
)
_WEIGHT_FILE = re.compile(r"\.(gguf|bin|safetensors)$", re.IGNORECASE)


def shown_name(text: str) -> str:
    """A model's name without folders, `.gguf`, shard numbers, and the quantization at its end, which has its own field.

    So another quantization of a model is another configuration of the same model, not another model.

    >>> shown_name("/models/gemma-3-270m-Q4_K_M-00001-of-00002.gguf")
    'gemma-3-270m'
    """
    stem = file_stem(text)
    for match in _QUANTIZATION.finditer(stem):
        if match.end() == len(stem) and match.start() > 0:
            return stem[: match.start()].removesuffix("-UD") or stem
    return stem


def file_stem(text: str) -> str:
    """The last part of a path, without `.gguf` and shard numbers."""
    name = re.split(r"[/\\]", text.rstrip("/\\"))[-1]
    return _SHARD.sub("", _WEIGHT_FILE.sub("", name)) or text


def quantization_in(name: str) -> str | None:
    """The quantization in a file or model name; None where there is none.

    >>> quantization_in("gemma-3-270m-q4_k_m"), quantization_in("gemma")
    ('Q4_K_M', None)
    """
    matches = _QUANTIZATION.findall(name)
    return matches[-1].upper() if matches else None


def listed_models(value: Any) -> dict[str, Mapping[str, Any]] | None:
    """Each id with its entry, from a list of models in one of its shapes: in `data`, in `models`, or a bare list.

    None when the value is no list; entries without an id are dropped.
    """
    entries = value.get("data", value.get("models")) if isinstance(value, dict) else value
    if not isinstance(entries, list):
        return None
    models: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if isinstance(entry, dict) and (identifier := _identifier(entry)):
            models.setdefault(identifier, entry)
    return models


def _identifier(entry: Mapping[str, Any]) -> str | None:
    names = (entry.get(key) for key in ("id", "name"))
    return next((name for name in names if isinstance(name, str) and name.strip()), None)
