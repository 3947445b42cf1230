"""Prometheus text format: plain samples, and what became of them between two readings."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.engines.http import ServerClient

# Possessive throughout, so that no text takes long. A name that is no plain one stands quoted within the braces.
_SAMPLE = re.compile(
    r'[ \t]*+([^\s{"#]*+)[ \t]*+(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*+")*+)\}[ \t]*+|(?<=[ \t]))([^\s#]++)(?:\s|$)'
)
_QUOTED_NAME = re.compile(r'\s*+"((?:[^"\\]|\\.)*+)"\s*+(?:,|$)')


def parse(text: str) -> dict[str, float]:
    """Name, with its labels as written, to value; what is no sample line, or not finite, is left out.

    Of Prometheus's text format and OpenMetrics alike: times, exemplars and comments are passed over.

    >>> parse('# TYPE a counter\\na 3\\nb{x="1 }"} 0.5 1700000000 # {id="7"} 0.2\\nc NaN\\n{"d.e",x="2"} 1\\n# EOF')
    {'a': 3.0, 'b{x="1 }"}': 0.5, 'd.e{x="2"}': 1.0}
    """
    found = {}
    for line in text.split("\n"):
        sample = _SAMPLE.match(line)
        if sample is None:  # a comment, or no sample of a metric
            continue
        name, written, number = sample.groups()
        if not name and written and (quoted := _QUOTED_NAME.match(written)):
            name, written = quoted[1], written[quoted.end() :]
        try:
            value = float(number)
        except ValueError:  # no sample of a metric
            continue
        if name and math.isfinite(value):
            found[f"{name}{{{written}}}" if written else name] = value
    return found


def total(samples: Mapping[str, float], name: str) -> float | None:
    """The sum over all labels, as of several engines behind one server; None where there is no such sample.

    >>> total({'a{x="1"}': 1.0, 'a{x="2"}': 2.0, "ab": 5.0}, "a"), total({}, "a")
    (3.0, None)
    """
    found = [value for key, value in samples.items() if key.partition("{")[0] == name]
    return sum(found) if found else None


def scrape(client: ServerClient, path: str = "/metrics") -> dict[str, float]:
    """What the server exports; nothing where it does not. Raises ServerError when it does not answer at all."""
    answer = client.get(path)
    return parse(answer.body.decode("utf-8", "replace")) if answer.status == 200 else {}


_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_GROWING = ("_total", "_sum", "_count", "_bucket")


def labels(key: str) -> dict[str, str]:
    r"""The labels in a key of `parse`.

    >>> labels('a{model="x\\"y",le="0.5"}')
    {'model': 'x"y', 'le': '0.5'}
    """
    found = _LABEL.findall(key.partition("{")[2])
    return {name: _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], value) for name, value in found}


def began_at(samples: Mapping[str, float]) -> float | None:
    """When the server began to count, in seconds since 1970; None where it does not tell."""
    return samples.get("process_start_time_seconds")


def growth(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """By how much each counter has grown between two readings, unless the server began anew in between.

    >>> growth({"a_total": 2.0, "a_created": 1.0}, {"a_total": 5.0, "b_total": 1.0, "a_created": 1.0, "gauge": 7.0})
    {'a_total': 3.0, 'b_total': 1.0}
    """
    grows = (key for key in after if key.partition("{")[0].endswith(_GROWING))
    return {key: after[key] - before.get(key, 0.0) for key in grows}


def of_model(model: str | None, *readings: Mapping[str, float]) -> list[dict[str, float]]:
    """The readings without the samples of other models, where the labels of one of them name this one."""
    named = {key: _model_of(key) for reading in readings for key in reading}
    others = {name for name in named.values() if name not in (None, model)} if model in named.values() else set()
    return [{key: value for key, value in reading.items() if named[key] not in others} for reading in readings]


def _model_of(key: str) -> str | None:
    found = labels(key)
    return found.get("model_name", found.get("model"))


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

    def percentile_bounds(self, percent: int) -> tuple[float, float | None] | None:
        """The bounds of the bucket that holds the percentile: the smallest observation that as many do not exceed.

        No upper one above the last finite bound; None where that is the only one, or the buckets do not hold all
        observations.
        """
        rank, lower = math.ceil(self.count * percent / 100), 0.0
        for bound, upto in self.buckets:
            if upto >= rank:
                if math.isinf(bound):
                    return (lower, None) if lower > 0 else None
                return lower, bound
            lower = bound
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
