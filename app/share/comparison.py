"""The share of a comparison: what differs in neutral words, ratios with their intervals, and verdicts."""

from collections.abc import Iterator, Sequence

from sqlmodel import Session

from app import charts
from app.core.i18n import N_, _, joined, lower_first
from app.core.units import format_number, format_percent
from app.db.database import session_memo
from app.metrics import HEADLINE_METRICS
from app.results.compare import Comparison
from app.results.compare.result import MetricRow, scatter_words, unsound_words
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
    """Makes the snapshot; `names` are in the form that `compare_refs.resolve` reads. Raises BadInput and NotFound."""
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
    return joined(joined(*hardware[:2], by=", "), point, max(days, default=""), by=" · ")


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
    """Returns the tiles: for two subjects the ratios of the headline metrics; for more the decode speed of each."""
    for row in compared.main_rows:
        if len(compared.subjects) == 2:
            yield _ratio_tile(row)
        elif row.metric == DECODE:
            for subject, cell in zip(compared.subjects, row.cells, strict=True):
                title = joined(subject.letter, subject.title, by=" · ")
                spread = (cell.standard_deviation, cell.low, cell.high, cell.count)
                verdict = cell.ratio.verdict if cell.ratio else None
                letter = compared.subjects[0].letter
                source = (
                    _("{metric}, {verdict} against {letter}", metric=row.title, verdict=_(verdict), letter=letter)
                    if verdict
                    else row.title
                )
                if cell.value is None:
                    yield Tile(title, None, row.unit, reason=cell.reason or _(NO_VALUE))
                else:
                    yield Tile(title, cell.value, row.unit, *spread, source=source)


def _ratio_tile(row: MetricRow) -> Tile:
    base, candidate = row.cells
    ratio = candidate.ratio
    if ratio is None:
        return Tile(row.title, None, "×", reason=candidate.reason or base.reason or _(NO_VALUE))
    wish = _("lower is better") if row.better == "lower" else _("higher is better")
    values = f"{format_number(base.value)} → {format_number(candidate.value)} {row.unit}"
    source = joined(_(ratio.verdict), values, wish, by=" · ")
    title = joined(row.title, _("B over A"), by=" · ")
    return Tile(title, ratio.value, "×", None, ratio.low, ratio.high, source=source)


def _facts(anonymized: Compared, options: frozenset[Option]) -> Iterator[Fact]:
    """Returns what is the same everywhere, then the ticked facts."""
    for title in fact_titles(anonymized.sides):
        values = {side.facts.get(title) for side in anonymized.sides}
        if len(values) == 1:
            yield Fact(title, values.pop() or "")
    for option, title in circumstances.OPTION_TITLES.items():
        if option in options and (text := _together(anonymized, option)):
            yield Fact(_(title), text)


def _figures(anonymized: Compared) -> Iterator[DataTable]:
    compared = anonymized.comparison
    heads = (Column(_("Circumstance"), is_text=True), *(Column(side.letter, is_text=True) for side in anonymized.sides))
    rows = [
        (title, *(side.facts.get(title, _("not stated")) for side in anonymized.sides))
        for title in differing(anonymized.sides)
    ]
    days = [f"{side.run.started_at:%Y-%m-%d}" if side.run.started_at else "" for side in anonymized.sides]
    yield DataTable(_("What is compared"), heads, (*rows, (_("Measured"), *days)), is_brief=True)
    for at in compared.shared_points:
        title = _("Figures at {point}", point=point_title(at.point))
        yield DataTable(title, _figure_columns(), tuple(_rows(compared, at.rows)), is_brief=at.point == compared.main)
        if at.extra_rows:
            title = _("Further metrics at {point}", point=point_title(at.point))
            yield DataTable(title, _figure_columns(), tuple(_rows(compared, at.extra_rows)))
    if any(ceiling.decode_tokens_per_s is not None for ceiling in compared.ceilings):
        yield DataTable(_("Ceilings"), _ceiling_columns(), tuple(_ceilings(compared)))


def _figure_columns() -> tuple[Column, ...]:
    return (
        Column(_("Metric"), is_text=True),
        Column(_("Result"), is_text=True),
        Column(_("Value")),
        Column(_("Unit"), is_text=True),
        Column(_("95 % low")),
        Column(_("95 % high")),
        Column(_("Ratio to A")),
        Column(_("Ratio, low")),
        Column(_("Ratio, high")),
        Column(_("Verdict"), is_text=True),
    )


def _rows(compared: Comparison, rows: Sequence[MetricRow]) -> Iterator[tuple[str | float | None, ...]]:
    for row in rows:
        for subject, cell in zip(compared.subjects, row.cells, strict=True):
            ratio = cell.ratio
            ends = (ratio.value, ratio.low, ratio.high) if ratio else (None, None, None)
            verdict = _(ratio.verdict) if ratio else cell.reason_not_comparable or cell.reason
            yield (row.title, subject.letter, cell.value, row.unit, cell.low, cell.high, *ends, verdict)


def _ceiling_columns() -> tuple[Column, ...]:
    return (
        Column(_("Result"), is_text=True),
        Column(_("Decode ceiling"), "tok/s"),
        Column(_("Reached"), "%"),
        Column(_("Prefill ceiling"), "tok/s"),
        Column(_("MFU"), "%"),
    )


def _ceilings(compared: Comparison) -> Iterator[tuple[str | float | None, ...]]:
    for subject, ceiling in zip(compared.subjects, compared.ceilings, strict=True):
        shares = (ceiling.mbu and ceiling.mbu * 100, ceiling.mfu and ceiling.mfu * 100)
        yield (subject.letter, ceiling.decode_tokens_per_s, shares[0], ceiling.prefill_tokens_per_s, shares[1])


def _charts(compared: Comparison) -> Iterator[Chart]:
    figures = (
        (_("Ratios to A"), charts.forest(compared), "chart-forest"),
        (_("Inter-token latency"), charts.pauses(compared), "chart-forest"),
        (_("Over the points of the suite"), charts.curves(compared), "chart-history"),
    )
    yield from (Chart(title, public_figure(figure), size) for title, figure, size in figures if figure is not None)


def _remarks(anonymized: Compared) -> Iterator[str]:
    yield from circumstances.metric_explanations(HEADLINE_METRICS)
    for pair in anonymized.comparison.pairs:
        letters = {"result": anonymized.sides[pair.place].letter, "base": anonymized.sides[0].letter}
        is_compared = not pair.reason_not_comparable
        verdict = _(pair.verdict or NO_VERDICT) if is_compared else _("they cannot be compared")
        yield joined(_("Result {result} against {base}", **letters), verdict, by=" · ")
        yield from filter(None, [unsound_words(pair.unsound)])
    scatters = anonymized.comparison.main_scatters(0)
    yield from filter(None, [scatter_words(scatters)])
    yield _(
        "Same: the 95 % interval of the ratio lies within {percent} %. Better and worse: it excludes 1, corrected for "
        "the three metrics at the main point. Inconclusive: everything else.",
        percent=f"{100 * anonymized.comparison.same_within:g}",
    )


def _prose(anonymized: Compared, options: frozenset[Option]) -> Iterator[UserText]:
    if Option.NOTE in options:
        for side in anonymized.sides:
            if Option.NOTE in side.words:
                yield UserText(_("Note on {letter}", letter=side.letter), side.words[Option.NOTE])
    yield from circumstances.prompt_texts(anonymized.prompts, options)
