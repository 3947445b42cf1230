"""The tables of a run that is shared: points, limits, where a token's time goes, metrics and samples."""

from collections.abc import Iterator, Sequence

from app.i18n import as_sentence, marked
from app.metrics import FLAGS, NULL_REASONS, TRIPLE, metrics, triple_of
from app.metrics.base import SOURCES
from app.roof import Insight, limits_of_run
from app.samples import Point, Sample
from app.share.result import Result
from app.share.snapshot import Column, Figures
from app.suites.points import point_title

_PARTS = {
    "weights": marked("Weights"),
    "kv": marked("KV cache"),
    "state": marked("State"),
    "layers": marked("Layers, fixed cost"),
    "loss": marked("Remaining"),
}


def figures(found: Result, explained: Insight | None) -> Iterator[Figures]:
    if len(found.points) > 1:
        yield _points(found)
    limiting = limits_of_run(found.taken, found.main, found.roof, found.run.evidence, found.config.engine).found
    if limiting:
        said = tuple((each.of, each.sentence, as_sentence(each.evidence), _plain(each.remedy)) for each in limiting)
        yield Figures("What limits it, and what to change first", _LIMIT_COLUMNS, said)
    if explained and explained.waterfall:
        rows = tuple((_PARTS[share.key], share.ms, share.words) for share in explained.waterfall)
        columns = (Column("Part", is_text=True), Column("Time", "ms"), Column("Arithmetic", is_text=True))
        yield Figures("Where a token's time goes", columns, rows)
    for point in found.points:
        title = (
            marked("All metrics")
            if len(found.points) == 1
            else marked("All metrics at {point}", point=point_title(point))
        )
        yield Figures(title, _METRIC_COLUMNS, tuple(_metric_rows(found, point)))
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
_SELDOM_TITLES = {"concurrency": marked("Streams"), "depth": marked("In the cache before")}


def _points(found: Result) -> Figures:
    varied = [name for name, usual in _SELDOM.items() if any(getattr(point, name) != usual for point in found.points)]
    columns = (
        Column("Prompt tokens"),
        Column("Output tokens"),
        *(Column(_SELDOM_TITLES[name]) for name in varied),
        *(Column(metrics()[key].title, metrics()[key].unit) for key in TRIPLE),
        *((Column("Decode ceiling", "tok/s"), Column("Reached", "%")) if found.roof else ()),
    )
    rows = []
    for point in found.points:
        triple = [each.value if (each := found.shown(point, key)) else None for key in TRIPLE]
        top = found.roof.at(point) if found.roof else None
        ceiling = (top.decode.tokens_per_s, top.mbu and top.mbu * 100) if top else ()
        lengths = (point.prompt_tokens, point.output_tokens, *(int(getattr(point, name)) for name in varied))
        rows.append((*lengths, *triple, *ceiling))
    return Figures("Points", columns, tuple(rows), is_brief=True)


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


def _metric_rows(found: Result, point: Point) -> Iterator[tuple[str | float | None, ...]]:
    order = [*TRIPLE, *(key for key in metrics() if key not in TRIPLE)]
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


def _samples(taken: Sequence[Sample]) -> Figures:
    flags = [", ".join(FLAGS[flag].title for flag in sample.flags if flag in FLAGS) for sample in taken]
    if not any(flags):
        return Figures("Samples", _SAMPLE_COLUMNS, tuple(map(_sample_row, taken)))
    rows = tuple((*_sample_row(sample), said) for sample, said in zip(taken, flags, strict=True))
    return Figures("Samples", (*_SAMPLE_COLUMNS, Column("Flags", is_text=True)), rows)


def _sample_row(sample: Sample) -> tuple[str | float | None, ...]:
    triple = triple_of(sample)
    return (
        sample.ordinal + 1,
        "warm-up" if sample.is_warmup else sample.trace.status.value,
        *(triple[key] for key in TRIPLE),
        sample.trace.prompt_tokens,
        sample.trace.output_tokens,
    )
