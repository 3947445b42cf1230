"""From two readings of a server's Prometheus metrics to what it counted in between; one table per engine says where."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from app.core.i18n import _
from app.core.server_metrics import ServerMetric, Statistic, bucket_of
from app.engines.base import LOADS, Counters
from app.engines.http import ServerClient
from app.engines.openai import OpenAI
from app.engines.protocol import prometheus

Names = tuple[str, ...]
"""What versions of an engine call the same thing; the first one that is there counts."""


@dataclass(frozen=True)
class MetricNames:
    """Where an engine exports what; by the name that it has here."""

    path: str = "/metrics"
    requests: Names = ()
    """Finished ones."""
    prompt_tokens: Names = ()
    cached_tokens: Names = ()
    output_tokens: Names = ()
    holds_cached: bool = True
    """Whether `prompt_tokens` counts cached ones too."""
    seconds: Mapping[str, Names] = field(default_factory=dict)
    """Histograms."""
    totals: Mapping[str, Names] = field(default_factory=dict)
    shares: Mapping[str, tuple[Names, Names]] = field(default_factory=dict)
    """A counter over another one."""
    prefill_seconds: Names = ()
    """In which the fresh prompt tokens were processed."""
    decode_seconds: Names = ()
    """In which all output tokens but the first one of each request were made."""
    gauges: Mapping[str, tuple[str, Names]] = field(default_factory=dict)
    """Unit and names of what the server itself keeps a mean of; as it stood at the second reading."""
    loads: Mapping[str, Names] = field(default_factory=dict)
    """Gauges of the moment, by the names of `LOADS`."""

    @property
    def counters(self) -> Iterator[str]:
        """Whatever of it never falls."""
        counted = (self.requests, self.prompt_tokens, self.cached_tokens, self.output_tokens, *self.totals.values())
        yield from (name for names in (*counted, self.prefill_seconds, self.decode_seconds) for name in names)
        yield from (name for parts in self.shares.values() for names in parts for name in names)
        yield from (f"{name}_count" for names in self.seconds.values() for name in names)


def difference(name: str) -> str:
    return _("{name}, difference of two readings", name=name)


def after_the_run(name: str) -> str:
    return _("{name}, after the run", name=name)


class PrometheusEngine(OpenAI):
    """A server that exports Prometheus metrics."""

    exported: ClassVar[MetricNames]

    def counters(self, client: ServerClient) -> Counters | None:
        exported, raw = self.exported, prometheus.scrape(client, self._state_path(client, self.exported.path))
        prompt, cached = _total(raw, exported.prompt_tokens), _total(raw, exported.cached_tokens)
        fresh = prompt if prompt is None or not exported.holds_cached else prompt - (cached or 0)
        output, requests = _total(raw, exported.output_tokens), _total(raw, exported.requests)
        if fresh is None and output is None and requests is None:
            return None
        counters = set(exported.counters)
        totals = {key: value for key, value in raw.items() if key.partition("{")[0] in counters}
        return Counters(fresh, cached, output, requests, prometheus.began_at(raw), totals, raw)

    def _state_path(self, client: ServerClient, path: str) -> str:  # noqa: ARG002  # one state for all, in most engines
        """Where the state of the client's model is told."""
        return path

    def counted(self, before: Counters, after: Counters, model: str | None, requests: int) -> Sequence[ServerMetric]:
        """By difference; engines that count tokens but no requests are taken to have had `requests`."""
        exported = self.exported
        began, ended = prometheus.of_model(model, before.raw, after.raw)
        grown = prometheus.growth(began, ended)
        return [
            *_totals(exported, grown),
            *(each for name, names in exported.seconds.items() for each in _distribution(name, names, grown)),
            *_rates(exported, grown, requests),
            *_shares(exported, grown),
            *_gauges(exported, ended),
        ]

    def load(self, client: ServerClient) -> Mapping[str, float]:
        if not self.exported.loads:
            return {}
        raw = prometheus.scrape(client, self.exported.path)
        found = {name: _gauge(raw, names, LOADS[name]) for name, names in self.exported.loads.items()}
        return {name: each[1] for name, each in found.items() if each is not None}


def _totals(exported: MetricNames, grown: Mapping[str, float]) -> Iterator[ServerMetric]:
    units = {
        "requests": ("", exported.requests),
        "prompt_tokens" if exported.holds_cached else "fresh_prompt_tokens": ("tokens", exported.prompt_tokens),
        "cached_tokens": ("tokens", exported.cached_tokens),
        "output_tokens": ("tokens", exported.output_tokens),
        **{name: ("", names) for name, names in exported.totals.items()},
    }
    for name, (unit, names) in units.items():
        if (found := _named(grown, names)) is not None:
            key, value = found
            yield ServerMetric(name, "total", unit, value, difference(key))


def _distribution(name: str, names: Names, grown: Mapping[str, float]) -> Iterator[ServerMetric]:
    for key in names:
        if (found := prometheus.histogram(grown, key)) is None:
            continue
        yield ServerMetric(
            name, "mean", "ms", found.mean * 1000, _("{key}, sum over count, difference of two readings", key=key)
        )
        percentiles: tuple[tuple[Statistic, int], ...] = (("p50", 50), ("p99", 99))
        for statistic, percent in percentiles:
            if (bounds := found.percentile_bounds(percent)) is not None:
                low_ms, high_ms = bounds[0] * 1000, None if bounds[1] is None else bounds[1] * 1000
                yield ServerMetric(name, statistic, "ms", None, bucket_of(key), low_ms, high_ms)
        return


def _rates(exported: MetricNames, grown: Mapping[str, float], requests: int) -> Iterator[ServerMetric]:
    prompt, cached = _total(grown, exported.prompt_tokens), _total(grown, exported.cached_tokens)
    output, requests_counted = _total(grown, exported.output_tokens), _total(grown, exported.requests)
    fresh = prompt if prompt is None or not exported.holds_cached else prompt - (cached or 0)
    steps = None if output is None else output - (requests if requests_counted is None else requests_counted)
    for name, tokens, names, what in (
        ("prefill_tokens_per_s", fresh, exported.prefill_seconds, _("fresh prompt tokens")),
        ("decode_tokens_per_s", steps, exported.decode_seconds, _("output tokens but the first of each request")),
    ):
        found = _named(grown, names)
        if found is not None and tokens is not None and tokens > 0 and found[1] > 0:
            yield ServerMetric(name, "mean", "tok/s", tokens / found[1], _over(what, found[0]))


def _shares(exported: MetricNames, grown: Mapping[str, float]) -> Iterator[ServerMetric]:
    for name, (parts, wholes) in exported.shares.items():
        part, whole = _named(grown, parts), _named(grown, wholes)
        if part is not None and whole is not None and whole[1] > 0:
            yield ServerMetric(name, "mean", "share", part[1] / whole[1], _over(part[0], whole[0]))


def _gauges(exported: MetricNames, raw: Mapping[str, float]) -> Iterator[ServerMetric]:
    for name, (unit, names) in exported.gauges.items():
        if (found := _gauge(raw, names, unit)) is not None:
            yield ServerMetric(name, "now", unit, found[1], after_the_run(found[0]))


def _over(part: str, whole: str) -> str:
    return _("{part} over {whole}, difference of two readings", part=part, whole=whole)


def _named(samples: Mapping[str, float], names: Names) -> tuple[str, float] | None:
    """The first of the names that has samples, and their sum."""
    return next(((name, value) for name in names if (value := prometheus.total(samples, name)) is not None), None)


def _gauge(samples: Mapping[str, float], names: Names, unit: str) -> tuple[str, float] | None:
    """As `_named`, but shares of several engines behind one server are no larger than a whole: their mean."""
    found = _named(samples, names)
    if found is None or unit != "share":
        return found
    return found[0], found[1] / sum(key.partition("{")[0] == found[0] for key in samples)


def _total(samples: Mapping[str, float], names: Names) -> float | None:
    found = _named(samples, names)
    return None if found is None else found[1]
