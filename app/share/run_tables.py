"""The tables of a run that is shared: points, limits, where a token's time goes, metrics and samples."""

from collections.abc import Iterator, Sequence

from app.core.i18n import N_, as_sentence
from app.core.samples import Sample, Workload
from app.metrics import FLAGS, HEADLINE_METRICS, NULL_REASONS, headline_metrics, metrics
from app.metrics.base import SOURCES
from app.results.ceiling import DecodeAnalysis, limits_of_run
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


def figures(found: Result, explained: DecodeAnalysis | None) -> Iterator[DataTable]:
    if len(found.points) > 1:
        yield _points(found)
    limiting = limits_of_run(found.taken, found.main, found.roof, found.run.evidence, found.config.engine).findings
    if limiting:
        said = tuple((each.of, each.sentence, as_sentence(each.evidence), _plain(each.remedy)) for each in limiting)
        yield DataTable("What limits it, and what to change first", _LIMIT_COLUMNS, said)
    if explained and explained.waterfall:
        rows = tuple((_PARTS[share.key], share.ms, share.words) for share in explained.waterfall)
        columns = (Column("Part", is_text=True), Column("Time", "ms"), Column("Arithmetic", is_text=True))
        yield DataTable("Where a token's time goes", columns, rows)
    for point in found.points:
        title = N_("All metrics") if len(found.points) == 1 else N_("All metrics at {point}", point=point_title(point))
        yield DataTable(title, _METRIC_COLUMNS, tuple(_metric_rows(found, point)))
    if found.taken:
        yield _samples(found.taken)


def _plain(words: str) -> str:
    """Without the marks of code, which a spreadsheet would show."""
    return words.replace("`", "")


_LIMIT_COLUMNS = (
    Column("Metric", is_text=True),
    Column("Limit", is_text=True),
    Column("Evidence", is_text=True),
    Column("Remedy", is_text=True),
)


_SELDOM = {"concurrency": 1, "depth": 0}
"""What points usually have; worth a column where one differs."""
_SELDOM_TITLES = {"concurrency": N_("Streams"), "depth": N_("In the cache before")}


def _points(found: Result) -> DataTable:
    varied = [name for name, usual in _SELDOM.items() if any(getattr(point, name) != usual for point in found.points)]
    columns = (
        Column("Prompt tokens"),
        Column("Output tokens"),
        *(Column(_SELDOM_TITLES[name]) for name in varied),
        *(Column(metrics()[key].title, metrics()[key].unit) for key in HEADLINE_METRICS),
        *((Column("Decode ceiling", "tok/s"), Column("Reached", "%")) if found.roof else ()),
    )
    rows = []
    for point in found.points:
        triple = [each.value if (each := found.shown(point, key)) else None for key in HEADLINE_METRICS]
        top = found.roof.at(point) if found.roof else None
        ceiling = (top.decode.tokens_per_s, top.mbu and top.mbu * 100) if top else ()
        lengths = (point.prompt_tokens, point.output_tokens, *(int(getattr(point, name)) for name in varied))
        rows.append((*lengths, *triple, *ceiling))
    return DataTable("Points", columns, tuple(rows), is_brief=True)


_METRIC_COLUMNS = (
    Column("Metric", is_text=True),
    Column("Value"),
    Column("Unit", is_text=True),
    Column("Standard deviation"),
    Column("95 % low"),
    Column("95 % high"),
    Column("Samples"),
    Column("Source", is_text=True),
)


def _metric_rows(found: Result, point: Workload) -> Iterator[tuple[str | float | None, ...]]:
    order = [*HEADLINE_METRICS, *(key for key in metrics() if key not in HEADLINE_METRICS)]
    here = [each for each in found.measured if each.point == point and each.metric in order]
    for each in sorted(here, key=lambda one: (order.index(one.metric), not one.is_shown)):
        metric = metrics()[each.metric]
        why = SOURCES.get(each.source, "") if each.value is not None else NULL_REASONS.get(each.null_reason or "", "")
        ends = (each.standard_deviation, each.low, each.high)
        yield (metric.title, each.value, metric.unit, *ends, each.samples, why)


_SAMPLE_COLUMNS = (
    Column("Sample"),
    Column("Kind", is_text=True),
    Column("TTFT", "ms"),
    Column("Prefill", "tok/s"),
    Column("Decode", "tok/s"),
    Column("Prompt tokens"),
    Column("Output tokens"),
)


def _samples(taken: Sequence[Sample]) -> DataTable:
    flags = [", ".join(FLAGS[flag].title for flag in sample.flags if flag in FLAGS) for sample in taken]
    if not any(flags):
        return DataTable("Samples", _SAMPLE_COLUMNS, tuple(map(_sample_row, taken)))
    rows = tuple((*_sample_row(sample), said) for sample, said in zip(taken, flags, strict=True))
    return DataTable("Samples", (*_SAMPLE_COLUMNS, Column("Flags", is_text=True)), rows)


def _sample_row(sample: Sample) -> tuple[str | float | None, ...]:
    triple = headline_metrics(sample)
    return (
        sample.ordinal + 1,
        "warm-up" if sample.is_warmup else sample.trace.status.value,
        *(triple[key] for key in HEADLINE_METRICS),
        sample.trace.prompt_tokens,
        sample.trace.output_tokens,
    )
