"""The leaderboard: the best that was ever measured of each model, quantization and machine, and its latest result.

view      what it shows: which runs, by which metric, sorted and grouped how
rows      what a row says
builder   the rows of all runs of one prompt
board     the rows in their order and groups
verdict   what is certain about them, in words
document  the rows as a JSON document and as CSV
"""

from app.results.leaderboard.board import Leaderboard, RowGroup, leaderboard, measured_suites
from app.results.leaderboard.document import csv, document
from app.results.leaderboard.rows import BestConfiguration, BuildChange, Row
from app.results.leaderboard.verdict import verdict_words
from app.results.leaderboard.view import GROUPINGS, SORTS, VIEW_PARAMETERS, LeaderboardView

__all__ = [
    "GROUPINGS",
    "SORTS",
    "VIEW_PARAMETERS",
    "BestConfiguration",
    "BuildChange",
    "Leaderboard",
    "LeaderboardView",
    "Row",
    "RowGroup",
    "csv",
    "document",
    "leaderboard",
    "measured_suites",
    "verdict_words",
]
