"""A share as a forum post: its main tables in Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence

from app.core.units import format_number, spread
from app.share.snapshot import CeilingShare, DataTable, Snapshot, Tile, format_cell

# an underscore inside a word marks nothing
_SPECIAL = re.compile(r"([\\`*{}\[\]<>|#~&@]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")


def to_markdown(snapshot: Snapshot, link: str = "") -> str:
    return "\n\n".join(_blocks(snapshot, link)) + "\n"


def _blocks(snapshot: Snapshot, link: str) -> Iterator[str]:
    yield f"**{_text(snapshot.title)}**"
    if snapshot.tiles:
        yield _table(("Metric", "Value", "Unit"), (False, True, False), (_tile(tile) for tile in snapshot.tiles))
    for bar in snapshot.bars:
        yield _bar(bar)
    for table in snapshot.figures:
        if table.is_brief:
            yield _figures(table)
    if snapshot.facts:
        yield " · ".join(f"{_text(fact.title)}: {_text(fact.value)}" for fact in snapshot.facts)
    for prose in snapshot.prose:
        yield f"{_text(prose.title)}: {_text(prose.text)}"
    if link:
        yield f"[Charts and all numbers]({link})"


def _tile(tile: Tile) -> tuple[str, str, str]:
    around, _ = spread(tile.value, tile.standard_deviation, tile.low, tile.high)
    return tile.title, f"{format_number(tile.value)} {around}".strip(), tile.unit


def _bar(bar: CeilingShare) -> str:
    return f"{_text(bar.title)}: **{format_number(100 * bar.share)} %** reached of {_text(bar.words)}"


def _figures(table: DataTable) -> str:
    headings = [column.heading for column in table.columns]
    rows = ([format_cell(cell) for cell in row] for row in table.rows)
    return _table(headings, [not column.is_text for column in table.columns], rows)


def _table(headings: Sequence[str], are_numbers: Sequence[bool], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---:" if is_number else "---" for is_number in are_numbers]
    lines = [[_text(heading) for heading in headings], rule, *([_text(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(text: str) -> str:
    """The text on one line, with characters escaped that Markdown or HTML would interpret."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
