"""Health, load and metrics of a server that exports Prometheus metrics; one table of names per engine."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from app.core.i18n import _
from app.core.server_metrics import ServerMetric, Statistic, bucket_of
from app.engines.base import LOAD_GAUGES, Counters, Health
from app.engines.http import ServerClient
from app.engines.openai import OpenAI
from app.engines.protocol import prometheus
from app.engines.protocol.answers import busy_health, number

Names = tuple[str, ...]
"""The names of one metric in different versions of an engine; the first that is exported counts."""
_REQUEST_GAUGES = ("requests_running", "requests_waiting")


@dataclass(frozen=True)
class MetricNames:
    """The names under which an engine exports each metric; the keys of mappings are Roofmark's own."""

    path: str = "/metrics"
    requests: Names = ()
    """Finished ones."""
    prompt_tokens: Names = ()
    cached_tokens: Names = ()
    output_tokens: Names = ()
    holds_cached: bool = True
    """Whether `prompt_tokens` counts cached ones too."""
    seconds: Mapping[str, Names] = field(default_factory=dict)
    """Histograms of seconds, shown in milliseconds; a name may end in one label, as in `name{method="decode"}`."""
    totals: Mapping[str, Names] = field(default_factory=dict)
    shares: Mapping[str, tuple[Names, Names]] = field(default_factory=dict)
    """Each a counter divided by another one."""
    prefill_seconds: Names = ()
    """A counter of the seconds in which fresh prompt tokens were processed."""
    decode_seconds: Names = ()
    """A counter of the seconds in which all output tokens but the first of each request were generated."""
    gauges: Mapping[str, tuple[str, Names]] = field(default_factory=dict)
    """Unit and names of a mean that the server computes itself; read after the run."""
    loads: Mapping[str, Names] = field(default_factory=dict)
    """Gauges of the moment, by the keys of `LOAD_GAUGES`."""

    @property
    def counters(self) -> Iterator[str]:
        """The exported names that only grow, so that a smaller value means a restart."""
        counts = (self.requests, self.prompt_tokens, self.cached_tokens, self.output_tokens, *self.totals.values())
        yield from (name for names in (*counts, self.prefill_seconds, self.decode_seconds) for name in names)
        yield from (name for parts in self.shares.values() for names in parts for name in names)
        histograms = (name.partition("{")[0] for names in self.seconds.values() for name in names)
        yield from (f"{name}_count" for name in histograms)

    def renamed(self, old: str, new: str) -> "MetricNames":
        """The same metrics of a fork that only changed the start of each name."""

        def rename(value: Any) -> Any:
            if isinstance(value, str):
                return new + value.removeprefix(old) if value.startswith(old) else value
            if isinstance(value, tuple):
                return tuple(map(rename, value))
            return {key: rename(item) for key, item in value.items()} if isinstance(value, Mapping) else value

        return MetricNames(**{entry.name: rename(getattr(self, entry.name)) for entry in fields(self)})


def by_difference(name: str) -> str:
    return _("{name}, difference of two readings", name=name)


def after_the_run(name: str) -> str:
    return _("{name}, after the run", name=name)


class PrometheusEngine(OpenAI):
    """A server that exports Prometheus metrics, whose names are its `metric_names`."""

    metric_names: ClassVar[MetricNames]

    def health(self, client: ServerClient) -> Health:
        """Busy while its gauges of running and waiting requests say so."""
        health = super().health(client)
        gauges = [self.metric_names.loads[key] for key in _REQUEST_GAUGES if key in self.metric_names.loads]
        if not health.ready or not gauges:
            return health
        samples = prometheus.scrape(client, self.metric_names.path)
        return busy_health([_total(samples, names) for names in gauges])

    def counters(self, client: ServerClient) -> Counters | None:
        metrics = self.metric_names
        samples = prometheus.scrape(client, self._state_path(client, metrics.path))
        fresh, output = _fresh_tokens(metrics, samples), _total(samples, metrics.output_tokens)
        requests = _total(samples, metrics.requests)
        if fresh is None and output is None and requests is None:
            return None
        counters = set(metrics.counters)
        return Counters(
            prompt_tokens=fresh,
            cached_prompt_tokens=_total(samples, metrics.cached_tokens),
            output_tokens=output,
            requests=requests,
            since=prometheus.start_time(samples),
            totals={key: value for key, value in samples.items() if key.partition("{")[0] in counters},
            raw=samples,
        )

    def _state_path(self, client: ServerClient, path: str) -> str:
        """The path that reports the state of the client's model, for an engine that has one per model."""
        return path

    def server_metrics(
        self, before: Counters, after: Counters, model: str | None, requests: int
    ) -> Sequence[ServerMetric]:
        """Engines that count tokens but no requests are taken to have had `requests`."""
        metrics = self.metric_names
        first, last = prometheus.of_model(model, before.raw, after.raw)
        growth = prometheus.growth(first, last, set(metrics.counters))
        return [
            *_totals(metrics, growth),
            *(metric for name, names in metrics.seconds.items() for metric in distribution(name, names, growth)),
            *_rates(metrics, growth, requests),
            *_shares(metrics, growth),
            *_gauges(metrics, last),
        ]

    def load(self, client: ServerClient) -> Mapping[str, float]:
        if not self.metric_names.loads:
            return {}
        samples = prometheus.scrape(client, self.metric_names.path)
        gauges = {name: _gauge(samples, names, LOAD_GAUGES[name]) for name, names in self.metric_names.loads.items()}
        return {name: gauge[1] for name, gauge in gauges.items() if gauge is not None and number(gauge[1]) is not None}


def _totals(metrics: MetricNames, growth: Mapping[str, float]) -> Iterator[ServerMetric]:
    units = {
        "requests": ("", metrics.requests),
        "prompt_tokens" if metrics.holds_cached else "fresh_prompt_tokens": ("tokens", metrics.prompt_tokens),
        "cached_tokens": ("tokens", metrics.cached_tokens),
        "output_tokens": ("tokens", metrics.output_tokens),
        **{name: ("", names) for name, names in metrics.totals.items()},
    }
    for name, (unit, names) in units.items():
        if (sample := _first(growth, names)) is not None:
            yield ServerMetric(name, "total", unit, sample[1], by_difference(sample[0]))


def distribution(name: str, names: Names, growth: Mapping[str, float]) -> Iterator[ServerMetric]:
    """Mean and percentiles of the first of the histograms that observed anything."""
    for key in names:
        if (histogram := prometheus.histogram(growth, key)) is None:
            continue
        mean_ms = histogram.mean * 1000
        yield ServerMetric(name, "mean", "ms", mean_ms, _("{key}, sum over count, difference of two readings", key=key))
        percentiles: tuple[tuple[Statistic, int], ...] = (("p50", 50), ("p99", 99))
        for statistic, percent in percentiles:
            if (bounds := histogram.percentile_bounds(percent)) is not None:
                low_ms, high_ms = bounds[0] * 1000, None if bounds[1] is None else bounds[1] * 1000
                yield ServerMetric(name, statistic, "ms", None, bucket_of(key), low_ms, high_ms)
        return


def _rates(metrics: MetricNames, growth: Mapping[str, float], requests: int) -> Iterator[ServerMetric]:
    output, counted_requests = _total(growth, metrics.output_tokens), _total(growth, metrics.requests)
    steps = None if output is None else output - (requests if counted_requests is None else counted_requests)
    for name, tokens, names, what in (
        ("prefill_tokens_per_s", _fresh_tokens(metrics, growth), metrics.prefill_seconds, _("fresh prompt tokens")),
        ("decode_tokens_per_s", steps, metrics.decode_seconds, _("output tokens but the first of each request")),
    ):
        seconds = _first(growth, names)
        if seconds is not None and tokens is not None and tokens > 0 and seconds[1] > 0:
            yield ServerMetric(name, "mean", "tok/s", tokens / seconds[1], over(what, seconds[0]))


def _shares(metrics: MetricNames, growth: Mapping[str, float]) -> Iterator[ServerMetric]:
    for name, (parts, wholes) in metrics.shares.items():
        part, whole = _first(growth, parts), _first(growth, wholes)
        if part is not None and whole is not None and whole[1] > 0:
            yield ServerMetric(name, "mean", "share", part[1] / whole[1], over(part[0], whole[0]))


def _gauges(metrics: MetricNames, samples: Mapping[str, float]) -> Iterator[ServerMetric]:
    for name, (unit, names) in metrics.gauges.items():
        if (gauge := _gauge(samples, names, unit)) is not None:
            yield ServerMetric(name, "now", unit, gauge[1], after_the_run(gauge[0]))


def over(part: str, whole: str) -> str:
    return _("{part} over {whole}, difference of two readings", part=part, whole=whole)


def _first(samples: Mapping[str, float], names: Names) -> tuple[str, float] | None:
    """The first of the names that has samples, with their sum."""
    return next(((name, value) for name in names if (value := prometheus.total(samples, name)) is not None), None)


def _gauge(samples: Mapping[str, float], names: Names, unit: str) -> tuple[str, float] | None:
    """As `_first`, but shares of several engines behind one server are averaged."""
    gauge = _first(samples, names)
    if gauge is None or unit != "share":
        return gauge
    return gauge[0], gauge[1] / sum(key.partition("{")[0] == gauge[0] for key in samples)


def _total(samples: Mapping[str, float], names: Names) -> float | None:
    sample = _first(samples, names)
    return None if sample is None else sample[1]


def _fresh_tokens(metrics: MetricNames, samples: Mapping[str, float]) -> float | None:
    """Prompt tokens without cached ones."""
    prompt, cached = _total(samples, metrics.prompt_tokens), _total(samples, metrics.cached_tokens)
    return prompt if prompt is None or not metrics.holds_cached else prompt - (cached or 0)
