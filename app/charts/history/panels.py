"""The small multiples of a history, and the one time axis below them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from app.charts.base import axis, domain, y_axis, y_name
from app.core.i18n import _
from app.metrics.base import Metric
from app.results.history.table import HistoryTable

GAP = 0.065
"""The gap between two panels: it holds the title of the lower one."""


@dataclass(frozen=True)
class Panel:
    """One of the small multiples: a metric and where its panel is."""

    metric: Metric
    place: int
    """The index from the top, which is also the metric's index among a point's readings."""
    count: int

    @property
    def y(self) -> str:
        return y_name(self.place)

    @property
    def title(self) -> str:
        return f"{self.metric.title} {self.metric.unit}"

    @property
    def axis(self) -> dict[str, Any]:
        return axis(self.title, domain=domain(self.place, self.count, GAP), nticks=5)


def panels_of(metrics: Sequence[Metric]) -> list[Panel]:
    """Returns one panel for each metric, from the top."""
    return [Panel(metric, place, len(metrics)) for place, metric in enumerate(metrics)]


def layout_of(points: HistoryTable, panels: Sequence[Panel], drawn_marks: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Returns Plotly's layout: the time axis below all panels, and the axes of each."""
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
        **{y_axis(panel.place): panel.axis for panel in panels},
    }


def pad(points: HistoryTable) -> timedelta:
    """Returns how much time the axis shows before the first run and after the last."""
    return max((points[-1].started_at - points[0].started_at) * 0.03, timedelta(minutes=10))


def stamp(moment: datetime) -> str:
    """Returns a moment in UTC in the form that Plotly reads, without a zone."""
    return moment.isoformat(" ", "seconds")[:19]
