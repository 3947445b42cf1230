"""Runs or configurations side by side: what differs in neutral words, ratios with their intervals, and verdicts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmodel import Session

from app import charts
from app.compare import Comparison, compare
from app.compare.result import Cell, Distribution, PointRows, Row, Subject
from app.errors import BadInput
from app.metrics import NULL_REASONS, TRIPLE
from app.models import Config, Machine, Model, Run
from app.share import circumstances, neutral
from app.share.figures import public
from app.share.options import Offer, Option
from app.share.snapshot import Chart, Column, Fact, Figures, Prose, Snapshot, Tile
from app.store import machines
from app.store.subjects import circumstances_of
from app.suites import Case
from app.units import number, percent

KIND = "comparison"
NO_VERDICT = "no verdict"
NO_VALUE = "There is no value at this point."
DECODE = TRIPLE[2]


@dataclass(frozen=True)
class _Side:
    """One subject with everything that may be told of it."""

    letter: str
    run: Run
    machine: Machine
    config: Config
    model: Model
    facts: Mapping[str, str]
    words: Mapping[Option, str]

    @property
    def title(self) -> str:
        return neutral.model_title(self.model)


@dataclass(frozen=True)
class _Found:
    comparison: Comparison
    """With neutral titles and without a word that is not the code's own."""
    sides: Sequence[_Side]
    prompts: Sequence[Case]
    """Of the first one's suite."""


def snapshot(session: Session, names: Sequence[str], options: frozenset[Option] = frozenset()) -> Snapshot:
    """`names` as `store.subjects.resolve` reads them. Raises BadInput and NotFound."""
    found = _found(session, names)
    return Snapshot(
        kind=KIND,
        title=_title(found),
        description=_description(found),
        subtitle=_subtitle(found),
        tiles=tuple(_tiles(found.comparison)),
        facts=tuple(_facts(found, options)),
        figures=tuple(_figures(found)),
        charts=tuple(_charts(found.comparison)),
        remarks=tuple(_remarks(found)),
        prose=tuple(_prose(found, options)),
    )


def offers(session: Session, names: Sequence[str]) -> list[Offer]:
    found = _found(session, names)
    return [Offer(option, text) for option in Option if (text := _together(found, option))]


def _together(found: _Found, option: Option) -> str:
    if option is Option.PROMPT:
        return "\n\n".join(case.prompt for case in found.prompts)
    return "; ".join(f"{side.letter}: {side.words[option]}" for side in found.sides if option in side.words)


# --- what it is made from --------------------------------------------------------------------------------------------


def _found(session: Session, names: Sequence[str]) -> _Found:
    from app import engines  # loads every engine: not at start

    compared = compare(session, names, {engine.key: engine.title for engine in engines.all()})
    by_id = circumstances_of(session, {subject.public_id for subject in compared.subjects})
    sides = []
    for subject in compared.subjects:
        run, machine, _, config, model = by_id[subject.public_id]
        if config is None or model is None:
            raise BadInput("A run that ended before its configuration was known cannot be shared.")
        told = {
            fact.title: fact.value for fact in circumstances.facts(config, model, machines.devices(session, machine))
        }
        told["Suite"] = neutral.suite(run.suite_key)
        words = circumstances.own_words(run, machine, config, ())
        sides.append(_Side(subject.letter, run, machine, config, model, told, words))
    titles = _distinct(sides)
    return _Found(
        comparison=replace(
            compared,
            subjects=tuple(_subject(subject, title) for subject, title in zip(compared.subjects, titles, strict=True)),
            differences=(),
            points=tuple(_point(each) for each in compared.points),
            distributions=tuple(
                Distribution(each.quantiles_ms, each.gaps, each.is_chunks) for each in compared.distributions
            ),
        ),
        sides=sides,
        prompts=circumstances.cases(session, sides[0].run),
    )


def _distinct(sides: Sequence[_Side]) -> list[str]:
    """Model and quantization; where they are the same everywhere, what tells them apart."""
    if len({side.title for side in sides}) > 1:
        return [side.title for side in sides]
    differing = [title for title in _titles(sides) if len({side.facts.get(title) for side in sides}) > 1]
    return [
        ", ".join(_short(title, side.facts[title]) for title in differing[:2] if title in side.facts) or side.title
        for side in sides
    ]


def _short(title: str, value: str) -> str:
    return value if title in ("Engine", "Hardware", "Suite") else f"{title} {value}"


def _titles(sides: Sequence[_Side]) -> list[str]:
    return list(dict.fromkeys(title for side in sides for title in side.facts))


def _subject(subject: Subject, title: str) -> Subject:
    """What tables and figures read of it; all other fields are empty."""
    return Subject(
        letter=subject.letter,
        key="",
        public_id="",
        title=title,
        unit=subject.unit,
        basis="",
        runs=(),
        machine="",
        server="",
        engine=None,
        engine_version=None,
        model=None,
        quantization=None,
        settings={},
        labels=(),
        fingerprint=None,
        suite_key="",
        started_at=None,
        refusal="",
    )


def _point(point: PointRows) -> PointRows:
    return PointRows(point.point, tuple(replace(row, cells=tuple(map(_cell, row.cells))) for row in point.rows))


def _cell(cell: Cell) -> Cell:
    """Reasons and refusals name runs and suites: only what is known by heart is said."""
    return Cell(
        value=cell.value,
        low=cell.low,
        high=cell.high,
        standard_deviation=cell.standard_deviation,
        count=cell.count,
        left_out=cell.left_out,
        reason=cell.reason if cell.reason in NULL_REASONS.values() else "",
        ratio=cell.ratio,
        refusal=NO_VERDICT if cell.refusal else "",
    )


# --- in words --------------------------------------------------------------------------------------------------------


def _title(found: _Found) -> str:
    titles = list(dict.fromkeys(subject.title for subject in found.comparison.subjects))
    common = found.sides[0].title if len({side.title for side in found.sides}) == 1 else ""
    if len(titles) == 1:
        return f"{common}: {len(found.sides)} times the same"
    named = " against ".join(titles) if len(titles) == 2 else f"{titles[0]} against {len(titles) - 1} others"
    return f"{common}: {named}" if common and common != named else named


def _subtitle(found: _Found) -> str:
    hardware = list(dict.fromkeys(side.facts["Hardware"] for side in found.sides))
    point = circumstances.played(found.comparison.main) if found.comparison.main else ""
    days = [f"{side.run.started_at:%Y-%m-%d}" for side in found.sides if side.run.started_at]
    return " · ".join(filter(None, [", ".join(hardware[:2]), point, max(days, default="")]))


def _description(found: _Found) -> str:
    base, *others = found.comparison.subjects
    said = []
    for place, subject in enumerate(others, start=1):
        changes = [
            f"{row.title if row.title.isupper() else row.title.lower()} {percent(ratio.value - 1)}"
            for row in found.comparison.main_rows
            if (ratio := row.cells[place].ratio) is not None and ratio.value is not None
        ]
        said.append(f"{subject.title} against {base.title}: {', '.join(changes) or NO_VERDICT}")
    return "; ".join(said[:2]) + "."


def _tiles(compared: Comparison) -> Iterator[Tile]:
    """Of two the ratios of the triple; of more the decode speed of each."""
    for row in compared.main_rows:
        if len(compared.subjects) == 2:
            yield _ratio_tile(row)
        elif row.metric == DECODE:
            for subject, cell in zip(compared.subjects, row.cells, strict=True):
                title = f"{subject.letter} · {subject.title}"
                spread = (cell.standard_deviation, cell.low, cell.high, cell.count)
                verdict = cell.ratio.verdict if cell.ratio else None
                said = f"{row.title}, {verdict} against {compared.subjects[0].letter}" if verdict else row.title
                if cell.value is None:
                    yield Tile(title, None, row.unit, reason=cell.reason or NO_VALUE)
                else:
                    yield Tile(title, cell.value, row.unit, *spread, source=said)


def _ratio_tile(row: Row) -> Tile:
    base, other = row.cells
    ratio = other.ratio
    if ratio is None or ratio.value is None:
        return Tile(row.title, None, "×", reason=other.reason or base.reason or NO_VALUE)
    wish = "less is better" if row.better == "lower" else "more is better"
    source = f"{ratio.verdict or NO_VERDICT}: {number(base.value)} to {number(other.value)} {row.unit}, {wish}"
    return Tile(f"{row.title}, B over A", ratio.value, "×", None, ratio.low, ratio.high, source=source)


def _facts(found: _Found, options: frozenset[Option]) -> Iterator[Fact]:
    """What is the same everywhere; then what was ticked."""
    for title in _titles(found.sides):
        values = {side.facts.get(title) for side in found.sides}
        if len(values) == 1:
            yield Fact(title, values.pop() or "")
    for option, title in circumstances.TITLES.items():
        if option in options and (text := _together(found, option)):
            yield Fact(title, text)


def _figures(found: _Found) -> Iterator[Figures]:
    compared = found.comparison
    heads = (Column("", is_text=True), *(Column(side.letter, is_text=True) for side in found.sides))
    differing = [title for title in _titles(found.sides) if len({side.facts.get(title) for side in found.sides}) > 1]
    rows = [(title, *(side.facts.get(title, "not stated") for side in found.sides)) for title in differing]
    days = [f"{side.run.started_at:%Y-%m-%d}" if side.run.started_at else "" for side in found.sides]
    yield Figures("What is compared", heads, (*rows, ("Measured", *days)), is_brief=True)
    for each in compared.shared_points:
        title = f"At {circumstances.played(each.point)}"
        yield Figures(title, _COLUMNS, tuple(_rows(compared, each)), is_brief=each.point == compared.main)
    yield Figures("Ceilings", _CEILING_COLUMNS, tuple(_ceilings(compared)))


_COLUMNS = (
    Column("Metric", is_text=True),
    Column("Result", is_text=True),
    Column("Value"),
    Column("Unit", is_text=True),
    Column("95 % low"),
    Column("95 % high"),
    Column("Ratio to A"),
    Column("Ratio, low"),
    Column("Ratio, high"),
    Column("Verdict", is_text=True),
)


def _rows(compared: Comparison, point: PointRows) -> Iterator[tuple[str | float | None, ...]]:
    for row in point.rows:
        for subject, cell in zip(compared.subjects, row.cells, strict=True):
            ratio = cell.ratio
            ends = (ratio.value, ratio.low, ratio.high) if ratio else (None, None, None)
            verdict = (ratio.verdict.value if ratio and ratio.verdict else "") or cell.refusal or cell.reason
            yield (row.title, subject.letter, cell.value, row.unit, cell.low, cell.high, *ends, verdict)


_CEILING_COLUMNS = (
    Column("Result", is_text=True),
    Column("Decode ceiling", "tok/s"),
    Column("Reached", "%"),
    Column("Prefill ceiling", "tok/s"),
    Column("MFU", "%"),
)


def _ceilings(compared: Comparison) -> Iterator[tuple[str | float | None, ...]]:
    for subject, each in zip(compared.subjects, compared.ceilings, strict=True):
        shares = (each.mbu and each.mbu * 100, each.mfu and each.mfu * 100)
        yield (subject.letter, each.decode_tokens_per_s, shares[0], each.prefill_tokens_per_s, shares[1])


def _charts(compared: Comparison) -> Iterator[Chart]:
    figures = (
        ("Ratios to A", charts.forest(compared), "chart-forest"),
        ("Pauses between tokens", charts.pauses(compared), "chart-forest"),
        ("Over the points of the suite", charts.curves(compared), "chart-history"),
    )
    yield from (Chart(title, public(figure), size) for title, figure, size in figures if figure is not None)


def _remarks(found: _Found) -> Iterator[str]:
    for pair in found.comparison.pairs:
        against = f"{found.sides[pair.place].letter} against {found.sides[0].letter}"
        yield f"{against}: {'they cannot be compared' if pair.refusal else pair.verdict or NO_VERDICT}."
    yield (
        "Better and worse: the 95 % interval of the ratio excludes 1, and the change is larger than the noise of both. "
        "Same: the interval lies within 3 %. Inconclusive: everything else."
    )


def _prose(found: _Found, options: frozenset[Option]) -> Iterator[Prose]:
    if Option.NOTE in options:
        for side in found.sides:
            if Option.NOTE in side.words:
                yield Prose(f"Note on {side.letter}", side.words[Option.NOTE])
    yield from circumstances.prose_of_prompts(found.prompts, options)
