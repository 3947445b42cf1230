"""Small multiples: panels one above the other, each with its own unit, on one x axis."""

from collections.abc import Sequence
from typing import Any

from app.charts.base import axis

GAP = 0.45
"""Between two panels, of a panel's height: the title of the lower one stands there."""


def y_name(place: int) -> str:
    """What the traces of a panel, counted from the top, call their y axis."""
    return "y" if place == 0 else f"y{place + 1}"


def stacked(titles: Sequence[str], x: dict[str, Any]) -> dict[str, Any]:
    """The axes of as many panels as there are titles; `x` is the axis below the lowest."""
    height = 1 / (len(titles) + GAP * (len(titles) - 1))
    layout: dict[str, Any] = {"xaxis": {**x, "anchor": y_name(len(titles) - 1)}}
    for place, title in enumerate(titles):
        top = 1 - place * (1 + GAP) * height
        name = "yaxis" if place == 0 else f"yaxis{place + 1}"
        layout[name] = axis(title, domain=[round(max(0.0, top - height), 4), round(top, 4)])
    return layout
