"""Bits per weight of each role, from the quantization in a config.json: the fewest that its files have, and the most,
when files of one quantization differ."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from app.ceiling.geometry import check_bits, printable
from app.ceiling.hf_keys import Missing, language_part
from app.core.i18n import _

DTYPE_BITS = {"float32": 32.0, "bfloat16": 16.0, "float16": 16.0, "float8_e4m3fn": 8.0}
QUANTIZATION_KEYS = ("quantization_config", "compression_config", "quantization")
BLOCK_FORMATS = {"mxfp4": 4.25, "mxfp6": 6.25, "mxfp8": 8.25, "nvfp4": 4.5, "mxint8": 8.25}
"""Bits of a weight with its share of the block's scale."""
WHOLE_METHODS = {"fp8": 8.0, "fbgemm_fp8": 8.0, "w8a8_fp8": 8.0, "w8a8_int8": 8.0, "eetq": 8.0, "fp8_e4m3": 8.0}
SMALLEST_ATTENTION = 8.5
"""Files of gpt-oss in MXFP4 hold attention and tables in 16 bits, or in Q8_0."""
EXPERT_FORMATS = ("fp4", "mxfp4")
SCALE_BITS = 16
SPARSE_INDEX_BITS = 1
"""The bits per weight that say which two of four are left."""
LARGEST_BLOCK = 32
"""Blocks of small floats share a scale of 8 bits."""
_PROTECTED = {
    "mixer": re.compile(r"self_attn|attention|attn|mixer|mamba|ssm|linear_attn"),
    "head": re.compile(r"(^|\.)lm_head"),
    "routed": re.compile(r"mlp\.experts|\.experts(\.|$)|block_sparse_moe\.experts"),
}
_ROUTER = re.compile(r"(\.gate|router|expert_gate)$")
_WHOLE = {
    "mixer": re.compile(r"(self_attn|attention|attn|mixer)[.*$]*$"),
    "routed": re.compile(r"experts[.*$]*$"),
}
"""Matches all of such a module, not a part of it."""
_BITS_KEYS = ("bits", "w_bit", "weight_bits", "num_bits", "nbits", "wbits", "q_bits", "w_bits")


class Range(NamedTuple):
    """Bits per weight: the fewest and the most that files of one quantization have."""

    fewest: float
    most: float

    @classmethod
    def exactly(cls, bits: float) -> "Range":
        """A range of one value."""
        return cls(bits, bits)

    def or_up_to(self, bits: float) -> "Range":
        """The same range, widened to at least `bits` at the top."""
        return Range(self.fewest, max(self.most, bits))


@dataclass(frozen=True, slots=True)
class Bits:
    """Bits per weight by role, and where they come from."""

    mixer: Range
    """Attention and recurrences."""
    ffn: Range
    routed: Range
    small: Range
    """Norms and routers."""
    head: Range
    table: Range
    """The input embedding."""
    words: str

    @classmethod
    def all_at(cls, bits: float, words: str) -> "Bits":
        """The same bits for each role."""
        exact = Range.exactly(bits)
        return cls(exact, exact, exact, exact, exact, exact, words)


def bits_by_role(document: Mapping[str, Any], bits: float | None) -> Bits:
    """Reads the bits per weight of each role from a config.json; stated `bits` are those of all roles.

    Raises Missing (quantized in a way that Roofmark does not know), BadInput.
    """
    if bits is not None:
        check_bits(bits)
        return Bits.all_at(bits, _("{bits:g} bits per weight, as given", bits=bits))
    inner = language_part(document)
    dtype = str(inner.get("torch_dtype") or inner.get("dtype") or "").removeprefix("torch.")
    plain = DTYPE_BITS.get(dtype, 16.0)
    sentence = _("{bits:g} bits per weight, assumed", bits=plain)
    if dtype in DTYPE_BITS:
        sentence = _("{bits:g} bits per weight, from its type {type}", bits=plain, type=dtype)
    for key in QUANTIZATION_KEYS:
        settings = document.get(key) or inner.get(key)
        if isinstance(settings, dict):
            return _with_experts_apart(inner, quantized(settings, plain, sentence))
        if settings:
            method = printable(str(settings)[:60])
            raise Missing(_("bits per weight for its quantization {method!r}", method=method))
    return _with_experts_apart(inner, Bits.all_at(plain, sentence))


def _with_experts_apart(inner: Mapping[str, Any], bits: Bits) -> Bits:
    """DeepSeek V4 names the type of its experts beside the quantization."""
    if str(inner.get("expert_dtype") or "").lower() in EXPERT_FORMATS:
        return replace(bits, routed=Range.exactly(BLOCK_FORMATS["mxfp4"]))
    return bits


def quantized(settings: Mapping[str, Any], plain: float, plain_words: str) -> Bits:
    """Reads the bits of each role from a quantization's settings; `plain` are those of what is not quantized.

    Raises Missing, BadInput.
    """
    if isinstance(inner := settings.get("quantization"), dict):  # as hf_quant_config.json nests it
        settings = inner
    names = [printable(str(settings.get(key) or "")) for key in ("quant_method", "quant_algo")]
    is_mlx = not any(names) and any(key in settings for key in _BITS_KEYS)
    method = " ".join(filter(None, names)) or printable(str(settings.get("mode") or ""))
    if method.lower() == "mxfp4" and not is_mlx:
        return _only_experts(plain, plain_words)
    bits = sorted(_weight_bits(settings, method.lower(), is_mlx))
    if bits and _is_half_zero(settings, method.lower()):
        bits = [bits[0] / 2 + SPARSE_INDEX_BITS, bits[-1]]
    if not bits:
        raise Missing(_("bits per weight for its quantization {method!r}", method=method))
    for width in bits:
        check_bits(width)
    weight = Range(bits[0], bits[-1])
    table = weight if is_mlx else Range.exactly(plain)
    head = _head(settings, method.lower(), weight, plain, table)
    mixer, ffn, routed = (_unless_protected(settings, role, weight, plain) for role in ("mixer", "ffn", "routed"))
    words = _("layers at {bits:g} bits per weight ({method})", bits=round(bits[0], 3), method=method or "quantized")
    return Bits(mixer, ffn, routed, weight.or_up_to(plain), head, table, words)


def _only_experts(plain: float, plain_words: str) -> Bits:
    rest = Range(min(SMALLEST_ATTENTION, plain), plain)
    words = _(
        "experts at 4.25 bits per weight (mxfp4); the rest at {fewest:g} bits, the fewest that such files have, though "
        "the config says {bits}",
        fewest=rest.fewest,
        bits=plain_words,
    )
    return Bits(rest, rest, Range.exactly(BLOCK_FORMATS["mxfp4"]), rest, rest, rest, words)


def _weight_bits(settings: Mapping[str, Any], method: str, is_mlx: bool) -> Iterator[float]:
    """Bits of quantized weights with their scales: those of the whole, and of modules with settings of their own."""
    names = [method, *(str(settings.get(key) or "").lower() for key in ("format", "fmt", "forward_dtype"))]
    named = list(_named_formats(names))
    if isinstance(layers := settings.get("quantized_layers"), dict):
        algorithms = {str(layer.get("quant_algo")).lower() for layer in layers.values() if isinstance(layer, dict)}
        yield from (bits for name in algorithms for bits in _named_formats([name]))
    if named:
        yield from named
    elif isinstance(groups := settings.get("config_groups"), dict):
        for group in groups.values():
            if isinstance(group, dict) and isinstance(weights := group.get("weights"), dict):
                yield from _grouped(weights, "compressed", is_mlx=False)
    else:
        yield from _grouped(_inner_weights(settings), method, is_mlx)
    for key, module in _overrides(settings):
        if not _PROTECTED["head"].search(key) and not _ROUTER.search(key):
            yield from _grouped({**settings, **module}, method, is_mlx)


def _is_half_zero(settings: Mapping[str, Any], method: str) -> bool:
    """Whether two of four weights are zeros, which files may leave out."""
    sparsity = settings.get("sparsity_config")
    structure = str(sparsity.get("sparsity_structure") or "") if isinstance(sparsity, dict) else ""
    return structure == "2:4" or bool(re.search(r"(?<!\d)24(?!\d)", f"{method} {settings.get('format')}"))


def _named_formats(names: Iterable[str]) -> Iterator[float]:
    """The format that one of the names has in it: `modelopt nvfp4`, `mxfp4-pack-quantized`."""
    text = " ".join(names)
    block = next((bits for name, bits in BLOCK_FORMATS.items() if name in text), None)
    if block is not None:
        yield block
    elif whole := [bits for name, bits in WHOLE_METHODS.items() if name in text.split()]:
        yield whole[0]


def _inner_weights(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """HQQ and Quark nest the numbers about weights."""
    for outer, inner in (("quant_config", "weight_quant_params"), ("global_quant_config", "weight")):
        if isinstance(place := settings.get(outer), dict) and isinstance(weights := place.get(inner), dict):
            return weights
    return settings


def _overrides(settings: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Modules with bits of their own: MLX names them beside the rest, AutoRound in `extra_config`."""
    extra = settings.get("extra_config") or settings.get("dynamic") or {}
    for place in (settings, extra if isinstance(extra, dict) else {}):
        for key, module in place.items():
            is_module = "." in str(key) or str(key) == "lm_head"
            if is_module and isinstance(module, dict) and any(name in module for name in _BITS_KEYS):
                yield str(key), module


def _grouped(weights: Mapping[str, Any], method: str, is_mlx: bool) -> Iterator[float]:
    """Returns the bits with scales: 4 bits in groups of 64 with a 16-bit scale and a 16-bit zero point are 4.5."""
    bits: Any = next((weights[key] for key in _BITS_KEYS if weights.get(key) is not None), None)
    if bits is None and isinstance(books := weights.get("num_codebooks"), int):
        book_bits, size = weights.get("nbits_per_codebook"), weights.get("in_group_size")
        bits = books * book_bits / size if isinstance(book_bits, int) and isinstance(size, int) and size > 0 else None
    if bits is None and (weights.get("load_in_4bit") or weights.get("_load_in_4bit")):
        yield 4.127 if weights.get("bnb_4bit_use_double_quant") else 4.5  # blocks of 64, with one scale each
        return
    if bits is None and (weights.get("load_in_8bit") or weights.get("_load_in_8bit")):
        bits = 8
    if bits is None and (dtype := re.fullmatch(r"(?:fp|int|uint|nf|e\dm\d_)(\d+)\w*", str(weights.get("dtype") or ""))):
        bits = int(dtype[1])
    if isinstance(bits, bool) or not isinstance(bits, int | float):
        return
    yield bits + _scale_bits(weights, bits, method, is_mlx)


def _scale_bits(weights: Mapping[str, Any], bits: float, method: str, is_mlx: bool) -> float:
    """Returns the bits of one weight's share of its group's scale; what is uncertain is left out."""
    size = weights.get("group_size", weights.get("q_group_size"))
    if isinstance(size, bool) or not isinstance(size, int) or size <= 0 or method in ("exl2", "exl3"):
        return 0.0
    if is_mlx and method in ("", "affine"):
        return 2 * SCALE_BITS / size
    is_float = str(weights.get("type") or "") == "float" or re.match(r"fp|e\dm\d", str(weights.get("dtype") or ""))
    if is_float and size <= LARGEST_BLOCK:  # as in NVFP4 and MXFP8
        return 8 / size
    is_symmetric = weights.get("sym", weights.get("symmetric", method not in ("awq", "gptq", "auto-round")))
    return (SCALE_BITS + (0 if is_symmetric else min(bits, 8))) / size


def _head(settings: Mapping[str, Any], method: str, weight: Range, plain: float, table: Range) -> Range:
    head_bits = settings.get("head_bits")
    if isinstance(head_bits, int | float) and not isinstance(head_bits, bool) and head_bits:
        check_bits(head_bits)
        return Range.exactly(head_bits)
    is_mlx = table == weight
    for key, module in _overrides(settings):
        if _PROTECTED["head"].search(key):
            return Range.exactly(next(_grouped({**settings, **module}, method, is_mlx), weight.fewest))
    if settings.get("lm_head") is False and is_mlx:
        return Range.exactly(plain)
    if settings.get("lm_head") is True or settings.get("quant_lm_head") is True:
        return weight
    if "config_groups" in settings or method.startswith(("compressed-tensors", "modelopt", "nvfp4", "quark")):
        return Range.exactly(plain) if _protects(settings, "head") else weight.or_up_to(plain)
    return table


def _unless_protected(settings: Mapping[str, Any], role: str, weight: Range, plain: float) -> Range:
    """Returns whether modules stay unquantized: of every layer when the name has no layer's number, else of some."""
    if role not in _PROTECTED or not _protects(settings, role):
        return weight
    is_whole = any(_WHOLE[role].search(name) and not re.search(r"\d", name) for name in _plain_modules(settings))
    return Range.exactly(plain) if is_whole else weight.or_up_to(plain)


def _protects(settings: Mapping[str, Any], role: str) -> bool:
    return any(_PROTECTED[role].search(name) for name in _plain_modules(settings))


def _plain_modules(settings: Mapping[str, Any]) -> Iterable[str]:
    for key in ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers", "exclude"):
        if isinstance(names := settings.get(key), list):
            yield from (str(name).replace("\\", "") for name in names[:20_000])
