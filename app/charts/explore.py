"""The chart of the explorer: lines through medians over numbers and days, dots with bars over categories."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from app.charts.base import (
    MAX_POINTS,
    MAX_SERIES,
    Figure,
    LegendEntry,
    Table,
    allocate_points,
    axis,
    downsample_minmax,
    escape_plotly_html,
)
from app.core.i18n import N_, _, joined, lower_first, upper_first
from app.core.units import plural
from app.results.explore.aggregate import DataPoint, ExploreResult
from app.results.explore.parts import part_title
from app.results.explore.words import format_with_unit, has_lines, line_title, mark_words, series_text, y_number
from app.results.fields.field import Field, FieldValue, format_value, sort_key

Link = Callable[[DataPoint], str]
"""The address behind a data point."""

HEIGHTS = ((14, "chart-explore"), (28, "chart-explore chart-long"))
"""The classes of charts, by how many lines of labels fit on their upright axis."""
GROUP_WIDTH = 0.6
"""The part of a category's width that its series take up."""
MAX_SERIES_STEP = 0.12
GOLDEN_RATIO = 0.618034
"""Steps of this share of a width fill it evenly."""
MAX_ROW_CHARS = 48
"""The most characters of labels next to each other on a phone; more labels are placed one below the other."""
MAX_LABEL_CHARS = 24


def figure(result: ExploreResult, link: Link) -> Figure | None:
    """The chart of a result; None when there is nothing to draw. `link` gives the address behind a data point.

    Categories with long labels lie on the upright axis: there they can be read.
    """
    if not result.data_points:
        return None
    x = _Axis.of(result.x, (data_point.x for data_point in result.data_points))
    y = _Axis.of(result.y, (data_point.y for data_point in result.data_points))
    lines = _lines(result)
    limits = allocate_points([len(line.data_points) for line in lines])
    traces = [
        _trace(result, line, limit, link, x, y, _shift(index, len(lines)))
        for index, (line, limit) in enumerate(zip(lines, limits, strict=True))
    ]
    horizontal, upright = (y, x) if _is_sideways(x, y) else (x, y)
    return Figure(
        data=traces,
        layout={
            "xaxis": horizontal.layout(),
            "yaxis": upright.layout(is_upright=True),
            "hovermode": "closest",
            "dragmode": "zoom",
        },
        summary=summary(result),
        table=table(result, link),
        legend=_legend(result, lines),
    )


@dataclass(frozen=True)
class _Axis:
    field: Field
    labels: Sequence[str]
    """The labels of categories, in their order."""
    positions: dict[FieldValue, int]
    """The positions of categories; empty for numbers and times."""

    @classmethod
    def of(cls, field: Field, values: Iterable[FieldValue]) -> "_Axis":
        ordered = sorted(set(values), key=lambda value: sort_key(field, value)) if field.kind == "category" else []
        labels = [_label(format_value(value)) for value in ordered]
        return cls(field, labels, {value: position for position, value in enumerate(ordered)})

    def plotly_value(self, value: FieldValue) -> Any:
        if self.positions:
            return self.positions[value]
        if isinstance(value, datetime):
            return f"{value:%Y-%m-%d %H:%M:%S}"
        return float(f"{value:.6g}") if isinstance(value, float) else value

    def number(self, value: FieldValue) -> float:
        """The value as a number, to find the lowest and the highest."""
        if self.positions:
            return self.positions[value]
        assert not isinstance(value, str)
        return value.timestamp() if isinstance(value, datetime) else value

    def layout(self, is_upright: bool = False) -> dict[str, Any]:
        if self.field.kind == "time":
            return {"title": {"text": self.field.label}, "type": "date", "automargin": True}
        if not self.positions:
            return axis(self.field.label, automargin=True)
        ends = [-0.5, len(self.positions) - 0.5]
        return {
            "title": {"text": self.field.label},
            "tickvals": list(self.positions.values()),
            "ticktext": list(self.labels),
            "range": ends[::-1] if is_upright else ends,  # read from the top
            "automargin": True,
        }


def label_lines(figure: Figure) -> int:
    """Returns how many lines of labels the upright axis has."""
    return sum(label.count("<br>") + 1 for label in figure.layout["yaxis"].get("ticktext", ()))


def chart_class(figure: Figure) -> str:
    """Returns the class of the style sheet that gives the chart its height."""
    return next((name for most, name in HEIGHTS if label_lines(figure) <= most), "chart-explore chart-longest")


def _label(text: str) -> str:
    """Returns a label in lines that fit on a phone."""
    lines = [part if len(part) <= MAX_LABEL_CHARS else f"{part[: MAX_LABEL_CHARS - 1]}…" for part in text.split(" · ")]
    return "<br>".join(map(escape_plotly_html, lines))


def _is_sideways(x: _Axis, y: _Axis) -> bool:
    longest = max((len(part) for label in x.labels for part in label.split("<br>")), default=0)
    return y.field.kind == "number" and longest * len(x.labels) > MAX_ROW_CHARS


@dataclass(frozen=True)
class _Line:
    index: int | None
    """None: the background."""
    title: str
    data_points: Sequence[DataPoint]


def _legend(result: ExploreResult, lines: Sequence[_Line]) -> tuple[LegendEntry, ...]:
    """Returns the legend: the lines, of which the background comes last, though it is drawn first, then what a mark
    is."""
    ordered = sorted(lines, key=lambda line: line.index is None)
    entries = [LegendEntry(line.index, line.title, mode=_mode(result, line)) for line in ordered]
    names_lines = result.series is not None or len(entries) > 1
    marks = [LegendEntry(None, words, mode="range")] if (words := mark_words(result)) else []
    return (*(entries if names_lines else ()), *marks)


def _lines(result: ExploreResult) -> list[_Line]:
    """Returns the lines: those with the most observations are drawn distinctly; all others share the background."""
    groups: dict[tuple[FieldValue | None, ...], list[DataPoint]] = {}
    for data_point in result.data_points:
        groups.setdefault(data_point.line, []).append(data_point)
    by_size = sorted(groups, key=lambda value: -sum(data_point.observations for data_point in groups[value]))
    distinct = [value for value in groups if value in set(by_size[:MAX_SERIES])]  # in their own order
    lines = [_Line(index, line_title(result, groups[value][0]), groups[value]) for index, value in enumerate(distinct)]
    background = [value for value in groups if value not in set(distinct)]
    if background:
        # along x, so that neighbours are neighbours when there are too many of them
        data_points = sorted(
            (data_point for value in background for data_point in groups[value]),
            key=lambda data_point: sort_key(result.x, data_point.x),
        )
        lines.insert(0, _Line(None, plural(len(background), "other"), data_points))
    return lines


def _mode(result: ExploreResult, line: _Line) -> str:
    """Returns Plotly's mode: a line only when the order means something, and for one series."""
    has_order = result.x.kind != "category" and result.y.kind == "number"
    is_line = has_order and not result.is_single and line.index is not None
    return "lines+markers" if is_line else "markers"


def _shift(index: int, count: int) -> float:
    """Returns how far a series is from the middle of a category."""
    return (index - (count - 1) / 2) * min(MAX_SERIES_STEP, GROUP_WIDTH / count)


def _trace(
    result: ExploreResult, line: _Line, limit: int, link: Link, x: _Axis, y: _Axis, shift: float
) -> dict[str, Any]:
    indexes = downsample_minmax([y.number(data_point.y) for data_point in line.data_points], limit)
    data_points = [line.data_points[index] for index in indexes]
    is_background = line.index is None
    is_named = not is_background and has_lines(result)
    heading = f"{escape_plotly_html(line.title)}<br>" if is_named else ""
    x_values = _x_values(x, data_points, shift, MAX_SERIES_STEP * 0.8 if result.is_single else 0.0)
    y_values: list[Any] = [y.plotly_value(data_point.y) for data_point in data_points]
    is_sideways = _is_sideways(x, y)
    bars = None if is_background else _error_bars(data_points)
    hover_texts = [hover_text(result, data_point, is_background) for data_point in data_points]
    texts = [escape_plotly_html(text).replace("\n", "<br>") for text in hover_texts]
    links: list[Any] = [link(data_point) for data_point in data_points]
    for place in reversed(_interruptions(data_points) if "lines" in _mode(result, line) else []):
        for column in (x_values, y_values, links, *([bars["array"], bars["arrayminus"]] if bars else [])):
            column.insert(place, None)
        texts.insert(place, "")
    return {
        "type": "scatter",
        "mode": _mode(result, line),
        "name": escape_plotly_html(line.title),
        "meta": {"series": line.index},
        "x": y_values if is_sideways else x_values,
        "y": x_values if is_sideways else y_values,
        "customdata": links,
        "text": texts,
        **({"error_x" if is_sideways else "error_y": bars} if bars else {}),
        "hovertemplate": f"{heading}%{{text}}<extra></extra>",
        "showlegend": False,
    }


def _interruptions(data_points: Sequence[DataPoint]) -> list[int]:
    """Returns the places before which a line is interrupted, since hardware or build are others from there on."""
    return [
        place
        for place, (before, after) in enumerate(pairwise(data_points), start=1)
        if before.interruption != after.interruption
    ]


def _x_values(x: _Axis, data_points: Sequence[DataPoint], shift: float, jitter: float) -> list[Any]:
    """Returns the x values: within a category shifted to the place of the series, with single observations spread by
    `jitter`."""
    values = [x.plotly_value(data_point.x) for data_point in data_points]
    if not x.positions:
        return values
    return [value + round(shift + jitter * ((index * GOLDEN_RATIO) % 1 - 0.5), 3) for index, value in enumerate(values)]


def _error_bars(data_points: Sequence[DataPoint]) -> dict[str, Any] | None:
    """Returns error bars from the lowest to the highest observation; None when no data point has several."""
    if not any(data_point.observations > 1 and data_point.low is not None for data_point in data_points):
        return None
    ends = [
        (data_point.y, data_point.low, data_point.high)
        if isinstance(data_point.y, int | float) and data_point.low is not None and data_point.high is not None
        else (0.0, 0.0, 0.0)
        for data_point in data_points
    ]
    return {
        "symmetric": False,
        "array": [float(f"{high - middle:.6g}") for middle, _, high in ends],
        "arrayminus": [float(f"{middle - low:.6g}") for middle, low, _ in ends],
    }


MAX_ROWS = 200


def hover_text(result: ExploreResult, data_point: DataPoint, with_series: bool) -> str:
    """Returns lines of text for one data point; `with_series` when the chart does not show its series."""
    x, y = result.x, result.y
    lines = [f"{y.title} {format_with_unit(y, data_point.y)}", f"{x.title} {format_with_unit(x, data_point.x)}"]
    if with_series and has_lines(result):
        lines.insert(0, line_title(result, data_point))
    if data_point.interruption:
        lines += [format_value(value) for value in data_point.interruption if value]
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
    keys = [result.parts[place] for place in result.title_places]
    is_number = [False] * (bool(result.series) + len(keys)) + [field.kind == "number" for field in (result.x, result.y)]
    caption = ""
    if len(result.data_points) > len(shown):
        caption = _(
            "The first {shown} of {marks:,} rows; CSV and JSON hold all of them.",
            shown=len(shown),
            marks=len(result.data_points),
        )
    return Table(
        columns=(
            *([result.series.label] if result.series else []),
            *(upper_first(part_title(key)) for key in keys),
            result.x.label,
            result.y.label,
            *((_("Lowest"), _("Highest")) if has_spread else ()),
            *(() if result.is_single else (_(f"{result.noun.capitalize()}s"),)),
        ),
        rows=tuple(_row(result, data_point, has_spread) for data_point in shown),
        links=tuple(link(data_point) for data_point in shown),
        caption=caption,
        texts=is_number.index(True) if any(is_number) else len(is_number),
    )


def _row(result: ExploreResult, data_point: DataPoint, has_spread: bool) -> tuple[str, ...]:
    cells = [series_text(data_point)] if result.series else []
    cells += [
        format_value(data_point.parts[place]) if data_point.parts[place] is not None else ""
        for place in result.title_places
    ]
    cells += [format_value(data_point.x), format_value(data_point.y)]
    cells += [format_value(data_point.low), format_value(data_point.high)] if has_spread else []
    cells += [] if result.is_single else [f"{data_point.observations:,}"]
    return tuple(cells)


def summary(result: ExploreResult) -> str:
    """Returns one or more sentences that describe the chart."""
    values = {
        "y": result.y.title,
        "observations": plural(result.observations, result.noun),
        "x": lower_first(result.x.title),
        "series": lower_first(result.series.title) if result.series else "",
        "range": _range(result),
    }
    by_series = N_("{y} of {observations} by {x} and by {series}: {range}")
    phrases = [_(by_series if result.series else N_("{y} of {observations} by {x}: {range}"), **values)]
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
    series = [line_title(result, data_point)] if has_lines(result) else []
    place = joined(*series, format_with_unit(result.x, data_point.x), by=", ")
    return _("{y} ({where})", y=format_with_unit(result.y, data_point.y), where=place)
