"""What every figure is made of, and how many points it may have."""

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.i18n import Text, _, joined

MAX_SERIES = 6
"""More lines than these cannot be told apart by colour, dash and marker."""
MAX_POINTS = 2000
"""About as many as there are pixels: of more, each bucket's lowest, highest and last are drawn."""


@dataclass(frozen=True)
class LegendEntry:
    """One entry of a legend."""

    series: int | None
    """None: drawn in the background."""
    title: Text | str
    link: str | None = None
    mode: str = "lines+markers"
    """What of it is drawn: lines, markers, or both; in the background also dashed, as a limit is."""


@dataclass(frozen=True)
class Table:
    """The same numbers to read, as texts."""

    columns: tuple[Text | str, ...]
    rows: tuple[tuple[Text | str, ...], ...]
    links: tuple[str, ...] = ()
    """Where the first cell of each row leads."""
    caption: Text | str = ""
    texts: int = 0
    """How many columns at the beginning hold words; numbers follow."""


@dataclass(frozen=True)
class Annotation:
    """What a mark in the figure stands for, in words."""

    text: Text | str
    links: tuple[tuple[str, str], ...] = ()
    """Titles and paths of what to read about it."""
    name: str = ""
    """What it is called in the figure; without a name the list numbers it."""


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
    """One sentence that says what the figure shows, for whoever does not see it."""
    table: Table
    legend: tuple[LegendEntry, ...] = ()
    marks: tuple[AnnotationList, ...] = ()
    """What the figure's marks stand for, in order."""

    @property
    def is_empty(self) -> bool:
        """Whether no trace has a point."""
        return not any(trace.get("x") for trace in self.data)

    @property
    def panels(self) -> int:
        """How many small multiples stand one above the other."""
        return sum(key.startswith("yaxis") for key in self.layout)

    @property
    def json(self) -> str:
        """Compact, and safe between `<script>` tags."""
        text = json.dumps({"data": self.data, "layout": self.layout}, separators=(",", ":"), ensure_ascii=False)
        return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def escape_plotly_html(text: str) -> str:
    """Escape a person's text, so that Plotly shows it as written: its texts may hold a little HTML."""
    return html.escape(text, quote=False)


def hover_template(*lines: str) -> str:
    """What Plotly shows beside a point, with `%{x}` and the like in it."""
    return _("{lines}<extra></extra>", lines=joined(*lines, by="<br>"))


def axis(title: str, **more: Any) -> dict[str, Any]:
    """A value axis from zero with its unit in the title."""
    return {"title": {"text": title}, "rangemode": "tozero", "tickformat": ",", **more}


def allocate_points(counts: Sequence[int], total: int = MAX_POINTS) -> list[int]:
    """How many points each series may have: small ones stay whole, large ones share what is left.

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
    """Indices of about `limit` values: of each bucket of neighbours the lowest, the highest and the last.

    The first value stays too, so that a line keeps its beginning, and so does `always`.
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
"""Between two panels, of a panel's height: the title of the lower one stands there."""


def y_name(place: int) -> str:
    """The name by which traces refer to the y axis of the `place`-th panel from the top."""
    return "y" if place == 0 else f"y{place + 1}"


def y_axis(place: int) -> str:
    """The layout's key of the y axis of the `place`-th panel from the top."""
    return y_name(place).replace("y", "yaxis")


def domain(place: int, count: int, gap: float) -> list[float]:
    """Where that panel of `count` begins and ends, as shares of the whole height from below; `gap` is one too.

    >>> domain(0, 2, 0.08), domain(1, 2, 0.08)
    ([0.54, 1.0], [0.0, 0.46])
    """
    height = (1 - gap * (count - 1)) / count
    bottom = (count - 1 - place) * (height + gap)
    return [round(bottom, 4), round(bottom + height, 4)]


def stacked(titles: Sequence[str], x: dict[str, Any]) -> dict[str, Any]:
    """The axes of as many panels as there are titles; `x` is the axis below the lowest."""
    count = len(titles)
    gap = GAP / (count + GAP * (count - 1))
    axes = {y_axis(place): axis(title, domain=domain(place, count, gap)) for place, title in enumerate(titles)}
    return {"xaxis": {**x, "anchor": y_name(count - 1)}, **axes}
