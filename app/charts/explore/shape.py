"""From observations to what is drawn, listed and handed out: the same marks for chart, table, CSV and JSON."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from app.charts.explore.field import Field, Spot, Value, order
from app.charts.explore.view import View, key
from app.metrics import NULL_REASONS
from app.store.explore import PLACE_WIDTH, Place, Rows
from app.units import plural

POINT_KEY = Place._fields.index("point_key")
PUBLIC_ID, STARTED_AT, NUMBERS = PLACE_WIDTH, PLACE_WIDTH + 1, PLACE_WIDTH + 2
APART = {"concurrency": ("concurrency",), "depth": ("depth", "context_tokens")}
"""Conditions under which a server is another one, and the fields that tell of them: without one of these in sight,
points with several streams, or behind a filled cache, do not count beside those without."""
MIXABLE = ("machine", "model", "quantization", "engine", "prompt_tokens", "output_tokens", "concurrency", "depth")
"""What makes results differ so much that a mark should not hold several of them unseen."""


class Mark(NamedTuple):
    """One point of the chart, one row of the table."""

    series: Value | None
    """None: without a field for series, or where that field is unknown."""
    x: Value
    y: Value
    """Of several observations the median."""
    low: float | None
    """The lowest observation; None where y is no number."""
    high: float | None
    observations: int
    public_id: str | None
    """Of the run, where there is just one observation."""


class Lack(NamedTuple):
    """Why an observation is in no mark."""

    what: str
    """`without TTFT`"""
    reason: str


class LeftOut(NamedTuple):
    number: int
    noun: str
    """run or point."""
    lack: Lack

    @property
    def words(self) -> str:
        reason = f"{self.lack.reason[0].lower()}{self.lack.reason[1:]}"
        return f"Left out: {plural(self.number, self.noun)} {self.lack.what}: {reason}"


@dataclass(frozen=True)
class Sheet:
    """All that was asked for, in the order of series, x and y."""

    view: View
    x: Field
    y: Field
    series: Field | None
    marks: Sequence[Mark]
    noun: str
    """What an observation is: a run at its main point, or any point of one."""
    observations: int
    """How many are in the marks."""
    matching_runs: int
    """How many runs there are to look at, with or without the values that were asked for."""
    left_out: Sequence[LeftOut]
    mixed: Sequence[Field]
    """Fields of which some mark holds several values."""
    is_single: bool
    """Each mark is one observation."""


def metrics_of(fields: Iterable[Field]) -> list[str]:
    """The metrics to read, the one of the first field first."""
    return list(dict.fromkeys(field.metric for field in fields if field.metric))


def shape(
    view: View, known: Mapping[str, Field], rows: Rows, spots: Mapping[tuple[Any, ...], Spot], is_main_only: bool
) -> Sheet:
    """`spots` by the columns of a Place; `rows` as read for `metrics_of((y, x))`."""
    x, y, series = known[view.x], known[view.y], known[view.series] if view.series else None
    is_single = view.raw or (x.metric is not None)
    columns = metrics_of((y, x))
    column = {field: NUMBERS + 2 * columns.index(field.metric) for field in (x, y) if field.metric}
    told = _told(spots, known, x, y, series)
    cells: dict[tuple[Any, ...], list[tuple[Any, str]]] = {}
    held: dict[tuple[Any, ...], set[int]] = {}
    lacking: Counter[Lack] = Counter()
    seen: set[str] = set()
    for row in rows.observations:
        it = told[row[:PLACE_WIDTH]]
        seen.add(row[PUBLIC_ID])
        value = it.y if y.is_discrete else _value(y, row, column, it.spot, view.raw)
        at = it.x if x.is_discrete else _value(x, row, column, it.spot, view.raw)
        if it.aside is not None:
            lacking[it.aside] += 1
        elif value is None or at is None:
            lacking[_lack(y if value is None else x, row, column)] += 1
        elif (view.at is None or key(at) == view.at) and (view.among is None or it.key == view.among):
            cell = (it.series, at, row[PUBLIC_ID], row[POINT_KEY]) if is_single else (it.series, at)
            if y.kind != "number":
                cell = (*cell, value)
            cells.setdefault(cell, []).append((value, row[PUBLIC_ID]))
            held.setdefault(cell, set()).add(it.number)
    marks = [_mark(cell, found, y) for cell, found in cells.items()]
    marks.sort(key=lambda mark: _place(mark, x, y, series))
    noun = "run" if is_main_only else "point"
    left_out = [LeftOut(number, noun, lack) for lack, number in lacking.most_common()]
    if (absent := rows.runs - len(seen)) > 0:
        left_out.append(LeftOut(absent, "run", _without(y if y.metric else x)))
    return Sheet(
        view, x, y, series, marks, noun,
        observations=sum(mark.observations for mark in marks),
        matching_runs=rows.runs,
        left_out=left_out,
        mixed=_mixed(held.values(), list(spots.values()), known),
        is_single=is_single,
    )  # fmt: skip


class _Told(NamedTuple):
    """What the fields say of a spot, read once and not for each of its observations."""

    number: int
    spot: Spot
    x: Value | None
    y: Value | None
    series: Value | None
    key: str
    aside: Lack | None


def _told(
    spots: Mapping[tuple[Any, ...], Spot], known: Mapping[str, Field], x: Field, y: Field, series: Field | None
) -> dict[tuple[Any, ...], _Told]:
    in_sight = {x.name, y.name, series.name if series else ""}
    usual: list[tuple[Field, Value | None]] = []
    for name, tellers in APART.items():
        values = {known[name].read(spot) for spot in spots.values()}
        if len(values) > 1 and not in_sight & set(tellers):
            usual.append((known[name], min(values, key=lambda value: order(known[name], value))))
    found = {}
    for number, (place, spot) in enumerate(spots.items()):
        of_series = series.read(spot) if series else None
        aside = next((_aside(field, value) for field, value in usual if field.read(spot) != value), None)
        found[place] = _Told(
            number,
            spot,
            x.read(spot) if x.is_discrete else None,
            y.read(spot) if y.is_discrete else None,
            of_series,
            key(of_series),
            aside,
        )
    return found


def _aside(field: Field, usual: Value | None) -> Lack:
    return Lack(
        f"with {field.lower_title} above {key(usual)}",
        f"Choose {field.lower_title} for an axis or the series to see them.",
    )


def _value(field: Field, row: tuple[Any, ...], column: Mapping[Field, int], spot: Spot, raw: bool) -> Value | None:
    if field.metric is None:
        started: datetime | None = row[STARTED_AT]
        return started if raw or started is None else started.replace(hour=0, minute=0, second=0, microsecond=0)
    measured = row[column[field]]
    return None if measured is None else field.turn(measured, spot)


def _lack(field: Field, row: tuple[Any, ...], column: Mapping[Field, int]) -> Lack:
    """A measured number says by itself why it is missing; a field that is made of it says what else is."""
    if field.metric is None or row[column[field]] is not None:
        return _without(field)
    return _without(field, NULL_REASONS.get(row[column[field] + 1] or ""))


def _without(field: Field, reason: str | None = None) -> Lack:
    return Lack(f"without {field.lower_title}", reason or field.missing)


def _mark(cell: tuple[Any, ...], found: Sequence[tuple[Any, str]], y: Field) -> Mark:
    public_id = found[0][1] if len(found) == 1 else None
    if y.kind != "number":
        return Mark(cell[0], cell[1], found[0][0], None, None, len(found), public_id)
    values = [value for value, _ in found]
    return Mark(cell[0], cell[1], median(values), min(values), max(values), len(found), public_id)


def _place(mark: Mark, x: Field, y: Field, series: Field | None) -> tuple[Any, ...]:
    return (
        order(series, mark.series) if series else (), order(x, mark.x), order(y, mark.y), mark.public_id or ""
    )  # fmt: skip


def _mixed(held: Iterable[Collection[int]], spots: Sequence[Spot], known: Mapping[str, Field]) -> list[Field]:
    """The fields of MIXABLE that have several values within one mark."""
    groups = {frozenset(numbers) for numbers in held if len(numbers) > 1}
    fields = [known[name] for name in MIXABLE]
    return [field for field in fields if any(len({field.read(spots[n]) for n in group}) > 1 for group in groups)]
