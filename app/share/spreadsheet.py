"""A share as CSV: its tables below one another, each with a title, separated by empty lines."""

import csv
import io
from collections.abc import Iterable, Iterator

from app.core.csv_export import escape_formula
from app.share.snapshot import Cell, Snapshot


def to_csv(snapshot: Snapshot) -> str:
    """CSV text with unrounded numbers; unknown ones are empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    for row in _rows(snapshot):
        writer.writerow([escape_formula(cell) for cell in row])
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
