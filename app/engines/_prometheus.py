"""Prometheus text format: plain samples, and what became of them between two readings."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
        except (ValueError, IndexError):  # no sample of a metric
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


def scrape(client: ServerClient, path: str = "/metrics") -> dict[str, float]:
    """What the server exports; nothing where it does not. Raises ServerProblem when it does not answer at all."""
    answer = client.get(path)
    return parse(answer.body.decode("utf-8", "replace")) if answer.status == 200 else {}


_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_GROWING = ("_total", "_sum", "_count", "_bucket")


def labels(key: str) -> dict[str, str]:
    r"""The labels in a key of `parse`.

    >>> labels('a{model="x\\"y",le="0.5"}')
    {'model': 'x"y', 'le': '0.5'}
    """
    found = _LABEL.findall(key.partition("{")[2])
    return {name: _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], value) for name, value in found}


def has_restarted(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    """Whether a counter has fallen, or is gone."""
    return any(after.get(key, -1.0) < value for key, value in before.items() if _grows(key) and value > 0)


def growth(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """By how much each counter has grown between two readings; after a restart it began from zero.

    >>> growth({"a_total": 2.0, "a_created": 1.0}, {"a_total": 5.0, "b_total": 1.0, "a_created": 1.0, "gauge": 7.0})
    {'a_total': 3.0, 'b_total': 1.0}
    >>> growth({"a_total": 2.0, "b_total": 8.0}, {"a_total": 5.0, "b_total": 1.0})
    {'a_total': 5.0, 'b_total': 1.0}
    """
    start = {} if has_restarted(before, after) else before
    return {key: value - start.get(key, 0.0) for key, value in after.items() if _grows(key)}


def of_model(samples: Mapping[str, float], model: str | None) -> dict[str, float]:
    """Without the samples of other models, where the labels name this one."""
    named = {key: found.get("model_name", found.get("model")) for key in samples if (found := labels(key))}
    if model not in named.values():
        return dict(samples)
    return {key: value for key, value in samples.items() if named.get(key) in (None, model)}


@dataclass(frozen=True)
class Histogram:
    """Observations between two readings."""

    count: float
    sum: float
    buckets: Sequence[tuple[float, float]]
    """Upper bound (the last one infinite) and observations up to it, ascending."""

    @property
    def mean(self) -> float:
        return self.sum / self.count

    def quantile(self, share: float) -> tuple[float, float, float] | None:
        """Interpolated within its bucket, and the bucket's bounds; None where it lies above the last finite bound."""
        rank, lower, below = share * self.count, 0.0, 0.0
        for bound, upto in self.buckets:
            if upto >= rank and upto > below:
                if math.isinf(bound):
                    return None
                return lower + (bound - lower) * (rank - below) / (upto - below), lower, bound
            lower, below = bound, upto
        return None


def histogram(grown: Mapping[str, float], name: str) -> Histogram | None:
    """Summed over all labels; None where nothing was observed."""
    count, observed = total(grown, f"{name}_count"), total(grown, f"{name}_sum")
    if not count or observed is None:
        return None
    buckets: dict[float, float] = {}
    for key, value in grown.items():
        if key.partition("{")[0] == f"{name}_bucket":
            try:
                bound = float(labels(key).get("le", ""))
            except ValueError:  # no bucket
                continue
            buckets[bound] = buckets.get(bound, 0.0) + value
    return Histogram(count, observed, sorted(buckets.items()))


def _grows(key: str) -> bool:
    return key.partition("{")[0].endswith(_GROWING)
