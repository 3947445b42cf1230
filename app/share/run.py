"""One run: its numbers with their spread, its ceiling, its charts, and what it was measured on in neutral words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlmodel import Session

from app import charts
from app.ceiling.geometry import Certainty
from app.core.config_settings import remote_host
from app.core.errors import BadInput
from app.core.i18n import _, joined, lower_first, upper_first
from app.core.samples import Workload
from app.core.units import format_number
from app.db.database import session_memo
from app.db.tables import Config, Model
from app.metrics import FLAGS, HEADLINE_METRICS, NULL_REASONS, metrics
from app.metrics.base import SOURCES
from app.metrics.throughput import USUAL_SLO
from app.results.ceiling import DecodeAnalysis, PointCeiling
from app.results.compare.soundness import unsound_by_run
from app.results.compare.words import unsound_run_words
from app.results.load_run import RunResult, load_run
from app.share import anonymize, circumstances, run_tables
from app.share.figures import public_figure
from app.share.options import Option, OptionalField
from app.share.snapshot import CeilingShare, Chart, Fact, Snapshot, Tile, UserText
from app.suites import Case, point_title

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
    """Raises NotFound, and BadInput for a run without any number."""
    shareable = session_memo(session, _load, public_id)
    result, config = shareable.result, shareable.config
    included = {field.option: field.text for field in _offers(shareable) if field.option in options}
    is_elsewhere = remote_host(config.settings)
    hardware = _(circumstances.REMOTE_HARDWARE) if is_elsewhere else anonymize.hardware(result.hardware.devices)
    ceiling, point_ceiling = result.known_ceiling, result.ceiling_at(shareable.main)
    insight = result.insight_at(shareable.main)
    tiles = tuple(_tiles(shareable))
    doubt = _("an estimate, no bound") if ceiling and ceiling.certainty is Certainty.ESTIMATE else ""
    bars = tuple(_bars(point_ceiling, doubt)) if point_ceiling else ()
    return Snapshot(
        kind=KIND,
        title=" on ".join(filter(None, [anonymize.model_title(shareable.model), hardware])),
        description=describe(tiles, bars),
        subtitle=_subtitle(shareable),
        tiles=tiles,
        bars=bars,
        facts=tuple(_facts(shareable, included)),
        figures=tuple(run_tables.figures(result, shareable.main, insight)),
        charts=tuple(_charts(shareable, insight)),
        remarks=tuple(_remarks(session, shareable)),
        prose=tuple(_prose(shareable, included)),
    )


def offers(session: Session, public_id: str) -> list[OptionalField]:
    """What of this run a person may add."""
    return _offers(session_memo(session, _load, public_id))


def _load(session: Session, public_id: str) -> Shareable:
    result = load_run(session, public_id)
    if result.config is None or result.model is None or result.main_point is None or not result.has_value:
        raise BadInput(_("This run has no result that could be shared."))
    cases = circumstances.suite_cases(session, result.run)
    return Shareable(result, result.config, result.model, result.main_point, cases)


def describe(tiles: Sequence[Tile], bars: Sequence[CeilingShare]) -> str:
    """`TTFT 520 ms, prefill 1,010 tok/s, decode 71.2 tok/s; 62.1 % of the decode ceiling.`"""
    values = [
        f"{lower_first(tile.title)} {format_number(tile.value)} {tile.unit}" for tile in tiles if tile.value is not None
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
    """`doubt`: that the ceilings are estimates; empty where they are bounds."""
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


def _remarks(session: Session, shareable: Shareable) -> Iterator[str]:
    result = shareable.result
    yield from circumstances.metric_explanations(HEADLINE_METRICS)
    unsound = unsound_by_run(session, [result.run.public_id])
    yield from (unsound_run_words(reasons) for reasons in unsound.values())
    if any(sample.is_warmup for sample in result.samples):
        yield _("Medians of the samples; warm-ups are listed, but never counted.")
    for key, flag in FLAGS.items():
        if any(key in sample.flags for sample in result.samples if not sample.is_warmup):
            yield joined(upper_first(_(flag.title)), _(flag.sentence), by=" · ")
    if result.ceiling_at(shareable.main) is not None:
        yield _(
            "A ceiling is what memory bandwidth and computing allow at most; whatever is uncertain is left out of its "
            "bytes. Most good results reach 60 to 85 % of the decode ceiling."
        )


def _prose(shareable: Shareable, included: dict[Option, str]) -> Iterator[UserText]:
    if Option.NOTE in included:
        yield UserText(_("Note"), included[Option.NOTE])
    yield from circumstances.prompt_texts(shareable.cases, included)
