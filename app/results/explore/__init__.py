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

from app.charts.explore.figure import chart_class, figure, rows
from app.charts.explore.notes import notes, nothing
from app.results.explore.aggregate import DataPoint, ExploreResult
from app.results.explore.document import csv, document
from app.results.explore.field import Field
from app.results.explore.load import Exploration, explore
from app.results.explore.query import PRESETS, SOURCES, View, key
from app.results.explore.registry import grouped, registry

__all__ = [
    "PRESETS",
    "SOURCES",
    "DataPoint",
    "Exploration",
    "ExploreResult",
    "Field",
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
