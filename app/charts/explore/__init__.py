"""The explorer's marks as a chart, a table and sentences.

figure  marks -> chart
table   marks -> table and a sentence
notes   what to know before believing it
"""

from app.charts.explore.figure import chart_class, figure, label_lines
from app.charts.explore.notes import empty_text, notes

__all__ = ["chart_class", "empty_text", "figure", "label_lines", "notes"]
