"""Tables as CSV, safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import chain

Cell = str | int | float | None

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters of a formula in spreadsheets, also in the full-width forms of East Asian keyboards."""


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A CSV document as in RFC 4180: a line of column names, then the rows; None is an empty cell.

    >>> csv_text(["model", "tok/s"], [["=1+1", -2.5], ["a,b", None]])
    'model,tok/s\\r\\n\\'=1+1,-2.5\\r\\n"a,b",\\r\\n'
    """
    return csv_rows(chain([columns], rows))


def csv_rows(rows: Iterable[Sequence[Cell]]) -> str:
    """Lines of a CSV document; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text).writerows([escape_formula(cell) for cell in row] for row in rows)
    return text.getvalue()


def escape_formula(cell: Cell) -> Cell:
    """A text that a spreadsheet would evaluate, with an apostrophe before it; other cells unchanged."""
    if isinstance(cell, str) and cell.lstrip(" ").startswith(FORMULA_STARTS):
        return f"'{cell}"
    return cell
