"""Charts: pure functions from stored values to Plotly figures as plain JSON, without colours, fonts or dashes.

A trace states `meta.series` (0 to 5, or null for one in the background); the browser gives that number its colour, dash
and marker, so that light and dark themes need no second figure.
"""

from app.charts.base import MAX_SERIES, Figure, LegendEntry, Table
from app.charts.ceiling import (
    MeasuredSpeed,
    PhaseWork,
    against_context,
    measured_speeds,
    roofline,
    run_roofline,
    without_ceiling,
)
from app.charts.compare import curves, forest, pauses, series_of
from app.charts.history import history
from app.charts.model import builds as model_builds
from app.charts.sensors import absence, sensors_of
from app.charts.serving import serving_figure
from app.charts.sparkline import sparkline, year_sparkline
from app.charts.tokens import gaps, timeline, typical_sample

__all__ = [
    "MAX_SERIES",
    "Figure",
    "LegendEntry",
    "MeasuredSpeed",
    "PhaseWork",
    "Table",
    "absence",
    "against_context",
    "curves",
    "forest",
    "gaps",
    "history",
    "measured_speeds",
    "model_builds",
    "pauses",
    "roofline",
    "run_roofline",
    "sensors_of",
    "series_of",
    "serving_figure",
    "sparkline",
    "timeline",
    "typical_sample",
    "without_ceiling",
    "year_sparkline",
]
