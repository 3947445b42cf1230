"""Metrics: from the samples of a run to its numbers. Pure: the same samples always give the same numbers."""

import hashlib
import importlib
import json
import pkgutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from statistics import median

from app.core import i18n
from app.core.samples import Sample, Status, Workload
from app.metrics.base import NULL_REASONS, Metric, Reading, Source, missing
from app.metrics.flags import FLAGS, NO_WHOLE_ANSWER, flags_of, is_sound, is_usable, refreshed_flags
from app.metrics.overlap import with_prefill_overlaps
from app.metrics.prefill import MIN_FRESH_TOKENS, fresh_prompt_tokens
from app.metrics.sanity_checks import MAX_PREFILL_TOKENS_PER_S
from app.metrics.summary import difference_interval, summarise

__all__ = [
    "FLAGS",
    "HEADLINE_METRICS",
    "NULL_REASONS",
    "MetricResult",
    "Values",
    "applies_to",
    "compute_metrics",
    "derivation_digest",
    "flags_of",
    "further_metrics",
    "headline_metrics",
    "is_sound",
    "is_usable",
    "metrics",
    "refreshed_flags",
    "rounds_of",
    "values_of",
]

HEADLINE_METRICS = ("ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s")
"""The metrics shown first and largest; a verdict judges them together."""

SOURCE_ORDER: dict[str, tuple[Source, ...]] = {"prefill_tokens_per_s": ("server", "slope", "client", "import")}
"""The sources in order of preference where only one value is shown; for other metrics the client's comes first."""

DERIVATION_VERSION = 4
"""Raised when what all metrics share changes: statistics, the order of sources, which samples count, and what an engine
makes of a server's stored figures (`Engine.corrected`)."""


def derivation_digest() -> str:
    """Returns the digest of all formulas and flag rules. A run that was derived with another digest is derived again.

    So a metric that is added later is computed for earlier runs, too.
    """
    formulas = {key: metric.formula_version for key, metric in _metrics(i18n.ENGLISH).items()}
    rules = {key: flag.rule_version for key, flag in FLAGS.items()}
    return hashlib.sha256(json.dumps([DERIVATION_VERSION, formulas, rules], sort_keys=True).encode()).hexdigest()


def metrics() -> dict[str, Metric]:
    """All metrics by key, the headline first, in the reader's language."""
    return _metrics(i18n.language())


@cache
def _metrics(_language: str) -> dict[str, Metric]:
    """Returns all metrics by key; `_language` is the request's, which the titles are in."""
    return {
        key: replace(metric, title=i18n._(metric.title), explanation=i18n._(metric.explanation))
        for key, metric in _formulas().items()
    }


@cache
def _formulas() -> dict[str, Metric]:
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    by_key = {metric.key: metric for module in modules for metric in getattr(module, "METRICS", ())}
    headline = [by_key.pop(key) for key in HEADLINE_METRICS]
    further = sorted(by_key.values(), key=lambda metric: (metric.order, metric.key))
    return {metric.key: metric for metric in (*headline, *further)}


def further_metrics() -> list[str]:
    """The keys of all metrics but the headline's, in the order in which they are shown."""
    return [key for key in metrics() if key not in HEADLINE_METRICS]


@dataclass(frozen=True)
class MetricResult:
    """The result of one metric at one workload from one source, over all usable samples."""

    point: Workload
    metric: str
    source: Source
    unit: str
    value: float | None
    """The median."""
    low: float | None = None
    high: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    standard_deviation: float | None = None
    samples: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """The number of samples (or rounds) left out by flag, status or, next to those that have a value, null reason."""
    null_reason: str | None = None
    is_shown: bool = False
    """Whether this source is shown where there is room for one only."""
    formula_version: int = 1


def preferred(metric: str) -> tuple[Source, ...]:
    return SOURCE_ORDER.get(metric, ("client", "server", "slope", "sensor", "import"))


def headline_metrics(sample: Sample) -> dict[str, float | None]:
    """Returns the headline metrics of a single sample, each from its preferred source."""
    shown: dict[str, float | None] = {}
    for key in HEADLINE_METRICS:
        readings = {reading.source: reading.value for reading in metrics()[key].read([sample])}
        shown[key] = next((readings[s] for s in preferred(key) if readings.get(s) is not None), None)
    return shown


def compute_metrics(samples: Sequence[Sample]) -> list[MetricResult]:
    """Computes every metric of every workload. Warm-ups count only for metrics with `counts_warmups`; disqualified
    samples are counted as left out."""
    samples = with_prefill_overlaps(samples)
    fresh, reused = (_by_point(samples, for_cached_prompt) for for_cached_prompt in (False, True))
    whole: dict[Workload, list[Sample]] = {}
    for sample in samples:
        whole.setdefault(sample.point, []).append(sample)

    def samples_for(metric: Metric, point: Workload) -> Sequence[Sample]:
        by_point = whole if metric.counts_warmups else reused if metric.for_cached_prompt else fresh
        return by_point.get(point, [])

    results = [
        result
        for point in {**fresh, **reused}
        for metric in metrics().values()
        for result in _at(point, samples_for(metric, point), metric)
    ]
    return _with_shown(results + _slopes(fresh))


def applies_to(sample: Sample, metric: Metric) -> bool:
    """Whether the sample was taken the way that the metric needs: with prompt caching defeated, or used on purpose."""
    return sample.reuses_cache is metric.for_cached_prompt


def _by_point(samples: Sequence[Sample], for_cached_prompt: bool) -> dict[Workload, list[Sample]]:
    by_point: dict[Workload, list[Sample]] = {}
    for sample in samples:
        if not sample.is_warmup and sample.reuses_cache is for_cached_prompt:
            by_point.setdefault(sample.point, []).append(sample)
    return by_point


def rounds_of(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Returns the samples of one workload by round: those of one round ran at the same time."""
    if samples and samples[0].point.concurrency == 1:
        return [[sample] for sample in samples]
    rounds: dict[int, list[Sample]] = {}
    for sample in samples:
        rounds.setdefault(sample.round, []).append(sample)
    return list(rounds.values())


def _with_shown(results: list[MetricResult]) -> list[MetricResult]:
    chosen: dict[tuple[Workload, str], MetricResult] = {}
    for result in results:
        best = chosen.get((result.point, result.metric))
        if best is None or _shown_rank(result) < _shown_rank(best):
            chosen[result.point, result.metric] = result
    return [replace(result, is_shown=chosen[result.point, result.metric] is result) for result in results]


def _shown_rank(result: MetricResult) -> tuple[bool, int]:
    return result.value is None, preferred(result.metric).index(result.source)


@dataclass(frozen=True)
class Values:
    """The values that the samples of one workload give for one metric, before any statistics."""

    by_source: dict[Source, list[float]]
    reasons: dict[Source, Counter[str]]
    """Counts of the reasons why samples gave no value, by source."""
    left_out: Counter[str]
    """Counts of whole samples that were left out, by flag or status."""


def values_of(metric: Metric, samples: Sequence[Sample]) -> Values:
    """`samples`: those of one point that the metric applies to (see `applies_to`), without warm-ups unless it counts
    them."""
    values: dict[Source, list[float]] = {}
    reasons: dict[Source, Counter[str]] = {}
    left_out: Counter[str] = Counter()
    read: list[Sequence[Reading]] = []
    samples = with_prefill_overlaps(samples)
    for streams in rounds_of(samples) if metric.round_formula is not None else [[sample] for sample in samples]:
        if unusable := [flag for sample in streams for flag in _disqualifications(metric, sample)]:
            left_out.update([] if metric.counts_warmups else unusable[:1])
        elif invalidating := [flag for sample in streams for flag in _invalidating_flags(metric, sample)]:
            left_out.update(invalidating[:1])
        else:
            read.append(metric.read(streams))
    for source in dict.fromkeys(reading.source for readings in read for reading in readings):
        values[source], reasons[source] = [], Counter()
        for readings in read:
            reading = next(
                (candidate for candidate in readings if candidate.source == source), missing(source, "not_stated")
            )
            if reading.value is not None:
                values[source].append(reading.value)
            else:
                reasons[source].update([reading.null_reason or "not_stated"])
    if not values and left_out and metric.key in HEADLINE_METRICS:
        reason = left_out.most_common(1)[0][0]
        values["client"] = []
        reasons["client"] = Counter([reason if reason in NULL_REASONS else "no_usable_sample"])
    return Values(values, reasons, left_out)


def _at(point: Workload, samples: Sequence[Sample], metric: Metric) -> list[MetricResult]:
    metric_values = values_of(metric, samples)
    return [
        _summarised(point, metric, source, values, metric_values.reasons[source], metric_values.left_out)
        for source, values in metric_values.by_source.items()
    ]


def _invalidating_flags(metric: Metric, sample: Sample) -> list[str]:
    return [flag for flag in sample.flags if flag in metric.invalidated_by]


def _disqualifications(metric: Metric, sample: Sample) -> list[str]:
    """Returns why the sample cannot count: disqualifying flags, else its status; empty when it can."""
    flags = [key for key in sample.flags if key in FLAGS and FLAGS[key].disqualifies]
    if metric.counts_warmups:  # a flag says nothing against an event that the server states
        return [] if sample.trace.status is Status.OK else [sample.trace.status.value]
    # a lone stream without an answer is a round of nothing else, of which nothing is known
    if metric.counts_failures and sample.point.concurrency > 1:
        return [flag for flag in flags if flag not in NO_WHOLE_ANSWER]
    return flags or ([] if is_usable(sample) else [sample.trace.status.value])


def _summarised(
    point: Workload,
    metric: Metric,
    source: Source,
    values: Sequence[float],
    reasons: Counter[str],
    left_out: Counter[str],
) -> MetricResult:
    """Returns the summary of the values; `left_out` counts whole samples, `reasons` those without a value from this
    source."""
    if not values:
        return MetricResult(
            point,
            metric.key,
            source,
            metric.unit,
            None,
            left_out=dict(left_out),
            null_reason=reasons.most_common(1)[0][0],
            formula_version=metric.formula_version,
        )
    summary = summarise(values)
    return MetricResult(
        point=point,
        metric=metric.key,
        source=source,
        unit=metric.unit,
        value=summary.median,
        low=summary.low,
        high=summary.high,
        minimum=summary.minimum,
        maximum=summary.maximum,
        standard_deviation=summary.standard_deviation,
        samples=summary.count,
        left_out=dict(left_out + (Counter() if metric.counts_warmups else reasons)),
        formula_version=metric.formula_version,
    )


def _slopes(by_point: dict[Workload, list[Sample]]) -> list[MetricResult]:
    """Returns prefill speeds between neighbouring prompt lengths: delta tokens / delta TTFT, which cancels constant
    overhead.

    The value belongs to the longer of the two lengths.
    """
    ttft_ms = metrics()["ttft_ms"]
    lengths: list[tuple[float, Workload, list[float]]] = []
    for point, samples in by_point.items():
        usable = [s for s in samples if is_usable(s) and not _invalidating_flags(ttft_ms, s) and point.concurrency == 1]
        pairs = [
            (fresh, ttft)
            for s in usable
            if (fresh := fresh_prompt_tokens(s)) is not None and (ttft := ttft_ms.read([s])[0].value) is not None
        ]
        if pairs:
            lengths.append((median(t for t, _ in pairs), point, [ttft for _, ttft in pairs]))
    lengths.sort(key=lambda length: length[0])
    metric = metrics()["prefill_tokens_per_s"]
    slopes = []
    for (tokens, _, ttfts), (more_tokens, point, more_ttfts) in pairwise(lengths):
        more = more_tokens - tokens
        if more < MIN_FRESH_TOKENS:
            continue
        later_ms = median(more_ttfts) - median(ttfts)
        speed = more / later_ms * 1000 if later_ms > 0 else None
        reason = "no_slope" if speed is None else "implausible" if speed > MAX_PREFILL_TOKENS_PER_S else None
        bounds_ms = difference_interval(ttfts, more_ttfts)
        low = high = None
        if reason is None and bounds_ms is not None and bounds_ms[0] > 0:
            # an interval of means, which is to hold the difference of the medians that it stands beside
            low, high = more / max(bounds_ms[1], later_ms) * 1000, more / min(bounds_ms[0], later_ms) * 1000
        slopes.append(
            MetricResult(
                point=point,
                metric=metric.key,
                source="slope",
                unit=metric.unit,
                value=speed if reason is None else None,
                low=low,
                high=high,
                samples=min(len(ttfts), len(more_ttfts)),
                null_reason=reason,
                formula_version=metric.formula_version,
            )
        )
    return slopes
