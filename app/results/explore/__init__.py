"""The explorer: any field of runs against any other, told apart by a third.

field     what a field is
registry  every one there is, and how it is read
query     what is asked for, as an address holds it
load      reads the database
aggregate observations -> marks, with what was left out
document  marks -> JSON and CSV
"""

from app.results.explore.aggregate import DataPoint, ExploreResult
from app.results.explore.document import csv, document
from app.results.explore.field import Field
from app.results.explore.load import Exploration, explore
from app.results.explore.query import PRESETS, SOURCES, View, value_key
from app.results.explore.registry import grouped, registry

__all__ = [
    "PRESETS",
    "SOURCES",
    "DataPoint",
    "Exploration",
    "ExploreResult",
    "Field",
    "View",
    "csv",
    "document",
    "explore",
    "grouped",
    "registry",
    "value_key",
]
