"""The tables of a run that is shared: points, limits, where a token's time goes, metrics and samples."""

from collections.abc import Iterator, Sequence

from app.core.i18n import N_, _, as_sentence, joined, without_code
from app.core.samples import Sample, Workload
from app.metrics import FLAGS, HEADLINE_METRICS, NULL_REASONS, headline_metrics, metrics
from app.metrics.base import SOURCES
from app.results.ceiling import DecodeAnalysis
from app.results.load_run import RunResult
from app.share.snapshot import Column, DataTable
from app.suites import point_title

_PARTS = {
    "weights": N_("Weights"),
    "kv": N_("KV cache"),
    "state": N_("State"),
    "layers": N_("Layers, fixed cost"),
    "loss": N_("Remaining"),
}


def figures(result: RunResult, main: Workload, insight: DecodeAnalysis | None) -> Iterator[DataTable]:
    """`main`: the workload that limits and insight are of."""
    if len(result.points) > 1:
        yield _points(result)
    limits = result.limits_at(main).findings
    if limits:
        rows = tuple(
            (_(limit.of), limit.sentence, as_sentence(limit.evidence), without_code(limit.remedy)) for limit in limits
        )
        yield DataTable(_("What limits it, and what to change first"), _limit_columns(), rows)
    if insight and insight.waterfall:
        parts = tuple((_(_PARTS[share.key]), share.ms, share.words) for share in insight.waterfall)
        columns = (Column(_("Part"), is_text=True), Column(_("Time"), "ms"), Column(_("Arithmetic"), is_text=True))
        yield DataTable(_("Where a token's time goes"), columns, parts)
    for point in result.points:
        is_only = len(result.points) == 1
        title = _("All metrics") if is_only else _("All metrics at {point}", point=point_title(point))
        yield DataTable(title, _metric_columns(), tuple(_metric_rows(result, point)))
    if result.samples:
        yield _samples(result.samples)


def _limit_columns() -> tuple[Column, ...]:
    return (
        Column(_("Metric"), is_text=True),
        Column(_("Limit"), is_text=True),
        Column(_("Evidence"), is_text=True),
        Column(_("Remedy"), is_text=True),
    )


_SELDOM = {"concurrency": 1, "depth": 0}
"""What points usually have; worth a column where one differs."""
_SELDOM_TITLES = {"concurrency": N_("Streams"), "depth": N_("In the cache before")}


def _points(result: RunResult) -> DataTable:
    points, ceiling = result.points, result.known_ceiling
    varied = [name for name, usual in _SELDOM.items() if any(getattr(point, name) != usual for point in points)]
    columns = (
        Column(_("Prompt tokens")),
        Column(_("Output tokens")),
        *(Column(_(_SELDOM_TITLES[name])) for name in varied),
        *(Column(metrics()[key].title, metrics()[key].unit) for key in HEADLINE_METRICS),
        *((Column(_("Decode ceiling"), "tok/s"), Column(_("Reached"), "%")) if ceiling else ()),
    )
    rows = []
    for point in points:
        lengths = (point.prompt_tokens, point.output_tokens, *(int(getattr(point, name)) for name in varied))
        headline = [shown.value if (shown := result.shown_metric(point, key)) else None for key in HEADLINE_METRICS]
        point_ceiling = result.ceiling_at(point)
        reached = (
            (point_ceiling.decode.tokens_per_s, point_ceiling.mbu and point_ceiling.mbu * 100) if point_ceiling else ()
        )
        rows.append((*lengths, *headline, *reached))
    return DataTable(_("Points"), columns, tuple(rows), is_brief=True)


def _metric_columns() -> tuple[Column, ...]:
    return (
        Column(_("Metric"), is_text=True),
        Column(_("Value")),
        Column(_("Unit"), is_text=True),
        Column(_("Standard deviation")),
        Column(_("95 % low")),
        Column(_("95 % high")),
        Column(_("Samples")),
        Column(_("Source"), is_text=True),
    )


def _metric_rows(result: RunResult, point: Workload) -> Iterator[tuple[str | float | None, ...]]:
    order = list(metrics())
    shown_first = sorted(
        (metric_result for metric_result in result.metrics_at(point) if metric_result.metric in order),
        key=lambda metric_result: (order.index(metric_result.metric), not metric_result.is_shown),
    )
    for metric_result in shown_first:
        metric = metrics()[metric_result.metric]
        has_value = metric_result.value is not None
        why = SOURCES.get(metric_result.source) if has_value else NULL_REASONS.get(metric_result.null_reason or "")
        ends = (metric_result.standard_deviation, metric_result.low, metric_result.high)
        yield (metric.title, metric_result.value, metric.unit, *ends, metric_result.samples, _(why) if why else "")


def _sample_columns() -> tuple[Column, ...]:
    return (
        Column(_("Sample")),
        Column(_("Kind"), is_text=True),
        Column(_("TTFT"), "ms"),
        Column(_("Prefill"), "tok/s"),
        Column(_("Decode"), "tok/s"),
        Column(_("Prompt tokens")),
        Column(_("Output tokens")),
    )


def _samples(samples: Sequence[Sample]) -> DataTable:
    flags = [joined(*(_(FLAGS[flag].title) for flag in sample.flags if flag in FLAGS), by=", ") for sample in samples]
    if not any(flags):
        return DataTable(_("Samples"), _sample_columns(), tuple(map(_sample_row, samples)))
    rows = tuple((*_sample_row(sample), titles) for sample, titles in zip(samples, flags, strict=True))
    return DataTable(_("Samples"), (*_sample_columns(), Column(_("Flags"), is_text=True)), rows)


def _sample_row(sample: Sample) -> tuple[str | float | None, ...]:
    values = headline_metrics(sample)
    return (
        sample.ordinal + 1,
        _("warm-up") if sample.is_warmup else _(sample.trace.status.value),
        *(values[key] for key in HEADLINE_METRICS),
        sample.trace.prompt_tokens,
        sample.trace.output_tokens,
    )
