"""Sizes and bandwidths as people write them. Inside everything is bytes; GB is 1e9, GiB is 2^30, and they never mix."""

import re

from app.core.errors import BadInput
from app.core.i18n import _
from app.core.units import GIGA, read_number

_PREFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"(\d.*?)\s*([kmgt]?)(i?)b", re.IGNORECASE)


def size_bytes(text: str) -> float:
    """
    >>> size_bytes("13.34 GiB"), size_bytes("448 GB")
    (14323715932.16, 448000000000.0)
    """
    match = _SIZE.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError(text)
        value, prefix, binary = match.groups()
        return read_number(value) * float((1024 if binary else 1000) ** _PREFIXES[prefix.lower()])
    except ValueError as error:
        raise BadInput(_("{text!r} is no size; write it like 13.3 GiB or 14.3 GB.", text=text[:40])) from error


def bandwidth_bytes_per_s(text: str) -> float:
    """A bare number is GB/s.

    >>> bandwidth_bytes_per_s("448 GB/s"), bandwidth_bytes_per_s("89.6")
    (448000000000.0, 89600000000.0)
    """
    stripped = text.strip()
    try:
        return read_number(stripped) * GIGA
    except ValueError:  # perhaps with its unit
        pass
    amount, slash, second = stripped.partition("/")
    if not slash or second.strip().lower() not in ("s", "sec"):
        raise BadInput(_("{text!r} is no bandwidth; write it in GB/s, like 448.", text=text[:40]))
    return size_bytes(amount)
