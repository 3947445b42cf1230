"""The explorer: any field of runs against any other, with a third for series.

query         the request, as an address holds it
observations  reads the database
load          the only entry: from an address to a result
aggregate     from observations to data points, with what was excluded
document      a result as JSON and CSV

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
