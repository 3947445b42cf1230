"""The explorer: any field of runs against any other, with a third for series.

query         the request, as an address holds it
observations  reads the database
load          the only entry: from an address to a result
parts         what no mark mixes, and what is left out where lines are too many
aggregate     from observations to data points, with what was excluded
words         names of lines, the verdict, what is left out
document      a result as JSON and CSV

The fields are those of `app.results.fields`.
"""

from app.results.explore.aggregate import DataPoint, ExploreResult
from app.results.explore.document import csv, document
from app.results.explore.load import Exploration, explore, presets
from app.results.explore.query import MARKS, PARTS, PRESETS, SOURCES, View, line_key, value_key
from app.results.explore.words import empty_text, left_out, notes, verdict

__all__ = [
    "MARKS",
    "PARTS",
    "PRESETS",
    "SOURCES",
    "DataPoint",
    "Exploration",
    "ExploreResult",
    "View",
    "csv",
    "document",
    "empty_text",
    "explore",
    "left_out",
    "line_key",
    "notes",
    "presets",
    "value_key",
    "verdict",
]
