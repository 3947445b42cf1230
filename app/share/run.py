"""One run: its numbers with their spread, its ceiling, its charts, and what it was measured on in neutral words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlmodel import Session

from app import charts
from app.db import remembered
from app.errors import BadInput
from app.i18n import _, as_sentence, inside, marked
from app.metrics import FLAGS, NULL_REASONS, TRIPLE, Measured, metrics, triple_of
from app.metrics.base import SOURCES
from app.metrics.serving import serving
from app.metrics.throughput import USUAL_SLO
from app.models import Config, Machine, Model, Run
from app.roof import Insight, PointRoof, RunRoof, insight, limits_of_run, run_roof, with_ceiling
from app.samples import Point, Sample
from app.share import circumstances, neutral
from app.share.figures import public
from app.share.options import Offer, Option
from app.share.snapshot import Bar, Chart, Column, Fact, Figures, Prose, Snapshot, Tile
from app.store import hardware, measurements, runs, samples
from app.store.machines import MachineDevice
from app.suites import Case
from app.units import number

KIND = "run"
_PARTS = {
    "weights": marked("Weights"),
    "kv": marked("KV cache"),
    "state": marked("State"),
    "layers": marked("Layers, fixed cost"),
    "loss": marked("Remaining"),
}


@dataclass(frozen=True)
class _Result:
    """A run with everything that its snapshot is made from."""

    run: Run
    machine: Machine
    config: Config
    model: Model
    cases: Sequence[Case]
    taken: Sequence[Sample]
    measured: Sequence[Measured]
    main: Point
    held: Sequence[MachineDevice]
    roof: RunRoof | None

    @property
    def points(self) -> list[Point]:
        return list(dict.fromkeys(each.point for each in self.measured))

    @property
    def top(self) -> PointRoof | None:
        return self.roof.at(self.main) if self.roof else None

    def shown(self, point: Point, key: str) -> Measured | None:
        found = [each for each in self.measured if each.point == point and each.metric == key]
        return next((each for each in found if each.is_shown), found[0] if found else None)


def snapshot(session: Session, public_id: str, options: frozenset[Option] = frozenset()) -> Snapshot:
    """Raises NotFound, and BadInput for a run without any number."""
    found = remembered(session, _result, public_id)
    ticked = {offer.option: offer.text for offer in _offers(found) if offer.option in options}
    title = " on ".join(filter(None, [neutral.model_title(found.model), neutral.hardware(found.held)]))
    explained = _insight(session, found)
    tiles = tuple(_tiles(found))
    bars = tuple(_bars(found.top)) if found.top else ()
    return Snapshot(
        kind=KIND,
        title=title,
        description=describe(tiles, bars),
        subtitle=_subtitle(found),
        tiles=tiles,
        bars=bars,
        facts=tuple(_facts(found, ticked)),
        figures=tuple(_figures(found, explained)),
        charts=tuple(_charts(found, explained)),
        remarks=tuple(_remarks(found)),
        prose=tuple(_prose(found, ticked)),
    )


def offers(session: Session, public_id: str) -> list[Offer]:
    """What of this run a person may add."""
    return _offers(remembered(session, _result, public_id))


def describe(tiles: Sequence[Tile], bars: Sequence[Bar]) -> str:
    """`TTFT 520 ms, prefill 1,010 tok/s, decode 71.2 tok/s; 62.1 % of the decode ceiling.`"""
    said = [f"{inside(tile.title)} {number(tile.value)} {tile.unit}" for tile in tiles if tile.value is not None]
    reached = [f"{number(100 * bar.share)} % of the {inside(bar.title)}" for bar in bars[:1]]
    return "; ".join(filter(None, [", ".join(said), *reached])) + "."


# --- what it is made from --------------------------------------------------------------------------------------------


def _result(session: Session, public_id: str) -> _Result:
    run = runs.run(session, public_id)
    assert run.id is not None
    machine, _server, config, model = runs.circumstances(session, run)
    measured = measurements.measurements_of(session, run.id)
    if config is None or model is None or all(each.value is None for each in measured):
        raise BadInput(_("This run has no result that could be shared."))
    points = {each.point.key: each.point for each in measured}
    held = hardware.hardware_of(session, run)
    roof = run_roof(session, run, config, model, held, measured)
    return _Result(
        run=run,
        machine=machine,
        config=config,
        model=model,
        cases=circumstances.cases(session, run),
        taken=with_ceiling(samples.samples_of(session, run.id), roof),
        measured=measured,
        main=points.get(run.main_point_key) or measured[0].point,
        held=held.devices,
        roof=roof if isinstance(roof, RunRoof) else None,
    )


def _insight(session: Session, found: _Result) -> Insight | None:
    if found.roof is None or found.top is None:
        return None
    return insight(session, found.run, found.config, found.roof, found.top)


def _offers(found: _Result) -> list[Offer]:
    words = circumstances.own_words(found.run, found.machine, found.config, found.cases)
    return [Offer(option, text) for option, text in words.items()]


# --- numbers ---------------------------------------------------------------------------------------------------------


def _tiles(found: _Result) -> Iterator[Tile]:
    for key in TRIPLE:
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


def _bars(top: PointRoof) -> Iterator[Bar]:
    if top.mbu is not None:
        yield Bar("Decode ceiling", top.mbu, top.decode.tokens_per_s, "tok/s", f"{top.decode.words}; {top.step.words}")
    if top.prefill is not None and top.prefill_share is not None:
        yield Bar("Prefill ceiling", top.prefill_share, top.prefill.tokens_per_s, "tok/s", top.prefill.words)


def _subtitle(found: _Result) -> str:
    when = f"{found.run.started_at:%Y-%m-%d}" if found.run.started_at else ""
    return " · ".join(filter(None, [neutral.engine(found.config), circumstances.played(found.main), when]))


def _facts(found: _Result, ticked: dict[Option, str]) -> Iterator[Fact]:
    yield from circumstances.facts(found.config, found.model, found.held)
    if found.roof is not None:
        yield circumstances.bandwidth(found.roof)
    yield Fact("Suite", f"{neutral.suite(found.run.suite_key)}: {circumstances.played(found.main)}")
    if found.run.started_at is not None:
        yield Fact("Measured", f"{found.run.started_at:%Y-%m-%d}")
    for option, title in circumstances.TITLES.items():
        if option in ticked:
            yield Fact(title, ticked[option])


def _figures(found: _Result, explained: Insight | None) -> Iterator[Figures]:
    if len(found.points) > 1:
        yield _points(found)
    limiting = limits_of_run(found.taken, found.main, found.roof, found.run.evidence).found
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
            else marked("All metrics at {point}", point=circumstances.played(point))
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


def _points(found: _Result) -> Figures:
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


def _metric_rows(found: _Result, point: Point) -> Iterator[tuple[str | float | None, ...]]:
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
    flags = [", ".join(flag.replace("_", " ") for flag in sample.flags if flag in FLAGS) for sample in taken]
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


def _charts(found: _Result, explained: Insight | None) -> Iterator[Chart]:
    at_point = [sample for sample in found.taken if sample.point == found.main]
    typical = charts.typical_sample(at_point)
    figures = {
        marked("Token timeline"): charts.timeline(at_point),
        marked("Pauses between tokens"): charts.gaps(typical) if typical else None,
        marked("Decode against context"): charts.against_context(explained.curve, charts.reached(explained))
        if explained
        else None,
        marked("Roofline"): charts.run_roofline(found.roof.foundation, found.top) if found.roof and found.top else None,
    }
    yield from (Chart(title, public(figure)) for title, figure in figures.items() if figure is not None)
    several = charts.serving_figure(serving(found.taken, USUAL_SLO), USUAL_SLO)
    if several is not None:
        yield Chart("Several streams at once", public(several), f"chart-stack-{several.panels}")


def _remarks(found: _Result) -> Iterator[str]:
    yield from circumstances.meanings(TRIPLE)
    warmups = sum(sample.is_warmup for sample in found.taken)
    if warmups:
        yield marked("Medians of the samples; warm-ups are listed, but never counted.")
    for key, flag in FLAGS.items():
        if any(key in sample.flags for sample in found.taken if not sample.is_warmup):
            yield f"{key.replace('_', ' ').capitalize()} · {flag.sentence}"
    if found.top is not None:
        yield marked(
            "A ceiling is what memory bandwidth and computing allow at most; whatever is uncertain is left out of its "
            "bytes. Most good results reach 60 to 85 % of the decode ceiling."
        )


def _prose(found: _Result, ticked: dict[Option, str]) -> Iterator[Prose]:
    if Option.NOTE in ticked:
        yield Prose("Note", ticked[Option.NOTE])
    yield from circumstances.prose_of_prompts(found.cases, ticked)
