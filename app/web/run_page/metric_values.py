"""A run's numbers in words: what its page says about each value, its source and its meaning."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.core.i18n import _
from app.core.samples import Sample, Status, Workload
from app.core.units import format_number, format_under, plural, quantity_parts, spread, unit_factor
from app.metrics import (
    FLAGS,
    HEADLINE_METRICS,
    NULL_REASONS,
    MetricResult,
    further_metrics,
    headline_metrics,
    is_usable,
    metrics,
)
from app.metrics.base import SOURCES, Metric
from app.metrics.server_vs_client import disagreement
from app.metrics.summary import MIN_FOR_INTERVAL
from app.web.terms import flag_name, without_stop


@dataclass(frozen=True)
class Reading:
    """One metric of one point from one source, as text."""

    metric: Metric
    value: str
    unit: str
    """The unit of the value: a long time is in seconds."""
    spread: str
    """`± 1.9`, or for a very lopsided distribution the ends of the interval; empty for a single sample."""
    spread_meaning: str
    interval: str
    """The ends of the interval with their meaning and the number of samples, or why there is no interval."""
    ends: str
    samples: int
    source: str
    reason: str
    """Why there is no value; empty when there is one."""


@dataclass(frozen=True)
class Headline:
    """One number of a metric, and the values of the other sources."""

    shown: Reading
    others: tuple[Reading, ...]


@dataclass(frozen=True)
class PointResult:
    point: Workload
    headline: tuple[Headline, ...]
    slope: Reading | None
    """The prefill speed between this prompt length and the next shorter one."""
    further: tuple[Headline, ...]
    warning: str | None
    left_out: tuple[str, ...]


def point_results(results: Sequence[MetricResult], samples: Sequence[Sample]) -> list[PointResult]:
    """Returns the results of each workload, in the order measured."""
    by_point: dict[Workload, list[MetricResult]] = {}
    for result in results:
        by_point.setdefault(result.point, []).append(result)
    return [
        _point_result(point, of_point, [sample for sample in samples if sample.point == point])
        for point, of_point in by_point.items()
    ]


def _point_result(point: Workload, results: Sequence[MetricResult], samples: Sequence[Sample]) -> PointResult:
    """Returns the results of one workload; `results` and `samples` are of this workload."""
    headline = [_headline(key, results) for key in HEADLINE_METRICS]
    cached = [result for result in results if result.metric == "ttft_reused_ms" and result.value is not None]
    if cached:  # the purpose of such a suite is shown beside the fresh TTFT
        readings = (replace(_reading(result), source=_("Prompt cached")) for result in cached)
        headline[0] = replace(headline[0], others=(*headline[0].others, *readings))
    measured = {result.metric for result in results}
    return PointResult(
        point=point,
        headline=tuple(headline),
        slope=next((_reading(result) for result in results if result.source == "slope"), None),
        further=tuple(_headline(key, results) for key in further_metrics() if key in measured),
        warning=disagreement(results, samples),
        left_out=_left_out(results),
    )


def _headline(key: str, results: Sequence[MetricResult]) -> Headline:
    of_metric = [result for result in results if result.metric == key]
    if not of_metric:
        return Headline(_unknown(key, "no_sample"), ())
    shown = next((result for result in of_metric if result.is_shown), of_metric[0])
    return Headline(_reading(shown), tuple(_reading(result) for result in of_metric if result is not shown))


def _unknown(key: str, reason: str) -> Reading:
    metric = metrics()[key]
    return Reading(metric, format_number(None), metric.unit, "", "", "", "", 0, "", _null_reason(reason))


def _reading(result: MetricResult) -> Reading:
    metric = metrics()[result.metric]
    text, meaning = spread(result.value, result.standard_deviation, result.low, result.high, metric.unit)
    value, unit = quantity_parts(result.value, metric.unit)
    return Reading(
        metric=metric,
        value=value,
        unit=unit,
        spread=text,
        spread_meaning=meaning,
        interval=_interval(result),
        ends=_ends(result),
        samples=result.samples,
        source=_source(result),
        reason=_null_reason(result.null_reason) if result.value is None else "",
    )


def _null_reason(key: str | None) -> str:
    return _(NULL_REASONS[key]) if key else ""


def _source(result: MetricResult) -> str:
    source = _(SOURCES[result.source])
    is_bound = result.metric == "prefill_tokens_per_s" and result.source == "client" and result.value is not None
    return (
        _("{source}, a lower bound: it contains HTTP, queue and chat template", source=source) if is_bound else source
    )


def _interval(result: MetricResult) -> str:
    """Returns the interval in words, with the number of samples."""
    if result.value is None:
        return ""
    if result.low is not None and result.high is not None:
        interval = _("95 % interval {ends}", ends=_ends(result))
    elif result.samples == 1:
        return _("One sample: no interval")
    elif result.samples < MIN_FOR_INTERVAL:
        return _("{samples} samples: no interval", samples=result.samples)
    else:
        interval = _("No interval")
    return f"{interval} · {plural(result.samples, 'sample')}"


def _ends(result: MetricResult) -> str:
    if result.value is None:
        return ""
    if result.low is None or result.high is None:
        return _interval(result)
    factor, unit = unit_factor(result.value, metrics()[result.metric].unit)
    ends = _("{low} to {high}", low=format_number(result.low * factor), high=format_number(result.high * factor))
    return ends if factor == 1 else f"{ends} {unit}"


def _left_out(results: Sequence[MetricResult]) -> tuple[str, ...]:
    highest: dict[str, int] = {}
    for result in results:
        for key, count in result.left_out.items():
            highest[key] = max(count, highest.get(key, 0))
    return tuple(
        _("{samples} left out {why}", samples=plural(count, "sample"), why=_why(key)) for key, count in highest.items()
    )


def _why(key: str) -> str:
    if key in FLAGS:
        words = {"flag": flag_name(key), "sentence": without_stop(_(FLAGS[key].sentence))}
        if FLAGS[key].disqualifies:
            return _("({flag}: {sentence})", **words)
        return _("for the timings that it invalidates ({flag}: {sentence})", **words)
    if key in NULL_REASONS:
        return _("for a missing value ({reason})", reason=without_stop(_null_reason(key)))
    return _("(the request failed)") if key == Status.FAILED else f"({key})"


# --- samples ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SampleLine:
    sample: Sample
    is_usable: bool
    headline: tuple[tuple[str, str], ...]
    """For each headline metric its value as text, and why there is none (else empty)."""


def sample_lines(samples: Sequence[Sample]) -> list[SampleLine]:
    return [
        SampleLine(sample, is_usable(sample), tuple(_of_sample(sample, key) for key in HEADLINE_METRICS))
        for sample in samples
    ]


def _of_sample(sample: Sample, key: str) -> tuple[str, str]:
    value = headline_metrics(sample)[key]
    if value is not None:
        return format_under(value, metrics()[key].unit), ""
    reasons = [reading.null_reason for reading in metrics()[key].read([sample]) if reading.null_reason]
    return format_number(None), _null_reason(reasons[0]) if reasons else ""
