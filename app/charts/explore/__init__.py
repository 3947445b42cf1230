"""The explorer: any field of runs against any other, told apart by a third.

field     what a field is
fields    every one there is, and how it is read
view      what is asked for, as an address holds it
gather    reads the database
shape     observations -> marks, with what was left out
figure    marks -> chart
table     marks -> table and a sentence
document  marks -> JSON and CSV
notes     what to know before believing it
"""

from app.charts.explore.document import csv, document
from app.charts.explore.field import Field
from app.charts.explore.fields import grouped, registry
from app.charts.explore.figure import chart_class, figure, rows
from app.charts.explore.gather import Exploration, explore
from app.charts.explore.notes import notes, nothing
from app.charts.explore.shape import Mark, Sheet
from app.charts.explore.view import PRESETS, SOURCES, View, key

__all__ = [
    "PRESETS",
    "SOURCES",
    "Exploration",
    "Field",
    "Mark",
    "Sheet",
    "View",
    "chart_class",
    "csv",
    "document",
    "explore",
    "figure",
    "grouped",
    "key",
    "notes",
    "nothing",
    "registry",
    "rows",
]
