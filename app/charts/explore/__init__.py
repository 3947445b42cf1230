"""An ExploreResult as a chart, a table and sentences.

figure  data points -> chart
table   data points -> table, summary and notes
"""

from app.charts.explore.figure import chart_class, figure, label_lines
from app.charts.explore.table import empty_text, notes

__all__ = ["chart_class", "empty_text", "figure", "label_lines", "notes"]
