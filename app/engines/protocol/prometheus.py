"""Prometheus text format: samples of one reading, and growth between two."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from app.engines.http import ServerClient

# Possessive quantifiers, so that no text takes long. A name that is no plain one is quoted within the braces.
_SAMPLE = re.compile(
    r'[ \t]*+([^\s{"#]*+)[ \t]*+(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*+")*+)\}[ \t]*+|(?<=[ \t]))([^\s#]++)(?:\s|$)'
)
_QUOTED_NAME = re.compile(r'\s*+"((?:[^"\\]|\\.)*+)"\s*+(?:,|$)')


def parse(text: str) -> dict[str, float]:
    """The value of each sample by its name with the labels as written; values that are not finite are left out.

    Reads Prometheus's text format and OpenMetrics; times, exemplars and comments are skipped.

    >>> parse('# TYPE a counter\\na 3\\nb{x="1 }"} 0.5 1700000000 # {id="7"} 0.2\\nc NaN\\n{"d.e",x="2"} 1\\n# EOF')
    {'a': 3.0, 'b{x="1 }"}': 0.5, 'd.e{x="2"}': 1.0}
    """
    samples = {}
    for line in text.split("\n"):
        sample = _SAMPLE.match(line)
        if sample is None:  # a comment
            continue
        name, label_text, number = sample.groups()
        if not name and label_text and (quoted := _QUOTED_NAME.match(label_text)):
            name, label_text = quoted[1], label_text[quoted.end() :]
        try:
            value = float(number)
        except ValueError:  # no value of a metric
            continue
        if name and math.isfinite(value):
            samples[f"{name}{{{label_text}}}" if label_text else name] = value
    return samples


def total(samples: Mapping[str, float], name: str) -> float | None:
    """The sum over all labels (several engines behind one server, say); None where there is no such sample.

    A name may be that of the samples with one label only.

    >>> samples = {'a{x="1"}': 1.0, 'a{x="2"}': 2.0, "ab": 5.0}
    >>> total(samples, "a"), total(samples, 'a{x="2"}'), total({}, "a")
    (3.0, 2.0, None)
    """
    values = [value for key, value in samples.items() if _is_named(key, name)]
    return sum(values) if values else None


def suffixed(name: str, suffix: str) -> str:
    """The name of one of a histogram's own samples.

    >>> suffixed("a", "_sum"), suffixed('a{x="1"}', "_sum")
    ('a_sum', 'a_sum{x="1"}')
    """
    base, brace, label = name.partition("{")
    return base + suffix + brace + label


def _is_named(key: str, name: str) -> bool:
    base, _, label_text = key.partition("{")
    wanted_base, _, wanted_label = name.partition("{")
    return base == wanted_base and wanted_label.removesuffix("}") in label_text


def scrape(client: ServerClient, path: str = "/metrics") -> dict[str, float]:
    """The samples that the server exports; none for an error status. Raises ServerError when nothing answers at all."""
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
    pairs = _LABEL.findall(key.partition("{")[2])
    return {name: _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], value) for name, value in pairs}


def start_time(samples: Mapping[str, float]) -> float | None:
    """When the server began to count, in seconds since 1970; None where it does not report it."""
    return samples.get("process_start_time_seconds")


def growth(
    before: Mapping[str, float], after: Mapping[str, float], names: Collection[str] = frozenset()
) -> dict[str, float]:
    """By how much each counter has grown between two readings of a server that was not reset in between.

    `names`: counters that do not end as counters usually do.

    >>> growth({"a_total": 2.0, "a_created": 1.0}, {"a_total": 5.0, "b_total": 1.0, "a_created": 1.0, "gauge": 7.0})
    {'a_total': 3.0, 'b_total': 1.0}
    """
    bases = {key: key.partition("{")[0] for key in after}
    counters = (key for key, base in bases.items() if base.endswith(_GROWING) or base in names)
    return {key: after[key] - before.get(key, 0.0) for key in counters}


def of_model(model: str | None, *readings: Mapping[str, float]) -> list[dict[str, float]]:
    """The readings without samples that are labelled with other models, where any is labelled with `model`."""
    model_of = {key: _model_label(key) for reading in readings for key in reading}
    excluded = (
        {name for name in model_of.values() if name not in (None, model)} if model in model_of.values() else set()
    )
    return [{key: value for key, value in reading.items() if model_of[key] not in excluded} for reading in readings]


def _model_label(key: str) -> str | None:
    label_values = labels(key)
    return label_values.get("model_name", label_values.get("model"))


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
        """Lower and upper bound of the bucket that holds a percentile, the smallest value that so many do not exceed.

        The upper one is None above the last finite bound. None where there is no finite bound, or the buckets hold
        fewer observations than `count`.
        """
        rank, lower = math.ceil(self.count * percent / 100), 0.0
        for bound, cumulative in self.buckets:
            if cumulative >= rank:
                if math.isinf(bound):
                    return (lower, None) if lower > 0 else None
                return lower, bound
            lower = bound
        return None


def histogram(grown: Mapping[str, float], name: str) -> Histogram | None:
    """The histogram `name` from `growth`, summed as in `total`; None where nothing was observed."""
    count, observed = total(grown, suffixed(name, "_count")), total(grown, suffixed(name, "_sum"))
    if not count or observed is None:
        return None
    buckets: dict[float, float] = {}
    for key, value in grown.items():
        if _is_named(key, suffixed(name, "_bucket")):
            try:
                bound = float(labels(key).get("le", ""))
            except ValueError:  # no bucket
                continue
            buckets[bound] = buckets.get(bound, 0.0) + value
    return Histogram(count, observed, sorted(buckets.items()))
