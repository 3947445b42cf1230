"""Results side by side: what differs, by how much, and what may be concluded from it.

statistics  two samples -> their ratio, its interval, the verdict
comparable  what differs, and whether two results may be compared
taken       the values behind the figures of a run or of a configuration's runs
comparison  all of it for two to eight of them
result      what a comparison is, as plain values; `to_json` makes the document of them
baseline    every run beside the one that was pinned
changepoint where the level of a series shifts
shifts      the same for stored runs, in words
soundness   why no verdict may rest on a run
"""

from app.compare.baseline import Standing, standing, standings
from app.compare.comparison import compare
from app.compare.result import Comparison, to_json

__all__ = ["Comparison", "Standing", "compare", "standing", "standings", "to_json"]
