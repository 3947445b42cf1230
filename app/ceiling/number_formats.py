"""Number formats: ggml's block types, the types of a KV cache, and the bits per weight that a label stands for."""

import re
from dataclasses import dataclass
from functools import cache

from app.core.errors import BadInput
from app.core.i18n import _

GGML_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
"""The name, the elements of a block and the bytes of a block, by the number in a GGUF file."""

GGML_BLOCKS: dict[str, tuple[int, int]] = {name: (elements, size) for name, elements, size in GGML_TYPES.values()}

USUAL_BITS: dict[str, float] = {
    "F32": 32,
    "F16": 16,
    "BF16": 16,
    "Q8_0": 8.5,
    "Q6_K": 6.56,
    "Q5_K_M": 5.68,
    "Q5_K_S": 5.52,
    "Q4_K_M": 4.85,
    "Q4_K_S": 4.58,
    "Q4_0": 4.5,
    "IQ4_XS": 4.25,
    "MXFP4": 4.25,
    "Q3_K_M": 3.91,
    "Q2_K": 3.0,
}
"""The usual bits per weight of a whole model under its label; a real file differs."""

UNKNOWN = "unknown"
LONGEST_TYPE = 40
KV_BITS: dict[str, float] = {
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "q8_0": 8.5,
    "fp8": 8,
    "fp8_e4m3": 8,
    "fp8_e5m2": 8,
    "int8": 8,
    "q5_1": 6,
    "q5_0": 5.5,
    "q4_1": 5,
    "q4_0": 4.5,
    "iq4_nl": 4.5,
    UNKNOWN: 0,
}
"""The bits of a value. Unknown types are left out of the bytes, so that a ceiling stays one."""
_BITS_IN_NAME = re.compile(r"[a-z]+_?(1|2|3|4|5|6|8|16|32)(?![0-9])[a-z0-9_.]{0,30}")
_K_AND_V = re.compile(r"k(\d{1,2})_?v(\d{1,2})")
"""Matches a fork's name for both caches: `k8v4`."""


@cache
def kv_bits(name: str) -> float | None:
    """Returns the bits of a value of a KV cache of this type; None when the name does not state them.

    For a type that is not in the table they are those in its name: the scales that it may have are left out, like
    everything uncertain.

    >>> kv_bits("q8_0"), kv_bits("q8"), kv_bits("nvfp4"), kv_bits("turbo3"), kv_bits("turbo9")
    (8.5, 8.0, 4.0, 3.0, None)
    """
    if name in KV_BITS:
        return KV_BITS[name]
    if k_and_v := _K_AND_V.fullmatch(name):
        return float(min(int(k_and_v[1]), int(k_and_v[2])))
    match = _BITS_IN_NAME.fullmatch(name)
    return float(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class KvTypes:
    """The types of the K and the V cache. A type of unknown size counts as nothing, so that a ceiling stays one."""

    k: str = "f16"
    v: str = "f16"

    def __post_init__(self) -> None:
        for name in (self.k, self.v):
            if not 0 < len(name) <= LONGEST_TYPE or not name.isascii() or not name.isprintable():
                raise BadInput(
                    _(
                        "{name!r} is not a KV cache type; common ones are {examples}.",
                        name=name[:LONGEST_TYPE],
                        examples=", ".join(usual for usual in KV_BITS if usual != UNKNOWN),
                    )
                )

    @property
    def bits(self) -> tuple[float, float]:
        """The bits of a value of K, and of V."""
        if k_and_v := _K_AND_V.fullmatch(self.k if self.k == self.v else ""):
            return float(k_and_v[1]), float(k_and_v[2])
        return kv_bits(self.k) or 0, kv_bits(self.v) or 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Returns the assumptions about types that are not in the table."""
        sentences = []
        for name in dict.fromkeys((self.k, self.v)):
            if (bits := kv_bits(name)) is None:
                sentences.append(
                    _("the size of a KV cache of type {name} is unknown, so it is left out of the bytes", name=name)
                )
            elif name not in KV_BITS:
                sentences.append(
                    _(
                        "a KV cache of type {name} counts {bits:g} bits a value, its scales are left out",
                        name=name,
                        bits=bits,
                    )
                )
        return tuple(sentences)

    def __str__(self) -> str:
        return self.k if self.k == self.v else f"{self.k}/{self.v}"

    @classmethod
    def parse(cls, text: str) -> "KvTypes":
        """Parses `q8_0`, or `q8_0/f16` when K and V differ. Raises BadInput."""
        k, _, v = (part.strip() for part in text.strip().lower().partition("/"))
        return cls(k, v or k)


# --- labels of a quantization ----------------------------------------------------------------------------------------

_MIXES = {
    "Q3_K_S": 3.5, "Q3_K_L": 4.27, "IQ2_M": 2.7, "IQ3_XS": 3.3, "IQ3_M": 3.66,
    "Q2_K_L": 3.2, "Q4_K_L": 4.95, "Q5_K_L": 5.8, "Q6_K_L": 6.7,
    "Q2_K_XL": 3.3, "Q3_K_XL": 4.35, "Q4_K_XL": 5.0, "Q5_K_XL": 5.85, "Q6_K_XL": 6.8, "Q8_K_XL": 9.5,
}  # fmt: skip
"""Labels that no block type has; those with L and XL keep some tensors larger, by about the amount here."""
_BITS = {**{name: 8 * size / elements for name, (elements, size) in GGML_BLOCKS.items()}, **_MIXES, **USUAL_BITS}
_KNOWN = sorted(_BITS, key=len, reverse=True)
_STATED = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d+)?)[ _-]?(?:bits?|bpw)(?![a-z])", re.IGNORECASE)
"""Matches `4-bit` and `4.25bpw`."""
_TYPED = re.compile(r"(?<![a-z])(?:float|fp|nf|int|uint|bf|mxfp|nvfp|hqq|iq|q|w)(\d{1,2})(?!\d)", re.IGNORECASE)
"""Matches `int4`, `fp8`, `nf4` and `w4a16`."""
_WIDEST = 64


@cache
def bits_of_label(label: str) -> float | None:
    """Returns about how many bits a weight has under this label; None when it does not state them.

    The longest known name within the label counts, else a stated number of bits, else the number of a type's name. A
    real file differs.

    >>> bits_of_label("Q4_K_M"), bits_of_label("UD-IQ2_XS"), bits_of_label("GPTQ-Int4"), bits_of_label("4.25bpw")
    (4.85, 2.3125, 4.0, 4.25)
    """
    for name in _KNOWN:
        if re.search(rf"(?<![A-Z0-9]){re.escape(name)}(?![A-Z0-9])", label, re.IGNORECASE):
            return float(_BITS[name])
    match = _STATED.search(label) or _TYPED.search(label)
    bits = float(match[1]) if match else 0.0
    return bits if 0 < bits <= _WIDEST else None
