"""Runs or configurations side by side: what differs in neutral words, ratios with their intervals, and verdicts."""

from collections.abc import Iterator, Sequence

from sqlmodel import Session

from app import charts
from app.core.i18n import N_, lower_first
from app.core.units import format_number, format_percent
from app.db.database import session_memo
from app.metrics import HEADLINE_METRICS
from app.results.compare import Comparison
from app.results.compare.result import MetricRow
from app.results.compare.words import scatter_words, unsound_words
from app.share import circumstances
from app.share.anonymized_comparison import NO_VERDICT, Compared, differing, fact_titles, neutral_comparison
from app.share.figures import public_figure
from app.share.options import Option, OptionalField
from app.share.snapshot import Chart, Column, DataTable, Fact, Snapshot, Tile, UserText
from app.suites import point_title

KIND = "comparison"
NO_VALUE = N_("There is no value at this point.")
DECODE = HEADLINE_METRICS[2]


def snapshot(session: Session, names: Sequence[str], options: frozenset[Option] = frozenset()) -> Snapshot:
    """`names` as `store.subjects.resolve` reads them. Raises BadInput and NotFound."""
    anonymized = session_memo(session, neutral_comparison, tuple(names))
    return Snapshot(
        kind=KIND,
        title=_title(anonymized),
        description=_description(anonymized),
        subtitle=_subtitle(anonymized),
        tiles=tuple(_tiles(anonymized.comparison)),
        facts=tuple(_facts(anonymized, options)),
        figures=tuple(_figures(anonymized)),
        charts=tuple(_charts(anonymized.comparison)),
        remarks=tuple(_remarks(anonymized)),
        prose=tuple(_prose(anonymized, options)),
    )


def offers(session: Session, names: Sequence[str]) -> list[OptionalField]:
    anonymized = session_memo(session, neutral_comparison, tuple(names))
    return [OptionalField(option, text) for option in Option if (text := _together(anonymized, option))]


def _together(anonymized: Compared, option: Option) -> str:
    if option is Option.PROMPT:
        return "\n\n".join(case.prompt for case in anonymized.prompts)
    return "; ".join(f"{side.letter}: {side.words[option]}" for side in anonymized.sides if option in side.words)


# --- in words --------------------------------------------------------------------------------------------------------


def _title(anonymized: Compared) -> str:
    titles = list(dict.fromkeys(subject.title for subject in anonymized.comparison.subjects))
    common = anonymized.sides[0].title if len({side.title for side in anonymized.sides}) == 1 else ""
    if len(titles) == 1:
        return f"{common}: {len(anonymized.sides)} times the same"
    named = " against ".join(titles) if len(titles) == 2 else f"{titles[0]} against {len(titles) - 1} others"
    return f"{common}: {named}" if common and common != named else named


def _subtitle(anonymized: Compared) -> str:
    hardware = list(dict.fromkeys(side.facts["Hardware"] for side in anonymized.sides if "Hardware" in side.facts))
    point = point_title(anonymized.comparison.main) if anonymized.comparison.main else ""
    days = [f"{side.run.started_at:%Y-%m-%d}" for side in anonymized.sides if side.run.started_at]
    return " · ".join(filter(None, [", ".join(hardware[:2]), point, max(days, default="")]))


def _description(anonymized: Compared) -> str:
    base, *others = anonymized.comparison.subjects
    sentences = []
    for place, subject in enumerate(others, start=1):
        changes = [
            f"{lower_first(row.title)} {format_percent(ratio.value - 1)}"
            for row in anonymized.comparison.main_rows
            if (ratio := row.cells[place].ratio) is not None
        ]
        sentences.append(f"{subject.title} against {base.title}: {', '.join(changes) or NO_VERDICT}")
    return "; ".join(sentences[:2]) + "."


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
                source = f"{row.title}, {verdict} against {compared.subjects[0].letter}" if verdict else row.title
                if cell.value is None:
                    yield Tile(title, None, row.unit, reason=cell.reason or NO_VALUE)
                else:
                    yield Tile(title, cell.value, row.unit, *spread, source=source)


def _ratio_tile(row: MetricRow) -> Tile:
    base, candidate = row.cells
    ratio = candidate.ratio
    if ratio is None:
        return Tile(row.title, None, "×", reason=candidate.reason or base.reason or NO_VALUE)
    wish = N_("lower is better") if row.better == "lower" else N_("higher is better")
    source = " · ".join(
        (ratio.verdict, f"{format_number(base.value)} → {format_number(candidate.value)} {row.unit}", wish)
    )
    return Tile(f"{row.title} · {N_('B over A')}", ratio.value, "×", None, ratio.low, ratio.high, source=source)


def _facts(anonymized: Compared, options: frozenset[Option]) -> Iterator[Fact]:
    """What is the same everywhere; then what was ticked."""
    for title in fact_titles(anonymized.sides):
        values = {side.facts.get(title) for side in anonymized.sides}
        if len(values) == 1:
            yield Fact(title, values.pop() or "")
    for option, title in circumstances.OPTION_TITLES.items():
        if option in options and (text := _together(anonymized, option)):
            yield Fact(title, text)


def _figures(anonymized: Compared) -> Iterator[DataTable]:
    compared = anonymized.comparison
    heads = (Column("Circumstance", is_text=True), *(Column(side.letter, is_text=True) for side in anonymized.sides))
    rows = [
        (title, *(side.facts.get(title, N_("not stated")) for side in anonymized.sides))
        for title in differing(anonymized.sides)
    ]
    days = [f"{side.run.started_at:%Y-%m-%d}" if side.run.started_at else "" for side in anonymized.sides]
    yield DataTable("What is compared", heads, (*rows, (N_("Measured"), *days)), is_brief=True)
    for at in compared.shared_points:
        title = N_("Figures at {point}", point=point_title(at.point))
        yield DataTable(title, _COLUMNS, tuple(_rows(compared, at.rows)), is_brief=at.point == compared.main)
        if at.extra_rows:
            title = N_("Further metrics at {point}", point=point_title(at.point))
            yield DataTable(title, _COLUMNS, tuple(_rows(compared, at.extra_rows)))
    if any(ceiling.decode_tokens_per_s is not None for ceiling in compared.ceilings):
        yield DataTable("Ceilings", _CEILING_COLUMNS, tuple(_ceilings(compared)))


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


def _rows(compared: Comparison, rows: Sequence[MetricRow]) -> Iterator[tuple[str | float | None, ...]]:
    for row in rows:
        for subject, cell in zip(compared.subjects, row.cells, strict=True):
            ratio = cell.ratio
            ends = (ratio.value, ratio.low, ratio.high) if ratio else (None, None, None)
            verdict = ratio.verdict.value if ratio else cell.reason_not_comparable or cell.reason
            yield (row.title, subject.letter, cell.value, row.unit, cell.low, cell.high, *ends, verdict)


_CEILING_COLUMNS = (
    Column("Result", is_text=True),
    Column("Decode ceiling", "tok/s"),
    Column("Reached", "%"),
    Column("Prefill ceiling", "tok/s"),
    Column("MFU", "%"),
)


def _ceilings(compared: Comparison) -> Iterator[tuple[str | float | None, ...]]:
    for subject, ceiling in zip(compared.subjects, compared.ceilings, strict=True):
        shares = (ceiling.mbu and ceiling.mbu * 100, ceiling.mfu and ceiling.mfu * 100)
        yield (subject.letter, ceiling.decode_tokens_per_s, shares[0], ceiling.prefill_tokens_per_s, shares[1])


def _charts(compared: Comparison) -> Iterator[Chart]:
    figures = (
        (N_("Ratios to A"), charts.forest(compared), "chart-forest"),
        (N_("Pauses between tokens"), charts.pauses(compared), "chart-forest"),
        (N_("Over the points of the suite"), charts.curves(compared), "chart-history"),
    )
    yield from (Chart(title, public_figure(figure), size) for title, figure, size in figures if figure is not None)


def _remarks(anonymized: Compared) -> Iterator[str]:
    yield from circumstances.metric_explanations(HEADLINE_METRICS)
    for pair in anonymized.comparison.pairs:
        letters = {"result": anonymized.sides[pair.place].letter, "base": anonymized.sides[0].letter}
        is_compared = not pair.reason_not_comparable
        verdict = (pair.verdict or NO_VERDICT) if is_compared else N_("they cannot be compared")
        yield f"{N_('Result {result} against {base}', **letters)} · {verdict}"
        yield from filter(None, [unsound_words(pair.unsound)])
    scatters = anonymized.comparison.main_scatters(0)
    yield from filter(None, [scatter_words(scatters)])
    yield N_(
        "Same: the 95 % interval of the ratio lies within {percent} %. Better and worse: it excludes 1, corrected for "
        "the three metrics at the main point. Inconclusive: everything else.",
        percent=f"{100 * anonymized.comparison.same_within:g}",
    )


def _prose(anonymized: Compared, options: frozenset[Option]) -> Iterator[UserText]:
    if Option.NOTE in options:
        for side in anonymized.sides:
            if Option.NOTE in side.words:
                yield UserText(f"Note on {side.letter}", side.words[Option.NOTE])
    yield from circumstances.prompt_texts(anonymized.prompts, options)
