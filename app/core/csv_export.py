"""Tables as CSV, safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence

Cell = str | int | float | None

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a spreadsheet take a text for a formula, also in the wide letters of East Asian keyboards."""


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """One line for the columns, then one for each row, as RFC 4180 says; an unknown is an empty cell.

    >>> csv_text(["model", "tok/s"], [["=1+1", -2.5], ["a,b", None]])
    'model,tok/s\\r\\n\\'=1+1,-2.5\\r\\n"a,b",\\r\\n'
    """
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow([escape_formula(column) for column in columns])
    writer.writerows([escape_formula(cell) for cell in row] for row in rows)
    return written.getvalue()


def escape_formula(cell: Cell) -> Cell:
    """Somebody's text with an apostrophe before it where a spreadsheet would compute it; numbers stay numbers."""
    if isinstance(cell, str) and cell.lstrip(" ").startswith(FORMULA_STARTS):
        return f"'{cell}"
    return cell
