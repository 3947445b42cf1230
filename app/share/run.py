"""One run: its numbers with their spread, its ceiling, its charts, and what it was measured on in neutral words."""

from collections.abc import Iterator, Sequence

from sqlmodel import Session

from app import charts
from app.ceiling.geometry import Certainty
from app.core.configuration import runs_elsewhere
from app.core.i18n import N_, lower_first
from app.core.units import format_number
from app.db.database import session_memo
from app.metrics import FLAGS, HEADLINE_METRICS, NULL_REASONS, metrics
from app.metrics.base import SOURCES
from app.metrics.serving import serving
from app.metrics.throughput import USUAL_SLO
from app.results.ceiling import DecodeAnalysis, PointCeiling, analyze_decode
from app.results.compare.soundness import unsound_by_run
from app.results.compare.words import unsound_run_words
from app.share import anonymize, circumstances, run_tables
from app.share.figures import public
from app.share.options import Option, OptionalField
from app.share.result import Result, result
from app.share.snapshot import CeilingShare, Chart, Fact, Snapshot, Tile, UserText
from app.suites.points import point_title

KIND = "run"


def snapshot(session: Session, public_id: str, options: frozenset[Option] = frozenset()) -> Snapshot:
    """Raises NotFound, and BadInput for a run without any number."""
    found = session_memo(session, result, public_id)
    ticked = {offer.option: offer.text for offer in _offers(found) if offer.option in options}
    where = circumstances.ELSEWHERE if runs_elsewhere(found.config.settings) else anonymize.hardware(found.held)
    title = " on ".join(filter(None, [anonymize.model_title(found.model), where]))
    explained = _insight(session, found)
    tiles = tuple(_tiles(found))
    doubt = N_("an estimate, no bound") if found.roof and found.roof.certainty is Certainty.ESTIMATE else ""
    bars = tuple(_bars(found.top, doubt)) if found.top else ()
    return Snapshot(
        kind=KIND,
        title=title,
        description=describe(tiles, bars),
        subtitle=_subtitle(found),
        tiles=tiles,
        bars=bars,
        facts=tuple(_facts(found, ticked)),
        figures=tuple(run_tables.figures(found, explained)),
        charts=tuple(_charts(found, explained)),
        remarks=tuple(_remarks(session, found)),
        prose=tuple(_prose(found, ticked)),
    )


def offers(session: Session, public_id: str) -> list[OptionalField]:
    """What of this run a person may add."""
    return _offers(session_memo(session, result, public_id))


def describe(tiles: Sequence[Tile], bars: Sequence[CeilingShare]) -> str:
    """`TTFT 520 ms, prefill 1,010 tok/s, decode 71.2 tok/s; 62.1 % of the decode ceiling.`"""
    said = [
        f"{lower_first(tile.title)} {format_number(tile.value)} {tile.unit}" for tile in tiles if tile.value is not None
    ]
    reached = [f"{format_number(100 * bar.share)} % of the {lower_first(bar.title)}" for bar in bars[:1]]
    return "; ".join(filter(None, [", ".join(said), *reached])) + "."


# --- what it is made from --------------------------------------------------------------------------------------------


def _insight(session: Session, found: Result) -> DecodeAnalysis | None:
    if found.roof is None or found.top is None:
        return None
    return analyze_decode(session, found.run, found.config, found.roof, found.top)


def _offers(found: Result) -> list[OptionalField]:
    words = circumstances.own_words(found.run, found.machine, found.config, found.cases)
    return [OptionalField(option, text) for option, text in words.items()]


# --- numbers ---------------------------------------------------------------------------------------------------------


def _tiles(found: Result) -> Iterator[Tile]:
    for key in HEADLINE_METRICS:
        metric, each = metrics()[key], found.shown(found.main, key)
        if each is None or each.value is None:
            reason = NULL_REASONS.get(each.null_reason or "" if each else "no_sample", "")
            yield Tile(metric.title, None, metric.unit, samples=0, reason=reason)
        else:
            yield Tile(
                title=metric.title,
                value=each.value,
                unit=metric.unit,
                standard_deviation=each.standard_deviation,
                low=each.low,
                high=each.high,
                samples=each.samples,
                source=SOURCES.get(each.source, ""),
            )


def _bars(top: PointCeiling, doubt: str) -> Iterator[CeilingShare]:
    """`doubt`: that the ceilings are estimates; empty where they are bounds."""
    if top.mbu is not None:
        words = "; ".join(filter(None, (top.decode.words, top.step.words, doubt)))
        yield CeilingShare("Decode ceiling", top.mbu, top.decode.tokens_per_s, "tok/s", words)
    if top.prefill is not None and top.prefill_share is not None:
        words = "; ".join(filter(None, (top.prefill.words, doubt)))
        yield CeilingShare("Prefill ceiling", top.prefill_share, top.prefill.tokens_per_s, "tok/s", words)


def _subtitle(found: Result) -> str:
    when = f"{found.run.started_at:%Y-%m-%d}" if found.run.started_at else ""
    return " · ".join(filter(None, [anonymize.engine(found.config), point_title(found.main), when]))


def _facts(found: Result, ticked: dict[Option, str]) -> Iterator[Fact]:
    yield from circumstances.facts(found.config, found.model, found.held)
    if found.roof is not None:
        yield circumstances.bandwidth(found.roof)
    yield Fact("Suite", f"{anonymize.suite(found.run.suite_key)}: {point_title(found.main)}")
    if found.run.started_at is not None:
        yield Fact("Measured", f"{found.run.started_at:%Y-%m-%d}")
    for option, title in circumstances.TITLES.items():
        if option in ticked:
            yield Fact(title, ticked[option])


def _charts(found: Result, explained: DecodeAnalysis | None) -> Iterator[Chart]:
    at_point = [sample for sample in found.taken if sample.point == found.main]
    typical = charts.typical_sample(at_point)
    figures = {
        N_("Token timeline"): charts.timeline(at_point),
        N_("Pauses between tokens"): charts.gaps(typical) if typical else None,
        N_("Decode against context"): charts.against_context(explained.curve, charts.measured_speeds(explained))
        if explained
        else None,
        N_("Roofline"): charts.run_roofline(found.roof.placement, found.top) if found.roof and found.top else None,
    }
    yield from (Chart(title, public(figure)) for title, figure in figures.items() if figure is not None)
    several = charts.serving_figure(serving(found.taken, USUAL_SLO), USUAL_SLO)
    if several is not None:
        yield Chart("Several streams at once", public(several), f"chart-stack-{several.panels}")


def _remarks(session: Session, found: Result) -> Iterator[str]:
    yield from circumstances.meanings(HEADLINE_METRICS)
    unsound = unsound_by_run(session, [found.run.public_id])
    yield from (unsound_run_words(reasons) for reasons in unsound.values())
    warmups = sum(sample.is_warmup for sample in found.taken)
    if warmups:
        yield N_("Medians of the samples; warm-ups are listed, but never counted.")
    for key, flag in FLAGS.items():
        if any(key in sample.flags for sample in found.taken if not sample.is_warmup):
            yield f"{flag.title.capitalize()} · {flag.sentence}"
    if found.top is not None:
        yield N_(
            "A ceiling is what memory bandwidth and computing allow at most; whatever is uncertain is left out of its "
            "bytes. Most good results reach 60 to 85 % of the decode ceiling."
        )


def _prose(found: Result, ticked: dict[Option, str]) -> Iterator[UserText]:
    if Option.NOTE in ticked:
        yield UserText("Note", ticked[Option.NOTE])
    yield from circumstances.prose_of_prompts(found.cases, ticked)
