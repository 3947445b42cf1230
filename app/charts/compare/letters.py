"""What the figures of a comparison share: how each subject is told from the others."""

from collections.abc import Sequence
from typing import Any

from app.charts.base import MAX_SERIES, LegendEntry
from app.results.compare.result import Comparison

GAP = 0.12
"""Between panels, as a share of the figure."""


def series_of(place: int) -> int | None:
    """Of more subjects than there are looks, the last ones stay in the background."""
    return place if place < MAX_SERIES else None


def lettered(trace: dict[str, Any], letter: str, place: int, at: int) -> dict[str, Any]:
    """In the background all look alike: there each says at one of its points which it is."""
    if series_of(place) is not None:
        return trace
    text = [letter if index == at else "" for index in range(len(trace["x"]))]
    return trace | {"mode": f"{trace['mode']}+text", "text": text, "textposition": "middle right"}


def legend(comparison: Comparison, places: Sequence[int], mode: str) -> tuple[LegendEntry, ...]:
    return tuple(
        LegendEntry(
            series_of(place), f"{comparison.subjects[place].letter} · {comparison.subjects[place].title}", mode=mode
        )
        for place in places
    )
