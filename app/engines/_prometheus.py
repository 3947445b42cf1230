"""Prometheus text format, as far as plain samples go."""

import math


def parse(text: str) -> dict[str, float]:
    """Name, with its labels as written, to value; what is no sample line, or not finite, is left out.

    >>> parse('# TYPE a counter\\na 3\\nb{x="1 2"} 0.5 1700000000\\nc NaN')
    {'a': 3.0, 'b{x="1 2"}': 0.5}
    """
    found = {}
    for line in text.split("\n"):
        name, brace, rest = line.strip().partition("{")
        if brace:
            labels, closed, rest = rest.rpartition("}")
            name = f"{name}{{{labels}{closed}"
        else:
            name, _, rest = name.partition(" ")
        if not name or name.startswith("#"):
            continue
        try:
            value = float(rest.split()[0])
        except (ValueError, IndexError):
            continue
        if math.isfinite(value):
            found[name] = value
    return found
