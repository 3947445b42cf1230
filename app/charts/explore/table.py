"""An ExploreResult in words: a table, a summary of the chart, and notes on it."""

from collections.abc import Callable

from app.charts.base import MAX_POINTS, Table
from app.core.config_settings import NOT_STATED
from app.core.i18n import N_, _, enumerated, joined, lower_first
from app.core.units import plural
from app.results.explore.aggregate import DataPoint, ExploreResult
from app.results.fields.field import Field, FieldValue, format_value

MAX_ROWS = 200

Link = Callable[[DataPoint], str]


def format_with_unit(field: Field, value: FieldValue) -> str:
    return f"{format_value(value)} {field.unit}".strip()


def series_title(result: ExploreResult, value: FieldValue | None) -> str:
    if result.series is None:
        return result.y.title
    return format_value(value) if value is not None else _(NOT_STATED)


def hover_text(result: ExploreResult, data_point: DataPoint, with_series: bool) -> str:
    """Lines of text for one data point; `with_series` where the chart does not show its series."""
    x, y = result.x, result.y
    lines = [f"{y.title} {format_with_unit(y, data_point.y)}", f"{x.title} {format_with_unit(x, data_point.x)}"]
    if with_series and result.series is not None:
        lines.insert(0, series_title(result, data_point.series))
    if data_point.observations > 1:
        range_text = ""
        if data_point.low is not None:
            low, high = format_value(data_point.low), format_value(data_point.high)
            range_text = _(", {low} to {high}", low=low, high=high)
        lines.append(f"{plural(data_point.observations, result.noun)}{range_text}")
    return "\n".join(lines)


def table(result: ExploreResult, link: Link) -> Table:
    shown = result.data_points[:MAX_ROWS]
    has_spread = not result.is_single and result.y.kind == "number"
    fields = (*([result.series] if result.series else []), result.x, result.y)
    is_number = [field.kind == "number" for field in fields]
    caption = ""
    if len(result.data_points) > len(shown):
        caption = _(
            "The first {shown} of {marks:,} rows; CSV and JSON hold all of them.",
            shown=len(shown),
            marks=len(result.data_points),
        )
    return Table(
        columns=(
            *(field.label for field in fields),
            *((_("Lowest"), _("Highest")) if has_spread else ()),
            *(() if result.is_single else (_(f"{result.noun.capitalize()}s"),)),
        ),
        rows=tuple(_row(result, data_point, has_spread) for data_point in shown),
        links=tuple(link(data_point) for data_point in shown),
        caption=caption,
        texts=is_number.index(True) if any(is_number) else len(fields),
    )


def _row(result: ExploreResult, data_point: DataPoint, has_spread: bool) -> tuple[str, ...]:
    cells = [series_title(result, data_point.series)] if result.series else []
    cells += [format_value(data_point.x), format_value(data_point.y)]
    cells += [format_value(data_point.low), format_value(data_point.high)] if has_spread else []
    cells += [] if result.is_single else [f"{data_point.observations:,}"]
    return tuple(cells)


def summary(result: ExploreResult) -> str:
    """One or more sentences that say what the chart shows."""
    values = {
        "y": result.y.title,
        "observations": plural(result.observations, result.noun),
        "x": lower_first(result.x.title),
        "series": lower_first(result.series.title) if result.series else "",
        "range": _range(result),
    }
    by_series = N_("{y} of {observations} by {x} and by {series}: {range}")
    phrases = [_(by_series if result.series else N_("{y} of {observations} by {x}: {range}"), **values)]
    has_medians = not result.is_single and any(data_point.observations > 1 for data_point in result.data_points)
    if has_medians and result.y.kind == "number":
        phrases.append(_("Marks are medians, bars reach from the lowest to the highest"))
    if len(result.data_points) > MAX_POINTS:
        phrases.append(
            _("About {most:,} of them are drawn: of neighbours the lowest, the highest and the last", most=MAX_POINTS)
        )
    return joined(*(_("{sentence}.", sentence=phrase) for phrase in phrases))


def _range(result: ExploreResult) -> str:
    if result.y.kind != "number":
        return plural(len(result.data_points), "combination")
    low, high = min(result.data_points, key=y_number), max(result.data_points, key=y_number)
    if y_number(low) == y_number(high):
        return format_with_unit(result.y, low.y)
    return _("from {low} to {high}", low=_value_and_place(result, low), high=_value_and_place(result, high))


def _value_and_place(result: ExploreResult, data_point: DataPoint) -> str:
    series = [series_title(result, data_point.series)] if result.series else []
    place = joined(*series, format_with_unit(result.x, data_point.x), by=", ")
    return _("{y} ({where})", y=format_with_unit(result.y, data_point.y), where=place)


def y_number(data_point: DataPoint) -> float:
    """The y of a data point whose field is a number."""
    assert isinstance(data_point.y, int | float)
    return data_point.y


# --- what to know before believing a chart, and what to do where there is none ----------------------------------------


def notes(result: ExploreResult) -> list[str]:
    """One sentence each; empty where the data points need no explanation."""
    sentences = []
    x_values = {data_point.x for data_point in result.data_points}
    if len(x_values) == 1 and result.x.is_discrete and not result.view.at:
        (only_value,) = x_values
        sentences.append(
            _(
                "Every run here has {x} {only}: {remedy}.",
                x=lower_first(result.x.title),
                only=format_value(only_value),
                remedy=result.x.remedy,
            )
        )
    if result.heterogeneous:
        names = enumerated(lower_first(field.title) for field in result.heterogeneous)
        sentences.append(
            _(
                "Some marks stand for runs that differ in {names}: a filter, or a series for each, parts them.",
                names=names,
            )
        )
    return sentences + [exclusion_count.text for exclusion_count in result.exclusions if not result.view.at]


def empty_text(result: ExploreResult) -> tuple[str, str]:
    """A heading and a sentence for a chart without data points."""
    if result.matching_runs and result.exclusions:
        return _(
            "No run here has {y} by {x}",
            y=lower_first(result.y.title),
            x=lower_first(result.x.title),
        ), result.exclusions[0].text
    if result.view.is_filtered:
        return _("No finished run matches"), _("Choose less, or measure what you are looking for.")
    return _("Nothing to explore yet"), _("Every finished run adds to it.")
