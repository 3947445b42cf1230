"""The chart of the explorer: lines through medians over numbers and days, dots with bars over categories."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.charts.base import (
    MAX_SERIES,
    Figure,
    LegendEntry,
    allocate_points,
    axis,
    downsample_minmax,
    escape_plotly_html,
)
from app.charts.explore.table import Link, format_value, hover_text, series_title, summary, table
from app.core.units import plural
from app.results.explore.aggregate import DataPoint, ExploreResult
from app.results.explore.field import Field, FieldValue, sort_key

HEIGHTS = ((14, "chart-explore"), (28, "chart-explore chart-long"))
"""So many lines of names have room on the upright axis of such a chart."""
GROUP_WIDTH = 0.6
"""Of the room of a category, what its series take up."""
WIDEST_STEP = 0.12
GOLDEN = 0.618034
"""Steps of this part of a width fill it evenly."""
LONGEST_ROW = 48
"""So many characters of names stand beside each other on a phone; more stand below each other."""
LONGEST_NAME = 24


def figure(sheet: ExploreResult, link: Link) -> Figure | None:
    """`link` says where a mark leads. None when there is nothing to draw.

    Categories with long names lie on the upright axis: there they can be read.
    """
    if not sheet.marks:
        return None
    x, y = _Axis.of(sheet.x, (mark.x for mark in sheet.marks)), _Axis.of(sheet.y, (mark.y for mark in sheet.marks))
    lines = _lines(sheet)
    limits = allocate_points([len(line.marks) for line in lines])
    traces = [
        _trace(sheet, line, limit, link, x, y, _shift(place, len(lines)))
        for place, (line, limit) in enumerate(zip(lines, limits, strict=True))
    ]
    across, upright = (y, x) if _is_sideways(x, y) else (x, y)
    return Figure(
        data=traces,
        layout={
            "xaxis": across.layout(),
            "yaxis": upright.layout(is_upright=True),
            "hovermode": "closest",
            "dragmode": "zoom",
        },
        summary=summary(sheet),
        table=table(sheet, link),
        legend=_legend(sheet, lines) if sheet.series else (),
    )


@dataclass(frozen=True)
class _Axis:
    field: Field
    names: Sequence[str]
    """Of categories, in their order."""
    places: dict[FieldValue, int]

    @classmethod
    def of(cls, field: Field, values: Iterable[FieldValue]) -> "_Axis":
        ordered = sorted(set(values), key=lambda value: sort_key(field, value)) if field.kind == "category" else []
        return cls(
            field, [_name(format_value(value)) for value in ordered], {value: i for i, value in enumerate(ordered)}
        )

    def at(self, value: FieldValue) -> Any:
        """As Plotly reads it."""
        if self.places:
            return self.places[value]
        if isinstance(value, datetime):
            return f"{value:%Y-%m-%d %H:%M:%S}"
        return float(f"{value:.6g}") if isinstance(value, float) else value

    def height(self, value: FieldValue) -> float:
        """To find what is lowest and highest."""
        if self.places:
            return self.places[value]
        assert not isinstance(value, str)
        return value.timestamp() if isinstance(value, datetime) else value

    def layout(self, is_upright: bool = False) -> dict[str, Any]:
        if self.field.kind == "time":
            return {"title": {"text": self.field.label}, "type": "date", "automargin": True}
        if not self.places:
            return axis(self.field.label, automargin=True)
        ends = [-0.5, len(self.places) - 0.5]
        return {
            "title": {"text": self.field.label},
            "tickvals": list(self.places.values()),
            "ticktext": list(self.names),
            "range": ends[::-1] if is_upright else ends,  # read from the top
            "automargin": True,
        }


def label_lines(figure: Figure) -> int:
    """How many lines of names stand below each other on the upright axis."""
    return sum(name.count("<br>") + 1 for name in figure.layout["yaxis"].get("ticktext", ()))


def chart_class(figure: Figure) -> str:
    """Of the style sheet."""
    return next((name for most, name in HEIGHTS if label_lines(figure) <= most), "chart-explore chart-longest")


def _name(text: str) -> str:
    """In lines that a phone has room for."""
    lines = [part if len(part) <= LONGEST_NAME else f"{part[: LONGEST_NAME - 1]}…" for part in text.split(" · ")]
    return "<br>".join(map(escape_plotly_html, lines))


def _is_sideways(x: _Axis, y: _Axis) -> bool:
    longest = max((len(part) for name in x.names for part in name.split("<br>")), default=0)
    return y.field.kind == "number" and longest * len(x.names) > LONGEST_ROW


@dataclass(frozen=True)
class _Line:
    index: int | None
    title: str
    marks: Sequence[DataPoint]


def _legend(sheet: ExploreResult, lines: Sequence[_Line]) -> tuple[LegendEntry, ...]:
    """The background last, though it is drawn first."""
    ordered = sorted(lines, key=lambda line: line.index is None)
    return tuple(LegendEntry(line.index, line.title, mode=_mode(sheet, line)) for line in ordered)


def _lines(sheet: ExploreResult) -> list[_Line]:
    """Those with the most observations are drawn distinctly; what is left shares the background."""
    groups: dict[FieldValue | None, list[DataPoint]] = {}
    for mark in sheet.marks:
        groups.setdefault(mark.series, []).append(mark)
    by_size = sorted(groups, key=lambda value: -sum(mark.observations for mark in groups[value]))
    distinct = [value for value in groups if value in set(by_size[:MAX_SERIES])]  # in their own order
    lines = [_Line(place, series_title(sheet, value), groups[value]) for place, value in enumerate(distinct)]
    others = [value for value in groups if value not in set(distinct)]
    if others:
        # along x, so that neighbours are neighbours when there are too many of them
        rest = sorted((mark for value in others for mark in groups[value]), key=lambda mark: sort_key(sheet.x, mark.x))
        lines.insert(0, _Line(None, plural(len(others), "other"), rest))
    return lines


def _mode(sheet: ExploreResult, line: _Line) -> str:
    """A line only where its order means something, and of one series."""
    is_line = not sheet.is_single and sheet.x.kind != "category" and sheet.y.kind == "number" and line.index is not None
    return "lines+markers" if is_line else "markers"


def _shift(place: int, count: int) -> float:
    """How far a series stands beside the middle of a category."""
    return (place - (count - 1) / 2) * min(WIDEST_STEP, GROUP_WIDTH / count)


def _trace(
    sheet: ExploreResult, line: _Line, limit: int, link: Link, x: _Axis, y: _Axis, shift: float
) -> dict[str, Any]:
    marks = [line.marks[i] for i in downsample_minmax([y.height(mark.y) for mark in line.marks], limit)]
    jitter = WIDEST_STEP * 0.8 if sheet.is_single else 0.0
    own = "" if sheet.series is None or line.index is None else f"{escape_plotly_html(line.title)}<br>"
    along = [
        x.at(mark.x) + round(shift + jitter * ((n * GOLDEN) % 1 - 0.5), 3) if x.places else x.at(mark.x)
        for n, mark in enumerate(marks)
    ]
    values = [y.at(mark.y) for mark in marks]
    is_sideways = _is_sideways(x, y)
    bars = _bars(marks) if line.index is not None else None
    return {
        "type": "scatter",
        "mode": _mode(sheet, line),
        "name": escape_plotly_html(line.title),
        "meta": {"series": line.index},
        "x": values if is_sideways else along,
        "y": along if is_sideways else values,
        "customdata": [link(mark) for mark in marks],
        "text": [
            escape_plotly_html(hover_text(sheet, mark, line.index is None)).replace("\n", "<br>") for mark in marks
        ],
        **({"error_x" if is_sideways else "error_y": bars} if bars else {}),
        "hovertemplate": f"{own}%{{text}}<extra></extra>",
        "showlegend": False,
    }


def _bars(marks: Sequence[DataPoint]) -> dict[str, Any] | None:
    """From the lowest to the highest observation; None where no mark has several."""
    if not any(mark.observations > 1 and mark.low is not None for mark in marks):
        return None
    ends = [
        (mark.y, mark.low, mark.high)
        if isinstance(mark.y, int | float) and mark.low is not None and mark.high is not None
        else (0.0, 0.0, 0.0)
        for mark in marks
    ]
    return {
        "symmetric": False,
        "array": [float(f"{high - middle:.6g}") for middle, _, high in ends],
        "arrayminus": [float(f"{middle - low:.6g}") for middle, low, _ in ends],
    }
