"""The small multiples of a history, and the one time axis below them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from app.charts.base import axis
from app.i18n import _
from app.metrics.base import Metric

if TYPE_CHECKING:
    from app.store.points import Points

GAP = 0.065
"""Between two panels: room for the title of the lower one."""


@dataclass(frozen=True)
class Panel:
    metric: Metric
    place: int
    """From the top; also the metric's place among a point's readings."""
    count: int

    @property
    def y(self) -> str:
        return f"y{self.place + 1}" if self.place else "y"

    @property
    def layout_key(self) -> str:
        return self.y.replace("y", "yaxis")

    @property
    def title(self) -> str:
        return f"{self.metric.title} {self.metric.unit}"

    @property
    def domain(self) -> tuple[float, float]:
        height = (1 - GAP * (self.count - 1)) / self.count
        bottom = (self.count - 1 - self.place) * (height + GAP)
        return round(bottom, 4), round(bottom + height, 4)


def panels_of(metrics: Sequence[Metric]) -> list[Panel]:
    return [Panel(metric, place, len(metrics)) for place, metric in enumerate(metrics)]


def layout_of(points: "Points", panels: Sequence[Panel], drawn_marks: Mapping[str, list[Any]]) -> dict[str, Any]:
    first, last = points[0].started_at, points[-1].started_at
    around = pad(points)
    return {
        "xaxis": {
            "title": {"text": _("Started, UTC")},
            "type": "date",
            "range": [stamp(first - around), stamp(last + around)],
            "anchor": panels[-1].y,
        },
        "hovermode": "closest",
        "dragmode": "zoom",
        **drawn_marks,
        **{panel.layout_key: axis(panel.title, domain=list(panel.domain), nticks=5) for panel in panels},
    }


def pad(points: "Points") -> timedelta:
    return max((points[-1].started_at - points[0].started_at) * 0.03, timedelta(minutes=10))


def stamp(moment: datetime) -> str:
    """UTC, as Plotly reads it: it knows no zones."""
    return moment.isoformat(" ", "seconds")[:19]
