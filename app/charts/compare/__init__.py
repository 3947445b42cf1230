"""A comparison's figures: ratios with their intervals, pauses between tokens, and curves over the suite's points."""

from app.charts.compare.curves import curves
from app.charts.compare.forest import forest
from app.charts.compare.letters import series_of
from app.charts.compare.pauses import pauses

__all__ = ["curves", "forest", "pauses", "series_of"]
