"""Prometheus text format, as far as plain samples go."""

import math
from collections.abc import Mapping

from app.http import ServerClient


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


def total(samples: Mapping[str, float], name: str) -> float | None:
    """The sum over all labels, as of several engines behind one server; None where there is no such sample.

    >>> total({'a{x="1"}': 1.0, 'a{x="2"}': 2.0, "ab": 5.0}, "a"), total({}, "a")
    (3.0, None)
    """
    found = [value for key, value in samples.items() if key.partition("{")[0] == name]
    return sum(found) if found else None


def scrape(client: ServerClient) -> dict[str, float]:
    """What the server exports; nothing where it does not. Raises ServerProblem when it does not answer at all."""
    answer = client.get("/metrics")
    return parse(answer.body.decode("utf-8", "replace")) if answer.status == 200 else {}
