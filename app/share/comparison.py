"""The share of a comparison: what differs in neutral words, ratios with their intervals, and verdicts."""

from collections.abc import Iterator, Sequence

from sqlmodel import Session

from app import charts
from app.core.i18n import N_, _, joined
from app.core.unknown_settings import unknown_text
from app.db.database import session_memo
from app.metrics import HEADLINE_METRICS
from app.results.compare import Comparison
from app.results.compare.result import MetricRow, scatter_words
from app.results.compare.words import ratio_words
from app.share import circumstances
from app.share.anonymized_comparison import NO_VERDICT, Compared, Side, differing, fact_titles, neutral_comparison
from app.share.figures import public_figure
from app.share.options import Option, OptionalField
from app.share.snapshot import Chart, Column, DataTable, Fact, MetricBar, MetricBars, Snapshot, UserText, VerdictLine
from app.suites import point_title

KIND = "comparison"
NO_VALUE = N_("There is no value at this point.")


def snapshot(session: Session, names: Sequence[str], options: frozenset[Option] = frozenset()) -> Snapshot:
    """Makes the snapshot; `names` are in the form that `compare_refs.resolve` reads. Raises BadInput and NotFound."""
    anonymized = session_memo(session, neutral_comparison, tuple(names))
    return Snapshot(
        kind=KIND,
        title=_title(anonymized),
        description=_description(anonymized),
        subtitle=_subtitle(anonymized),
        warnings=tuple(anonymized.warnings),
        verdicts=tuple(_verdicts(anonymized.comparison)),
        metric_bars=tuple(_metric_bars(anonymized.comparison)),
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
    return "; ".join(f"{name}: {side.words[option]}" for name, side in _named(anonymized) if option in side.words)


def _named(anonymized: Compared) -> Iterator[tuple[str, Side]]:
    yield from zip((subject.name for subject in anonymized.comparison.subjects), anonymized.sides, strict=True)


# --- in words --------------------------------------------------------------------------------------------------------


def _title(anonymized: Compared) -> str:
    """Returns what is compared: `Qwen3-8B: Q8_0 against Q4_K_M`."""
    compared = anonymized.comparison
    base, *others = (subject.name for subject in compared.subjects)
    models = {side.facts.get("Model") for side in anonymized.sides}
    common = next(iter(models)) if len(models) == 1 else ""
    named = f"{others[0]} against {base}" if len(others) == 1 else f"{len(others)} results against {base}"
    return f"{common}: {named}" if common else named


def _subtitle(anonymized: Compared) -> str:
    hardware = list(dict.fromkeys(side.facts["Hardware"] for side in anonymized.sides if "Hardware" in side.facts))
    point = point_title(anonymized.comparison.main) if anonymized.comparison.main else ""
    days = [f"{side.run.started_at:%Y-%m-%d}" for side in anonymized.sides if side.run.started_at]
    return joined(joined(*hardware[:2], by=", "), point, max(days, default=""), by=" · ")


def _description(anonymized: Compared) -> str:
    sentences = [f"{line.title}: {line.words or NO_VERDICT}" for line in _verdicts(anonymized.comparison)]
    return "; ".join(sentences[:2]) + "."


def _verdicts(compared: Comparison) -> Iterator[VerdictLine]:
    for pair in compared.pairs:
        is_compared = not pair.reason_not_comparable
        words = pair.words if is_compared else _("they cannot be compared")
        yield VerdictLine(compared.against_base(pair.place), pair.verdict or "" if is_compared else "", words)


def _metric_bars(compared: Comparison) -> Iterator[MetricBars]:
    for row in compared.main_rows:
        wish = _("lower is better") if row.better == "lower" else _("higher is better")
        bars = (_metric_bar(subject.name, row, place) for place, subject in enumerate(compared.subjects))
        yield MetricBars(row.title, row.unit, wish, tuple(bars))


def _metric_bar(name: str, row: MetricRow, place: int) -> MetricBar:
    cell = row.cells[place]
    change = ratio_words(row.metric, cell.ratio) if cell.ratio else ""
    if cell.value is None:
        change = cell.reason or _(NO_VALUE)
    verdict = cell.ratio.verdict.value if cell.ratio else ""
    return MetricBar(name, cell.value, row.share_of_largest(place), change, verdict, row.best == place)


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
    heads = (
        Column(_("Circumstance"), is_text=True),
        *(Column(subject.name, is_text=True) for subject in anonymized.comparison.subjects),
    )
    rows = [
        (title, *(side.facts.get(title, _("not stated")) for side in anonymized.sides))
        for title in differing(anonymized.sides)
    ]
    days = [f"{side.run.started_at:%Y-%m-%d}" if side.run.started_at else "" for side in anonymized.sides]
    yield DataTable(_("What is compared"), heads, (*rows, (_("Measured"), *days)), is_brief=True)
    for at in compared.shared_points:
        title = _("Figures at {point}", point=point_title(at.point))
        yield DataTable(title, _figure_columns(), tuple(_rows(compared, at.rows)))
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
        Column(_("Ratio to the base")),
        Column(_("Ratio, low")),
        Column(_("Ratio, high")),
        Column(_("Change"), is_text=True),
    )


def _rows(compared: Comparison, rows: Sequence[MetricRow]) -> Iterator[tuple[str | float | None, ...]]:
    for row in rows:
        for subject, cell in zip(compared.subjects, row.cells, strict=True):
            ratio = cell.ratio
            ends = (ratio.value, ratio.low, ratio.high) if ratio else (None, None, None)
            verdict = ratio_words(row.metric, ratio) if ratio else cell.reason_not_comparable or cell.reason
            yield (row.title, subject.name, cell.value, row.unit, cell.low, cell.high, *ends, verdict)


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
        yield (subject.name, ceiling.decode_tokens_per_s, shares[0], ceiling.prefill_tokens_per_s, shares[1])


def _charts(compared: Comparison) -> Iterator[Chart]:
    figures = (
        (_("Ratios to the base"), charts.forest(compared), "chart-forest"),
        (_("Inter-token latency"), charts.pauses(compared), "chart-forest"),
        (_("Over the points of the suite"), charts.curves(compared), "chart-history"),
    )
    yield from (Chart(title, public_figure(figure), size) for title, figure, size in figures if figure is not None)


def _unknown(compared: Comparison) -> Iterator[str]:
    """Yields what is unknown of each pair: then no verdict is about what differs alone."""
    pairs = [pair for pair in compared.pairs if not pair.reason_not_comparable and pair.unknown_settings]
    for pair in pairs:
        text = unknown_text(pair.unknown_settings)
        name = compared.against_base(pair.place)
        yield text if len(compared.pairs) == 1 else _("{name}: {sentence}", name=name, sentence=text)


def _remarks(anonymized: Compared) -> Iterator[str]:
    yield from _unknown(anonymized.comparison)
    yield from circumstances.metric_explanations(HEADLINE_METRICS)
    scatters = anonymized.comparison.main_scatters(0)
    yield from filter(None, [scatter_words(scatters)])
    yield _(
        "Same: the 95 % interval of the ratio lies within {percent} %. Better and worse: it excludes 1, corrected for "
        "the three metrics at the main point. Inconclusive: everything else.",
        percent=f"{100 * anonymized.comparison.same_within:g}",
    )


def _prose(anonymized: Compared, options: frozenset[Option]) -> Iterator[UserText]:
    if Option.NOTE in options:
        for name, side in _named(anonymized):
            if Option.NOTE in side.words:
                yield UserText(_("Note on {name}", name=name), side.words[Option.NOTE])
    yield from circumstances.prompt_texts(anonymized.prompts, options)
