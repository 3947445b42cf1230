"""The small multiples of a history, and the one time axis below them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from app.charts.base import axis, domain, y_axis, y_name
from app.core.i18n import _
from app.metrics.base import Metric
from app.results.history.table import HistoryTable

GAP = 0.085
"""The gap between two panels: it holds the title of the lower one."""


@dataclass(frozen=True)
class Panel:
    """One of the small multiples: a metric and where its panel is."""

    metric: Metric
    place: int
    """The index from the top, which is also the metric's index among a point's readings."""
    count: int
    is_from_zero: bool = True
    """Whether the axis begins at zero, or else fits the data."""

    @property
    def y(self) -> str:
        return y_name(self.place)

    @property
    def title(self) -> str:
        return f"{self.metric.title} {self.metric.unit}"

    @property
    def axis(self) -> dict[str, Any]:
        rangemode = "tozero" if self.is_from_zero else "normal"
        # a drag chooses a time: what it would choose of values, the axis says already
        fixed = {"rangemode": rangemode, "fixedrange": True}
        return axis(self.title, domain=domain(self.place, self.count, GAP), nticks=5) | fixed


def panels_of(metrics: Sequence[Metric], is_from_zero: bool = True) -> list[Panel]:
    """Returns one panel for each metric, from the top."""
    return [Panel(metric, place, len(metrics), is_from_zero) for place, metric in enumerate(metrics)]


class Span(NamedTuple):
    """The time that the axis shows, without the room around it."""

    first: datetime
    last: datetime

    @classmethod
    def of(cls, points: HistoryTable) -> "Span":
        """Returns the time from the first run to the last."""
        return cls(points[0].started_at, points[-1].started_at)

    @property
    def pad(self) -> timedelta:
        """How much time the axis shows before it and after it."""
        return max((self.last - self.first) * 0.03, timedelta(minutes=10))


def layout_of(span: Span, panels: Sequence[Panel], drawn_marks: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Returns Plotly's layout: the time axis below all panels, and the axes of each."""
    return {
        "xaxis": {
            "title": {"text": _("Started, UTC")},
            "type": "date",
            "range": [stamp(span.first - span.pad), stamp(span.last + span.pad)],
            "anchor": panels[-1].y,
        },
        "hovermode": "closest",
        "dragmode": "zoom",
        **drawn_marks,
        **{y_axis(panel.place): panel.axis for panel in panels},
    }


def stamp(moment: datetime) -> str:
    """Returns a moment in UTC in the form that Plotly reads, without a zone."""
    return moment.isoformat(" ", "seconds")[:19]
