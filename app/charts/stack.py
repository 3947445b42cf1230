"""Small multiples: panels one above the other, each with its own unit, on one x axis."""

from collections.abc import Sequence
from typing import Any

from app.charts.base import axis

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
