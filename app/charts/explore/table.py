"""The marks of the explorer in words: a table, and one sentence that says what the chart shows."""

from collections.abc import Callable
from datetime import datetime

from app.charts.base import MAX_POINTS, Table
from app.core.i18n import N_, _, joined, lower_first
from app.core.units import format_number, plural
from app.results.explore.aggregate import DataPoint, ExploreResult
from app.results.explore.field import Field, Value
from app.results.explore.query import UNKNOWN

MAX_ROWS = 200

Link = Callable[[DataPoint], str]


def words(value: Value | None) -> str:
    """As a person reads it, without its unit."""
    if isinstance(value, datetime):
        has_time = (value.hour, value.minute, value.second) != (0, 0, 0)
        return f"{value:%Y-%m-%d %H:%M}" if has_time else f"{value:%Y-%m-%d}"
    if isinstance(value, int):  # counts: 8 streams, not 8.00
        return f"{value:,}"
    return value if isinstance(value, str) else format_number(value)


def with_unit(field: Field, value: Value) -> str:
    return f"{words(value)} {field.unit}".strip()


def series_words(sheet: ExploreResult, value: Value | None) -> str:
    if sheet.series is None:
        return sheet.y.title
    return words(value) if value is not None else _(UNKNOWN)


def hover(sheet: ExploreResult, mark: DataPoint, with_series: bool) -> str:
    said = [f"{sheet.y.title} {with_unit(sheet.y, mark.y)}", f"{sheet.x.title} {with_unit(sheet.x, mark.x)}"]
    if with_series and sheet.series is not None:
        said.insert(0, series_words(sheet, mark.series))
    if mark.observations > 1:
        range_ = _(", {low} to {high}", low=words(mark.low), high=words(mark.high)) if mark.low is not None else ""
        said.append(f"{plural(mark.observations, sheet.noun)}{range_}")
    return "\n".join(said)


def table(sheet: ExploreResult, link: Link) -> Table:
    shown = sheet.marks[:MAX_ROWS]
    has_spread = not sheet.is_single and sheet.y.kind == "number"
    names = (*([sheet.series] if sheet.series else []), sheet.x, sheet.y)
    texts = 0
    for field in names:
        if field.kind == "number":
            break
        texts += 1
    rows = []
    for mark in shown:
        row = [series_words(sheet, mark.series)] if sheet.series else []
        row += [words(mark.x), words(mark.y)]
        row += [words(mark.low), words(mark.high)] if has_spread else []
        rows.append((*row, *([] if sheet.is_single else [f"{mark.observations:,}"])))
    return Table(
        columns=(
            *(field.label for field in names),
            *((_("Lowest"), _("Highest")) if has_spread else ()),
            *(() if sheet.is_single else (_(f"{sheet.noun.capitalize()}s"),)),
        ),
        rows=tuple(rows),
        links=tuple(link(mark) for mark in shown),
        caption=_(
            "The first {shown} of {marks:,} rows; CSV and JSON hold all of them.",
            shown=len(shown),
            marks=len(sheet.marks),
        )
        if len(sheet.marks) > len(shown)
        else "",
        texts=texts,
    )


def summary(sheet: ExploreResult) -> str:
    what = {
        "y": sheet.y.title,
        "observations": plural(sheet.observations, sheet.noun),
        "x": lower_first(sheet.x.title),
        "series": lower_first(sheet.series.title) if sheet.series else "",
        "range": _range(sheet),
    }
    by_series = N_("{y} of {observations} by {x} and by {series}: {range}")
    said = [_(by_series if sheet.series else N_("{y} of {observations} by {x}: {range}"), **what)]
    if not sheet.is_single and any(mark.observations > 1 for mark in sheet.marks) and sheet.y.kind == "number":
        said.append(_("Marks are medians, bars reach from the lowest to the highest"))
    if len(sheet.marks) > MAX_POINTS:
        said.append(
            _("About {most:,} of them are drawn: of neighbours the lowest, the highest and the last", most=MAX_POINTS)
        )
    return joined(*(_("{sentence}.", sentence=each) for each in said))


def _range(sheet: ExploreResult) -> str:
    if sheet.y.kind != "number":
        return plural(len(sheet.marks), "combination")
    low, high = min(sheet.marks, key=_height), max(sheet.marks, key=_height)
    if _height(low) == _height(high):
        return with_unit(sheet.y, low.y)
    return _("from {low} to {high}", low=_named(sheet, low), high=_named(sheet, high))


def _named(sheet: ExploreResult, mark: DataPoint) -> str:
    where = [series_words(sheet, mark.series)] if sheet.series else []
    return _("{y} ({where})", y=with_unit(sheet.y, mark.y), where=joined(*where, with_unit(sheet.x, mark.x), by=", "))


def _height(mark: DataPoint) -> float:
    assert isinstance(mark.y, int | float)
    return mark.y
