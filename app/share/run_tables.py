"""The tables of a run that is shared: points, limits, where a token's time goes, metrics and samples."""

from collections.abc import Iterator, Sequence

from app.core.i18n import N_, _, as_sentence, joined, without_code
from app.core.samples import Sample, Workload
from app.metrics import FLAGS, HEADLINE_METRICS, NULL_REASONS, headline_metrics, metrics
from app.metrics.base import SOURCES
from app.results.ceiling import Insight, limits_of_run
from app.share.result import Result
from app.share.snapshot import Column, DataTable
from app.suites.points import point_title

_PARTS = {
    "weights": N_("Weights"),
    "kv": N_("KV cache"),
    "state": N_("State"),
    "layers": N_("Layers, fixed cost"),
    "loss": N_("Remaining"),
}


def figures(found: Result, explained: Insight | None) -> Iterator[DataTable]:
    if len(found.points) > 1:
        yield _points(found)
    limiting = limits_of_run(found.taken, found.main, found.roof, found.run.evidence, found.config.engine).found
    if limiting:
        said = tuple(
            (_(each.of), each.sentence, as_sentence(each.evidence), without_code(each.remedy)) for each in limiting
        )
        yield DataTable(_("What limits it, and what to change first"), _limit_columns(), said)
    if explained and explained.waterfall:
        rows = tuple((_(_PARTS[share.key]), share.ms, share.words) for share in explained.waterfall)
        columns = (Column(_("Part"), is_text=True), Column(_("Time"), "ms"), Column(_("Arithmetic"), is_text=True))
        yield DataTable(_("Where a token's time goes"), columns, rows)
    for point in found.points:
        title = _("All metrics") if len(found.points) == 1 else _("All metrics at {point}", point=point_title(point))
        yield DataTable(title, _metric_columns(), tuple(_metric_rows(found, point)))
    if found.taken:
        yield _samples(found.taken)


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


def _points(found: Result) -> DataTable:
    varied = [name for name, usual in _SELDOM.items() if any(getattr(point, name) != usual for point in found.points)]
    columns = (
        Column(_("Prompt tokens")),
        Column(_("Output tokens")),
        *(Column(_(_SELDOM_TITLES[name])) for name in varied),
        *(Column(metrics()[key].title, metrics()[key].unit) for key in HEADLINE_METRICS),
        *((Column(_("Decode ceiling"), "tok/s"), Column(_("Reached"), "%")) if found.roof else ()),
    )
    rows = []
    for point in found.points:
        triple = [each.value if (each := found.shown(point, key)) else None for key in HEADLINE_METRICS]
        top = found.roof.at(point) if found.roof else None
        ceiling = (top.decode.tokens_per_s, top.mbu and top.mbu * 100) if top else ()
        lengths = (point.prompt_tokens, point.output_tokens, *(int(getattr(point, name)) for name in varied))
        rows.append((*lengths, *triple, *ceiling))
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


def _metric_rows(found: Result, point: Workload) -> Iterator[tuple[str | float | None, ...]]:
    order = [*HEADLINE_METRICS, *(key for key in metrics() if key not in HEADLINE_METRICS)]
    here = [each for each in found.measured if each.point == point and each.metric in order]
    for each in sorted(here, key=lambda one: (order.index(one.metric), not one.is_shown)):
        metric = metrics()[each.metric]
        why = SOURCES.get(each.source) if each.value is not None else NULL_REASONS.get(each.null_reason or "")
        ends = (each.standard_deviation, each.low, each.high)
        yield (metric.title, each.value, metric.unit, *ends, each.samples, _(why) if why else "")


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


def _samples(taken: Sequence[Sample]) -> DataTable:
    flags = [joined(*(_(FLAGS[flag].title) for flag in sample.flags if flag in FLAGS), by=", ") for sample in taken]
    if not any(flags):
        return DataTable(_("Samples"), _sample_columns(), tuple(map(_sample_row, taken)))
    rows = tuple((*_sample_row(sample), said) for sample, said in zip(taken, flags, strict=True))
    return DataTable(_("Samples"), (*_sample_columns(), Column(_("Flags"), is_text=True)), rows)


def _sample_row(sample: Sample) -> tuple[str | float | None, ...]:
    triple = headline_metrics(sample)
    return (
        sample.ordinal + 1,
        _("warm-up") if sample.is_warmup else _(sample.trace.status.value),
        *(triple[key] for key in HEADLINE_METRICS),
        sample.trace.prompt_tokens,
        sample.trace.output_tokens,
    )
