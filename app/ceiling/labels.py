"""What the label of a quantization says about the size of a weight."""

import re
from functools import cache

from app.ceiling.number_formats import GGML_BLOCKS, USUAL_BITS

_MIXES = {
    "Q3_K_S": 3.5, "Q3_K_L": 4.27, "IQ2_M": 2.7, "IQ3_XS": 3.3, "IQ3_M": 3.66,
    "Q2_K_L": 3.2, "Q4_K_L": 4.95, "Q5_K_L": 5.8, "Q6_K_L": 6.7,
    "Q2_K_XL": 3.3, "Q3_K_XL": 4.35, "Q4_K_XL": 5.0, "Q5_K_XL": 5.85, "Q6_K_XL": 6.8, "Q8_K_XL": 9.5,
}  # fmt: skip
"""Labels that no block type has; those with L and XL keep some tensors larger, about as much as stated here."""
_BITS = {**{name: 8 * size / elements for name, (elements, size) in GGML_BLOCKS.items()}, **_MIXES, **USUAL_BITS}
_KNOWN = sorted(_BITS, key=len, reverse=True)
_STATED = re.compile(r"(?<![\d.])(\d{1,2}(?:\.\d+)?)[ _-]?(?:bits?|bpw)(?![a-z])", re.IGNORECASE)
"""`4-bit`, `4.25bpw`"""
_TYPED = re.compile(r"(?<![a-z])(?:float|fp|nf|int|uint|bf|mxfp|nvfp|hqq|iq|q|w)(\d{1,2})(?!\d)", re.IGNORECASE)
"""`int4`, `fp8`, `nf4`, `w4a16`"""
_WIDEST = 64


@cache
def bits_of_label(label: str) -> float | None:
    """About how many bits a weight has under this label; None where it does not tell.

    The longest name that Roofmark knows within the label, else a number of bits that is stated, else the number of a
    type's name. As a rule only: a real file differs.

    >>> bits_of_label("Q4_K_M"), bits_of_label("UD-IQ2_XS"), bits_of_label("GPTQ-Int4"), bits_of_label("4.25bpw")
    (4.85, 2.3125, 4.0, 4.25)
    """
    for name in _KNOWN:
        if re.search(rf"(?<![A-Z0-9]){re.escape(name)}(?![A-Z0-9])", label, re.IGNORECASE):
            return float(_BITS[name])
    match = _STATED.search(label) or _TYPED.search(label)
    bits = float(match[1]) if match else 0.0
    return bits if 0 < bits <= _WIDEST else None
