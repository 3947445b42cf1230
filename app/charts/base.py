"""The parts of every figure, and how many points it may have."""

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.i18n import Text, _, joined

MAX_SERIES = 6
"""The most lines that colour, dash and marker can distinguish."""
MAX_POINTS = 2000
"""About the number of pixels: of more points, each bucket's lowest, highest and last are drawn."""


@dataclass(frozen=True)
class LegendEntry:
    """One entry of a legend."""

    series: int | None
    """None: drawn in the background."""
    title: Text | str
    link: str | None = None
    mode: str = "lines+markers"
    """What is drawn: lines, markers, or both; in the background also dashed lines, for limits,
    and a mark with its range."""


@dataclass(frozen=True)
class Table:
    """The numbers of a figure as a table of texts."""

    columns: tuple[Text | str, ...]
    rows: tuple[tuple[Text | str, ...], ...]
    links: tuple[str, ...] = ()
    """The address behind the first cell of each row."""
    caption: Text | str = ""
    texts: int = 0
    """The number of columns at the beginning that hold words; numbers follow."""


@dataclass(frozen=True)
class Annotation:
    """The meaning of a mark in the figure, in words."""

    text: Text | str
    links: tuple[tuple[str, str], ...] = ()
    """Titles and paths of further pages about it."""
    name: str = ""
    """The name of the mark in the figure; without a name the list numbers it."""


@dataclass(frozen=True)
class AnnotationList:
    """A titled list that explains the marks of a figure."""

    title: Text | str
    marks: tuple[Annotation, ...]


@dataclass(frozen=True)
class Figure:
    """A Plotly figure as plain JSON values, with what pages show beside it."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    summary: Text | str
    """One sentence that describes the figure for readers who do not see it."""
    table: Table
    legend: tuple[LegendEntry, ...] = ()
    marks: tuple[AnnotationList, ...] = ()
    """The meaning of the figure's marks, in order."""

    @property
    def is_empty(self) -> bool:
        """Whether no trace has a point."""
        return not any(trace.get("x") for trace in self.data)

    @property
    def panels(self) -> int:
        """The number of panels, one above the other."""
        return sum(key.startswith("yaxis") for key in self.layout)

    @property
    def json(self) -> str:
        """The JSON text: compact, and safe between `<script>` tags."""
        text = json.dumps({"data": self.data, "layout": self.layout}, separators=(",", ":"), ensure_ascii=False)
        return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def escape_plotly_html(text: str) -> str:
    """Escapes a person's text so that Plotly shows it as written: its texts may contain some HTML."""
    return html.escape(text, quote=False)


def hover_template(*lines: str) -> str:
    """Returns Plotly's hover text of a point, with placeholders such as `%{x}`."""
    return _("{lines}<extra></extra>", lines=joined(*lines, by="<br>"))


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Returns a value axis from zero with its unit in the title."""
    return {"title": {"text": title}, "rangemode": "tozero", "tickformat": ",", **more}


def allocate_points(counts: Sequence[int], total: int = MAX_POINTS) -> list[int]:
    """Returns how many points each series may have: small ones stay whole, large ones share the rest.

    >>> allocate_points([10, 5000, 5000], 1000)
    [10, 495, 495]
    """
    shares = [0] * len(counts)
    remaining = total
    by_size = sorted(range(len(counts)), key=lambda i: counts[i])
    for place, i in enumerate(by_size):
        shares[i] = min(counts[i], remaining // (len(counts) - place))
        remaining -= shares[i]
    return shares


def downsample_minmax(values: Sequence[float], limit: int, always: Iterable[int] = ()) -> Sequence[int]:
    """Returns the indexes of about `limit` values: the lowest, the highest and the last of each bucket of neighbours.

    The first value stays too, so that a line keeps its beginning, and so do those in `always`.
    """
    count = len(values)
    if count <= limit:
        return range(count)
    buckets = max(1, limit // 3)
    indices = {0, *always}
    for number in range(buckets):
        begin, end = number * count // buckets, (number + 1) * count // buckets
        bucket = values[begin:end]
        indices.update((begin + bucket.index(min(bucket)), begin + bucket.index(max(bucket)), end - 1))
    return sorted(indices)


GAP = 0.45
"""The gap between two panels as a share of a panel's height: it holds the title of the lower panel."""


def y_name(place: int) -> str:
    """Returns the name by which traces refer to the y axis of the `place`-th panel from the top."""
    return "y" if place == 0 else f"y{place + 1}"


def y_axis(place: int) -> str:
    """Returns the layout's key of the y axis of the `place`-th panel from the top."""
    return y_name(place).replace("y", "yaxis")


def domain(place: int, count: int, gap: float) -> list[float]:
    """Returns the beginning and the end of a panel of `count`, as shares of the whole height from below; `gap` is a
    share too.

    >>> domain(0, 2, 0.08), domain(1, 2, 0.08)
    ([0.54, 1.0], [0.0, 0.46])
    """
    height = (1 - gap * (count - 1)) / count
    bottom = (count - 1 - place) * (height + gap)
    return [round(bottom, 4), round(bottom + height, 4)]


def stacked(titles: Sequence[str], x: dict[str, Any]) -> dict[str, Any]:
    """Returns the axes of as many panels as there are titles; `x` is the axis below the lowest."""
    count = len(titles)
    gap = GAP / (count + GAP * (count - 1))
    axes = {y_axis(place): axis(title, domain=domain(place, count, gap)) for place, title in enumerate(titles)}
    return {"xaxis": {**x, "anchor": y_name(count - 1)}, **axes}
