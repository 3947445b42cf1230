"""The share of a run: its numbers with their spread, its ceiling, charts and tables, and its hardware in neutral
words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlmodel import Session

from app import charts
from app.ceiling.geometry import Certainty
from app.core.config_settings import remote_host
from app.core.errors import BadInput
from app.core.i18n import N_, _, as_sentence, joined, lower_first, without_code
from app.core.samples import Sample, Workload
from app.core.units import format_number, format_quantity
from app.db.database import session_memo
from app.db.tables import Config, Model
from app.metrics import FLAGS, HEADLINE_METRICS, NULL_REASONS, headline_metrics, metrics
from app.metrics.base import SOURCES
from app.metrics.throughput import USUAL_SLO
from app.results.ceiling import DecodeAnalysis, PointCeiling
from app.results.compare.result import unsound_run_words
from app.results.compare.soundness import unsound_by_run
from app.results.load_run import RunResult, load_run
from app.share import anonymize, circumstances
from app.share.figures import public_figure
from app.share.options import Option, OptionalField
from app.share.snapshot import CeilingShare, Chart, Column, DataTable, Fact, Snapshot, Tile, UserText
from app.suites import Case, point_title

_PARTS = {
    "weights": N_("Weights"),
    "kv": N_("KV cache"),
    "state": N_("State"),
    "layers": N_("Layers, fixed cost"),
    "loss": N_("Remaining loss"),
}


def figures(result: RunResult, main: Workload, insight: DecodeAnalysis | None) -> Iterator[DataTable]:
    """Returns the figures of a run; `main` is the workload that limits and insight are of."""
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
"""The values that points usually have; a column is shown when one differs."""
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


KIND = "run"


@dataclass(frozen=True)
class Shareable:
    """A run with a value, and so with a configuration, a model and a main workload."""

    result: RunResult
    config: Config
    model: Model
    main: Workload
    cases: Sequence[Case]
    """The prompts of its suite."""


def snapshot(session: Session, public_id: str, options: frozenset[Option] = frozenset()) -> Snapshot:
    """Makes the snapshot of a run. Raises NotFound, and BadInput for a run without any number."""
    shareable = session_memo(session, _load, public_id)
    result, config = shareable.result, shareable.config
    included = {field.option: field.text for field in _offers(shareable) if field.option in options}
    is_elsewhere = remote_host(config.settings)
    hardware = _(circumstances.REMOTE_HARDWARE) if is_elsewhere else anonymize.accelerators(result.hardware.devices)
    ceiling, point_ceiling = result.known_ceiling, result.ceiling_at(shareable.main)
    insight = result.insight_at(shareable.main)
    tiles = tuple(_tiles(shareable))
    doubt = _("an estimate, not a bound") if ceiling and ceiling.certainty is Certainty.ESTIMATE else ""
    bars = tuple(_bars(point_ceiling, doubt)) if point_ceiling else ()
    return Snapshot(
        kind=KIND,
        title=" on ".join(filter(None, [anonymize.model_title(shareable.model), hardware])),
        description=describe(tiles, bars),
        subtitle=_subtitle(shareable),
        warnings=tuple(_warnings(session, shareable)),
        tiles=tiles,
        bars=bars,
        facts=tuple(_facts(shareable, included)),
        figures=tuple(figures(result, shareable.main, insight)),
        charts=tuple(_charts(shareable, insight)),
        remarks=tuple(_remarks(shareable)),
        prose=tuple(_prose(shareable, included)),
    )


def offers(session: Session, public_id: str) -> list[OptionalField]:
    """Returns what a person may add to the share of this run."""
    return _offers(session_memo(session, _load, public_id))


def _load(session: Session, public_id: str) -> Shareable:
    result = load_run(session, public_id)
    if result.config is None or result.model is None or result.main_point is None or not result.has_value:
        raise BadInput(_("This run has no result that could be shared."))
    cases = circumstances.suite_cases(session, result.run)
    return Shareable(result, result.config, result.model, result.main_point, cases)


def describe(tiles: Sequence[Tile], bars: Sequence[CeilingShare]) -> str:
    """Returns a description: `TTFT 520 ms, prefill 1,010 tok/s, decode 71.2 tok/s; 62.1 % of the decode ceiling.`"""
    values = [
        f"{lower_first(tile.title)} {format_quantity(tile.value, tile.unit)}"
        for tile in tiles
        if tile.value is not None
    ]
    shares = [f"{format_number(100 * bar.share)} % of the {lower_first(bar.title)}" for bar in bars[:1]]
    return "; ".join(filter(None, [", ".join(values), *shares])) + "."


def _offers(shareable: Shareable) -> list[OptionalField]:
    result = shareable.result
    words = circumstances.optional_texts(result.run, result.machine, shareable.config, shareable.cases)
    return [OptionalField(option, text) for option, text in words.items()]


# --- numbers ---------------------------------------------------------------------------------------------------------


def _tiles(shareable: Shareable) -> Iterator[Tile]:
    for key in HEADLINE_METRICS:
        metric, result = metrics()[key], shareable.result.shown_metric(shareable.main, key)
        if result is None or result.value is None:
            reason_key = (result.null_reason or "") if result else "no_sample"
            reason = _(NULL_REASONS[reason_key]) if reason_key in NULL_REASONS else ""
            yield Tile(metric.title, None, metric.unit, samples=0, reason=reason)
        else:
            yield Tile(
                title=metric.title,
                value=result.value,
                unit=metric.unit,
                standard_deviation=result.standard_deviation,
                low=result.low,
                high=result.high,
                samples=result.samples,
                source=_(SOURCES[result.source]) if result.source in SOURCES else "",
            )


def _bars(ceiling: PointCeiling, doubt: str) -> Iterator[CeilingShare]:
    """Returns the shares of the ceilings; `doubt` says that the ceilings are estimates and is empty for bounds."""
    if ceiling.mbu is not None:
        words = joined(ceiling.decode.words, ceiling.step.words, doubt, by="; ")
        yield CeilingShare(_("Decode ceiling"), ceiling.mbu, ceiling.decode.tokens_per_s, "tok/s", words)
    if ceiling.prefill is not None and ceiling.prefill_share is not None:
        words = joined(ceiling.prefill.words, doubt, by="; ")
        yield CeilingShare(_("Prefill ceiling"), ceiling.prefill_share, ceiling.prefill.tokens_per_s, "tok/s", words)


def _subtitle(shareable: Shareable) -> str:
    engine, day = anonymize.engine(shareable.config), _day(shareable.result)
    return joined(engine, point_title(shareable.main), day, by=" · ")


def _day(result: RunResult) -> str:
    return f"{result.run.started_at:%Y-%m-%d}" if result.run.started_at else ""


def _facts(shareable: Shareable, included: dict[Option, str]) -> Iterator[Fact]:
    result = shareable.result
    yield from circumstances.facts(shareable.config, shareable.model, result.hardware.devices)
    if result.known_ceiling is not None:
        yield circumstances.bandwidth_fact(result.known_ceiling)
    yield Fact(_("Suite"), joined(anonymize.suite(result.run.suite_key), point_title(shareable.main), by=": "))
    if day := _day(result):
        yield Fact(_("Measured"), day)
    for option, title in circumstances.OPTION_TITLES.items():
        if option in included:
            yield Fact(_(title), included[option])


def _charts(shareable: Shareable, insight: DecodeAnalysis | None) -> Iterator[Chart]:
    result, ceiling = shareable.result, shareable.result.known_ceiling
    samples = result.samples_at(shareable.main)
    typical = charts.typical_sample(samples)
    point_ceiling = result.ceiling_at(shareable.main)
    figures = {
        _("Token timeline"): charts.timeline(samples),
        _("Inter-token latency"): charts.gaps(typical) if typical else None,
        _("Decode against context"): charts.against_context(insight.curve, charts.measured_speeds(insight))
        if insight
        else None,
        _("Roofline"): charts.run_roofline(ceiling.placement, point_ceiling) if ceiling and point_ceiling else None,
    }
    yield from (Chart(title, public_figure(figure)) for title, figure in figures.items() if figure is not None)
    streams = charts.serving_figure(result.serving(USUAL_SLO), USUAL_SLO)
    if streams is not None:
        yield Chart(_("Several streams at once"), public_figure(streams), f"chart-stack-{streams.panels}")


def _warnings(session: Session, shareable: Shareable) -> Iterator[str]:
    result = shareable.result
    unsound = unsound_by_run(session, [result.run.public_id])
    yield from (unsound_run_words(reasons) for reasons in unsound.values())
    yield from circumstances.flag_words(result.samples)


def _remarks(shareable: Shareable) -> Iterator[str]:
    result = shareable.result
    yield from circumstances.metric_explanations(HEADLINE_METRICS)
    if any(sample.is_warmup for sample in result.samples):
        yield _("Medians of the samples; warm-ups are listed, but never counted.")
    if result.ceiling_at(shareable.main) is not None:
        yield _(
            "A ceiling is the speed that memory bandwidth and compute allow at most; uncertain bytes are left out of "
            "it. Most good results reach 60 to 85 % of the decode ceiling."
        )


def _prose(shareable: Shareable, included: dict[Option, str]) -> Iterator[UserText]:
    if Option.NOTE in included:
        yield UserText(_("Note"), included[Option.NOTE])
    yield from circumstances.prompt_texts(shareable.cases, included)
