"""What somebody with a link may read: a snapshot of a result, and all of its forms.

snapshot       the one thing that becomes public, field by field
options        what becomes public only when a person ticks it
neutral        stored words without anything that names a person, a place or a file
circumstances  what a run was measured with, in such words
figures        a chart without what its hover texts and links would tell
links          shares in the database: made, opened, revoked
page           the HTML page, and the file that needs no server
card           the picture that other sites show beside the link
markdown, spreadsheet, document: the same to read elsewhere

A kind of share (run, comparison, explorer, ceiling) is one module with one function `snapshot(...) -> Snapshot`. It
builds every field from values that it names; nothing is ever copied whole and then cleaned.
"""

from app.share.options import OPTIONS, Option, OptionalField, Withheld
from app.share.snapshot import CeilingShare, Chart, Column, DataTable, Fact, Snapshot, Tile, UserText

__all__ = [
    "OPTIONS",
    "CeilingShare",
    "Chart",
    "Column",
    "DataTable",
    "Fact",
    "Option",
    "OptionalField",
    "Snapshot",
    "Tile",
    "UserText",
    "Withheld",
]
