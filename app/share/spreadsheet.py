"""A share as CSV: its tables one below the other, each under its title, with an empty line between."""

import csv
import io
from collections.abc import Iterable, Iterator

from app.share.snapshot import Cell, Snapshot
from app.units import read_number

_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # full width ones too


def spreadsheet(snapshot: Snapshot) -> str:
    """UTF-8 text, numbers as they were measured, unknown ones empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    for row in _rows(snapshot):
        writer.writerow([_safe(cell) for cell in row])
    return text.getvalue()


def _rows(snapshot: Snapshot) -> Iterator[Iterable[Cell]]:
    yield (snapshot.title,)
    if snapshot.tiles:
        yield ()
        yield ("Metric", "Value", "Unit", "Standard deviation", "95 % low", "95 % high", "Samples", "Source")
        for tile in snapshot.tiles:
            ends = (tile.standard_deviation, tile.low, tile.high, tile.samples)
            yield (tile.title, tile.value, tile.unit, *ends, tile.source or tile.reason)
    if snapshot.bars:
        yield ()
        yield ("Ceiling", "Value", "Unit", "Reached %", "Arithmetic")
        yield from ((bar.title, bar.ceiling, bar.unit, 100 * bar.share, bar.words) for bar in snapshot.bars)
    if snapshot.facts:
        yield ()
        yield ("Fact", "Value")
        yield from ((fact.title, fact.value) for fact in snapshot.facts)
    for table in snapshot.figures:
        yield ()
        yield (table.title,)
        yield [column.heading for column in table.columns]
        yield from table.rows
    for prose in snapshot.prose:
        yield ()
        yield (prose.title, prose.text)


def _safe(cell: Cell) -> Cell:
    """A text that a spreadsheet would compute becomes one that it shows."""
    if isinstance(cell, str) and cell.lstrip(" ").startswith(_STARTS_FORMULA) and not _is_number(cell):
        return f"'{cell}"
    return cell


def _is_number(text: str) -> bool:
    try:
        read_number(text)
    except ValueError:
        return False
    return True
