"""The explorer: any field of runs against any other, with a third for series.

query        what is asked for, as an address holds it
observations reads the database
load         the one entry: from an address to a result
aggregate    observations -> data points, with what was excluded
document     a result as JSON and CSV

The fields are those of `app.results.fields`.
"""

from app.results.explore.aggregate import DataPoint, ExploreResult
from app.results.explore.document import csv, document
from app.results.explore.load import Exploration, explore
from app.results.explore.query import PRESETS, SOURCES, View, value_key

__all__ = [
    "PRESETS",
    "SOURCES",
    "DataPoint",
    "Exploration",
    "ExploreResult",
    "View",
    "csv",
    "document",
    "explore",
    "value_key",
]
