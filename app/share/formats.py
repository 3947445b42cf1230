"""A share as files: the JSON document "roofmark.share/1", a forum post in Markdown, and CSV."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.core.csv_export import escape_formula
from app.core.units import format_number, format_under, quantity_parts, spread, with_unit
from app.results.compare.words import sign
from app.share.snapshot import (
    SCHEMA,
    CeilingShare,
    Cell,
    Chart,
    DataTable,
    Fact,
    MetricBar,
    MetricBars,
    Snapshot,
    Tile,
    UserText,
    VerdictLine,
    format_cell,
)


class ShareDocument(BaseModel):
    """A public snapshot of a result; it never changes."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    schema_id: Literal["roofmark.share/1"] = Field(alias="schema")
    created_at: str | None = Field(description="ISO 8601 with the offset of UTC; null in a preview.")
    kind: Literal["run", "comparison", "explorer", "ceiling"]
    title: str
    description: str
    subtitle: str
    warnings: tuple[str, ...] = Field(description="What to know before believing a number.")
    verdicts: tuple[VerdictLine, ...] = Field(description="Of a comparison: each result against the first.")
    metric_bars: tuple[MetricBars, ...] = Field(description="Of a comparison: all results by each headline metric.")
    tiles: tuple[Tile, ...]
    bars: tuple[CeilingShare, ...]
    facts: tuple[Fact, ...]
    figures: tuple[DataTable, ...]
    charts: tuple[Chart, ...]
    remarks: tuple[str, ...]
    prose: tuple[UserText, ...] = Field(description="Texts of a person, which they chose to share.")


def to_document(snapshot: Snapshot, created_at: datetime | None = None) -> dict[str, Any]:
    """The document of a snapshot; `created_at` is None in a preview."""
    return {"schema": SCHEMA, "created_at": created_at and created_at.isoformat(), **snapshot.to_json()}


# an underscore inside a word marks nothing
_SPECIAL = re.compile(r"([\\`*{}\[\]<>|#~&@]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")


def to_markdown(snapshot: Snapshot, link: str = "") -> str:
    return "\n\n".join(_blocks(snapshot, link)) + "\n"


def _blocks(snapshot: Snapshot, link: str) -> Iterator[str]:
    yield f"**{_text(snapshot.title)}**"
    if snapshot.warnings:
        yield "\n".join(f"- Note: {_text(warning)}" for warning in snapshot.warnings)
    if snapshot.verdicts:
        yield "\n".join(_verdict(line) for line in snapshot.verdicts)
    if snapshot.metric_bars:
        yield _bars(snapshot.metric_bars)
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


def _verdict(line: VerdictLine) -> str:
    return " ".join(filter(None, ["-", sign(line.verdict), f"{_text(line.title)}: {_text(line.words)}"]))


def _bars(metrics: Sequence[MetricBars]) -> str:
    """A table with a row for each result and a column for each metric."""
    headings = ("Result", *(with_unit(metric.title, metric.unit) for metric in metrics))
    rows = (
        (metrics[0].bars[place].name, *(_bar_words(metric.bars[place], metric.unit) for metric in metrics))
        for place in range(len(metrics[0].bars))
    )
    return _table(headings, (False, *(True for _metric in metrics)), rows)


def _bar_words(bar: MetricBar, unit: str) -> str:
    change = " ".join(filter(None, [sign(bar.verdict), bar.change]))
    best = "best" if bar.is_best else ""
    return ", ".join(filter(None, [format_under(bar.value, unit), change, best]))


def _tile(tile: Tile) -> tuple[str, str, str]:
    around, _ = spread(tile.value, tile.standard_deviation, tile.low, tile.high, tile.unit)
    value, unit = quantity_parts(tile.value, tile.unit)
    return tile.title, f"{value} {around}".strip(), unit


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


def to_csv(snapshot: Snapshot) -> str:
    """CSV text with unrounded numbers; unknown ones are empty."""
    text = io.StringIO()
    writer = csv.writer(text)
    for row in _rows(snapshot):
        writer.writerow([escape_formula(cell) for cell in row])
    return text.getvalue()


def _rows(snapshot: Snapshot) -> Iterator[Iterable[Cell]]:
    yield (snapshot.title,)
    if snapshot.warnings:
        yield ()
        yield from (("Note", warning) for warning in snapshot.warnings)
    if snapshot.verdicts:
        yield ()
        yield ("Comparison", "Verdict", "In words")
        yield from ((line.title, line.verdict, line.words) for line in snapshot.verdicts)
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
