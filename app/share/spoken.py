"""A snapshot in the reader's language: it is kept in English, and what a person wrote in it stays as it is."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.charts import Figure
from app.charts.base import AnnotationList
from app.core.i18n import ENGLISH, gettext, language, translated
from app.share.snapshot import Chart, DataTable, Fact, Snapshot, Tile, UserText

_PAUSE = " · "
_TEXTS = frozenset({"text", "name", "hovertext", "ticktext", "title"})
"""Where Plotly shows what stands there."""
_MARKUP = re.compile(r"(<[^>]*>)")


def spoken(snapshot: Snapshot) -> Snapshot:
    if language() == ENGLISH:
        return snapshot
    return replace(
        snapshot,
        subtitle=_said(snapshot.subtitle),
        tiles=tuple(map(_tile, snapshot.tiles)),
        bars=tuple(replace(bar, title=_said(bar.title), words=_said(bar.words)) for bar in snapshot.bars),
        facts=tuple(Fact(_said(fact.title), _said(fact.value)) for fact in snapshot.facts),
        figures=tuple(map(_table, snapshot.figures)),
        charts=tuple(Chart(_said(each.title), _figure(each.figure), each.size) for each in snapshot.charts),
        remarks=tuple(map(_said, snapshot.remarks)),
        prose=tuple(UserText(_said(each.title), each.text) for each in snapshot.prose),
    )


def _said(text: str) -> str:
    """Several things in a row are each said by themselves."""
    return _PAUSE.join(map(translated, text.split(_PAUSE)))


def _tile(tile: Tile) -> Tile:
    return replace(tile, title=_said(tile.title), source=_said(tile.source), reason=_said(tile.reason))


def _table(table: DataTable) -> DataTable:
    columns = tuple(replace(column, title=_said(column.title)) for column in table.columns)
    rows = tuple(tuple(_said(cell) if isinstance(cell, str) else cell for cell in row) for row in table.rows)
    return replace(table, title=_said(table.title), columns=columns, rows=rows)


def _figure(figure: Figure) -> Figure:
    table = figure.table
    return replace(
        figure,
        data=[_plotted(trace) for trace in figure.data],
        layout=_plotted(figure.layout),
        summary=_said(figure.summary),
        table=replace(
            table,
            columns=tuple(map(_said, table.columns)),
            rows=tuple(tuple(map(_said, row)) for row in table.rows),
            caption=_said(table.caption),
        ),
        legend=tuple(replace(key, title=_said(key.title)) for key in figure.legend),
        marks=tuple(
            AnnotationList(_said(each.title), tuple(replace(mark, text=_said(mark.text)) for mark in each.marks))
            for each in figure.marks
        ),
    )


def _plotted(value: Any, key: str = "") -> Any:
    """A part of Plotly's description of a figure with its texts said."""
    if isinstance(value, Mapping):
        return {name: _plotted(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_plotted(each, key) for each in value]
    if isinstance(value, str) and key == "hovertemplate":
        return "".join(map(_hovering, _MARKUP.split(value)))
    return _said(value) if isinstance(value, str) and key in _TEXTS else value


def _hovering(text: str) -> str:
    """A name may stand before the message."""
    for start in range(len(text)):
        if (said := gettext(text[start:])) != text[start:]:
            return text[:start] + said
    return _said(text)
