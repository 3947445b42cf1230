"""An ExploreResult as a chart, a table and sentences.

figure  data points -> chart
table   data points -> table and a sentence
notes   what to know before believing it
"""

from app.charts.explore.figure import chart_class, figure, label_lines
from app.charts.explore.notes import empty_text, notes

__all__ = ["chart_class", "empty_text", "figure", "label_lines", "notes"]
