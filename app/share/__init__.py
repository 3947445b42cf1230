"""Shares: snapshots of results for people with the link, in all their forms.

snapshot       the one thing that becomes public, field by field
options        what becomes public only when a person ticks it
anonymize      stored words without anything that names a person, a place or a file
circumstances  what a run was measured with, anonymized
figures        a chart without the links and hidden data of its points
links          shares in the database: made, opened, revoked
reach          who can open a link
page           the HTML page, and the file that needs no server
card           the picture that other sites show with the link
formats        the same as JSON, Markdown and CSV

A kind of share (run, comparison, explorer, ceiling) is one module with one function `snapshot(...) -> Snapshot`. It
builds every field from values that it names; nothing is ever copied whole and then cleaned.
"""

from app.share.options import OPTIONS, Option, OptionalField, Withheld
from app.share.snapshot import (
    CeilingShare,
    Chart,
    Column,
    DataTable,
    Fact,
    MetricBar,
    MetricBars,
    Snapshot,
    Tile,
    UserText,
    VerdictLine,
)

__all__ = [
    "OPTIONS",
    "CeilingShare",
    "Chart",
    "Column",
    "DataTable",
    "Fact",
    "MetricBar",
    "MetricBars",
    "Option",
    "OptionalField",
    "Snapshot",
    "Tile",
    "UserText",
    "VerdictLine",
    "Withheld",
]
