"""The small multiples of a history, and the one time axis below them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from app.charts.base import axis, plain
from app.charts.history.marks import Mark
from app.store.listing import HistoryPoint


@dataclass(frozen=True)
class Panel:
    title: str
    said: str
    """The title within a sentence."""
    unit: str
    metric: str
    y: str
    domain: tuple[float, float]

    def value(self, point: HistoryPoint) -> float | None:
        found: float | None = getattr(point, self.metric)
        return found


PANELS = (
    Panel("TTFT", "TTFT", "ms", "ttft_ms", "y", (0.71, 1.0)),
    Panel("Prefill", "prefill", "tok/s", "prefill_tokens_per_s", "y2", (0.355, 0.645)),
    Panel("Decode", "decode", "tok/s", "decode_tokens_per_s", "y3", (0.0, 0.29)),
)


def layout_of(points: Sequence[HistoryPoint], marks: Sequence[Mark]) -> dict[str, Any]:
    first, last = points[0].started_at, points[-1].started_at
    around = pad(points)
    layout: dict[str, Any] = {
        "xaxis": {
            "title": {"text": "Started, UTC"},
            "type": "date",
            "range": [stamp(first - around), stamp(last + around)],
            "anchor": "y3",
        },
        "hovermode": "closest",
        "dragmode": "zoom",
        "shapes": [
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": stamp(mark.at),
                "x1": stamp(mark.at),
                "y0": 0,
                "y1": 1,
                "layer": "below",
            }
            for mark in marks
        ],
        "annotations": [
            {
                "x": stamp(mark.at),
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "text": str(place),
                "hovertext": plain(mark.text),
                "showarrow": False,
            }
            for place, mark in enumerate(marks, 1)
        ],
    }
    for panel in PANELS:
        layout[panel.y.replace("y", "yaxis")] = axis(f"{panel.title} {panel.unit}", domain=list(panel.domain), nticks=5)
    return layout


def pad(points: Sequence[HistoryPoint]) -> timedelta:
    return max((points[-1].started_at - points[0].started_at) * 0.03, timedelta(minutes=10))


def stamp(moment: datetime) -> str:
    """UTC, as Plotly reads it: it knows no zones."""
    return f"{moment:%Y-%m-%d %H:%M:%S}"
