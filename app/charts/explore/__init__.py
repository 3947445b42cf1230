"""The explorer's marks as a chart, a table and sentences.

figure  marks -> chart
table   marks -> table and a sentence
notes   what to know before believing it
"""

from app.charts.explore.figure import chart_class, figure, rows
from app.charts.explore.notes import notes, nothing

__all__ = ["chart_class", "figure", "notes", "nothing", "rows"]
