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
# llama.cpp's own words for a file type that is not the usual name
_FTYPES = {"Q2_K - Medium": "Q2_K", "IQ3_S mix": "IQ3_M", "MXFP4 MoE": "MXFP4"}
_SIZES = {"Small": "_S", "Medium": "_M", "Large": "_L"}


def shown_name(text: str) -> str:
    """Without folders, `.gguf`, shard numbers, and the quantization at its end, which is a field of its own.

    So another quantization of a model is another configuration of the same model, not another model.

    >>> shown_name("/models/gemma-3-270m-Q4_K_M-00001-of-00002.gguf")
    'gemma-3-270m'
    """
    whole = file_stem(text)
    for match in _QUANTIZATION.finditer(whole):
        if match.end() == len(whole) and match.start() > 0:
            return whole[: match.start()].removesuffix("-UD") or whole
    return whole


def file_stem(text: str) -> str:
    """The last part of a path, without `.gguf` and shard numbers."""
    name = re.split(r"[/\\]", text.rstrip("/\\"))[-1]
    return _SHARD.sub("", _WEIGHT_FILE.sub("", name)) or text


def quantization_in(name: str) -> str | None:
    """The quantization that a file or model name tells.

    >>> quantization_in("gemma-3-270m-q4_k_m"), quantization_in("gemma")
    ('Q4_K_M', None)
    """
    found = _QUANTIZATION.findall(name)
    return found[-1].upper() if found else None


def quantization_of_ftype(text: str) -> str | None:
    """llama.cpp's description of a file type as its usual name; None when it says it does not know.

    >>> quantization_of_ftype("Q4_K - Medium"), quantization_of_ftype("IQ2_XXS - 2.0625 bpw")
    ('Q4_K_M', 'IQ2_XXS')
    """
    words = text.removeprefix("(guessed) ").removeprefix("all ").strip()
    head, _, tail = words.partition(" - ")
    name = _FTYPES.get(words) or _FTYPES.get(head) or head + _SIZES.get(tail, "")
    return name if re.fullmatch(r"[A-Z]+\d+[A-Z0-9_]*", name) else None


def listed_models(value: Any) -> dict[str, Mapping[str, Any]] | None:
    """A model list in one of its shapes (`data`, `models`, or a bare list): each id with its entry.

    None when it is no list; entries without an id are dropped.
    """
    entries = value.get("data", value.get("models")) if isinstance(value, dict) else value
    if not isinstance(entries, list):
        return None
    found: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if isinstance(entry, dict) and (identifier := _identifier(entry)):
            found.setdefault(identifier, entry)
    return found


def _identifier(entry: Mapping[str, Any]) -> str | None:
    named = (entry.get(key) for key in ("id", "name"))
    return next((name for name in named if isinstance(name, str) and name.strip()), None)
