"""A run's numbers in words: what its page says about each figure, where it comes from and what to make of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.core.i18n import _
from app.core.samples import Sample, Status, Workload
from app.core.units import format_number, plural, spread
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
    spread: str
    """`± 1.9`, or for a very lopsided distribution the ends of the interval; empty for a single sample."""
    spread_meaning: str
    interval: str
    """Its ends with what they are and of how many samples, or why there is none."""
    ends: str
    samples: int
    source: str
    reason: str
    """Why there is no value; empty when there is one."""


@dataclass(frozen=True)
class Headline:
    """One number of a metric, and the other sources' figures beside it."""

    shown: Reading
    others: tuple[Reading, ...]


@dataclass(frozen=True)
class PointResult:
    point: Workload
    triple: tuple[Headline, ...]
    slope: Reading | None
    """Prefill between this prompt length and the next shorter one."""
    further: tuple[Headline, ...]
    warning: str | None
    left_out: tuple[str, ...]


def results(measured: Sequence[MetricResult], samples: Sequence[Sample]) -> list[PointResult]:
    """Of each point in the order measured."""
    by_point: dict[Workload, list[MetricResult]] = {}
    for each in measured:
        by_point.setdefault(each.point, []).append(each)
    return [
        _result(point, found, [sample for sample in samples if sample.point == point])
        for point, found in by_point.items()
    ]


def _result(point: Workload, found: Sequence[MetricResult], samples: Sequence[Sample]) -> PointResult:
    triple = [_headline(key, found) for key in HEADLINE_METRICS]
    if cached := [_reading(each) for each in found if each.metric == "ttft_reused_ms" and each.value is not None]:
        # what such a suite is played for stands beside the fresh one
        triple[0] = replace(
            triple[0], others=(*triple[0].others, *(replace(one, source=_("Prompt cached")) for one in cached))
        )
    return PointResult(
        point=point,
        triple=tuple(triple),
        slope=next((_reading(each) for each in found if each.source == "slope"), None),
        further=tuple(_headline(key, found) for key in further_metrics() if any(each.metric == key for each in found)),
        warning=disagreement(found, samples),
        left_out=_left_out(found),
    )


def _headline(key: str, found: Sequence[MetricResult]) -> Headline:
    of_key = [each for each in found if each.metric == key]
    if not of_key:
        return Headline(_unknown(key, "no_sample"), ())
    shown = next((each for each in of_key if each.is_shown), of_key[0])
    return Headline(_reading(shown), tuple(_reading(each) for each in of_key if each is not shown))


def _unknown(key: str, reason: str) -> Reading:
    return Reading(metrics()[key], format_number(None), "", "", "", "", 0, "", _null_reason(reason))


def _reading(each: MetricResult) -> Reading:
    text, meaning = spread(each.value, each.standard_deviation, each.low, each.high)
    return Reading(
        metric=metrics()[each.metric],
        value=format_number(each.value),
        spread=text,
        spread_meaning=meaning,
        interval=_interval(each),
        ends=_ends(each),
        samples=each.samples,
        source=_source(each),
        reason=_null_reason(each.null_reason) if each.value is None else "",
    )


def _null_reason(key: str | None) -> str:
    return _(NULL_REASONS[key]) if key else ""


def _source(each: MetricResult) -> str:
    said = _(SOURCES[each.source])
    is_bound = each.metric == "prefill_tokens_per_s" and each.source == "client" and each.value is not None
    return _("{said}, a lower bound: it contains HTTP, queue and chat template", said=said) if is_bound else said


def _interval(each: MetricResult) -> str:
    """With how many samples it is of."""
    if each.value is None:
        return ""
    if each.low is not None and each.high is not None:
        said = _("95 % interval {ends}", ends=_ends(each))
    elif each.samples == 1:
        return _("One sample: no interval")
    elif each.samples < MIN_FOR_INTERVAL:
        return _("{samples} samples: no interval", samples=each.samples)
    else:
        said = _("No interval")
    return f"{said} · {plural(each.samples, 'sample')}"


def _ends(each: MetricResult) -> str:
    if each.value is None:
        return ""
    if each.low is None or each.high is None:
        return _interval(each)
    return _("{low} to {high}", low=format_number(each.low), high=format_number(each.high))


def _left_out(found: Sequence[MetricResult]) -> tuple[str, ...]:
    most: dict[str, int] = {}
    for each in found:
        for key, count in each.left_out.items():
            most[key] = max(count, most.get(key, 0))
    return tuple(
        _("{samples} left out {why}", samples=plural(count, "sample"), why=_why(key)) for key, count in most.items()
    )


def _why(key: str) -> str:
    if key in FLAGS:
        said = {"flag": flag_name(key), "sentence": without_stop(_(FLAGS[key].sentence))}
        if FLAGS[key].disqualifies:
            return _("({flag}: {sentence})", **said)
        return _("of the timings it spoils ({flag}: {sentence})", **said)
    if key in NULL_REASONS:
        return _("of a number it does not give ({reason})", reason=without_stop(_null_reason(key)))
    return _("(the request failed)") if key == Status.FAILED else f"({key})"


# --- samples ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SampleLine:
    sample: Sample
    is_usable: bool
    triple: tuple[tuple[str, str], ...]
    """Each value as text, and why there is none (else empty)."""


def sample_lines(samples: Sequence[Sample]) -> list[SampleLine]:
    return [
        SampleLine(sample, is_usable(sample), tuple(_of_sample(sample, key) for key in HEADLINE_METRICS))
        for sample in samples
    ]


def _of_sample(sample: Sample, key: str) -> tuple[str, str]:
    value = headline_metrics(sample)[key]
    if value is not None:
        return format_number(value), ""
    reasons = [reading.null_reason for reading in metrics()[key].read([sample]) if reading.null_reason]
    return format_number(None), _null_reason(reasons[0]) if reasons else ""
