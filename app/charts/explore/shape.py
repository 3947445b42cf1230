"""From observations to what is drawn, listed and handed out: the same marks for chart, table, CSV and JSON."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from app.charts.explore.fields import Field, Spot, Value, order
from app.charts.explore.view import View, key
from app.metrics import NULL_REASONS
from app.store.explore import PLACE_WIDTH, Place, Rows
from app.units import plural

POINT_KEY = Place._fields.index("point_key")
PUBLIC_ID, STARTED_AT, NUMBERS = PLACE_WIDTH, PLACE_WIDTH + 1, PLACE_WIDTH + 2
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
    count: int
    public_id: str | None
    """Of the run, where there is just one observation."""


class LeftOut(NamedTuple):
    count: int
    noun: str
    """run or point."""
    what: str
    """The field that has no value."""
    reason: str

    @property
    def words(self) -> str:
        lack = "lacks" if self.count == 1 else "lack"
        return f"{plural(self.count, self.noun)} {lack} {self.what}: {self.reason[0].lower()}{self.reason[1:]}"


@dataclass(frozen=True)
class Sheet:
    """All that was asked for, in the order of series, x and y."""

    view: View
    x: Field
    y: Field
    series: Field | None
    marks: Sequence[Mark]
    observations: int
    """How many are in the marks."""
    matching_runs: int
    """How many runs there are to look at, with or without the values that were asked for."""
    left_out: Sequence[LeftOut]
    mixed: Sequence[str]
    """Fields of which some mark holds several values, as titles."""
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
    told = {place: _Told(number, spot, x, y, series) for number, (place, spot) in enumerate(spots.items())}
    cells: dict[tuple[Any, ...], list[tuple[Any, str]]] = {}
    held: dict[tuple[Any, ...], set[int]] = {}
    lacking: Counter[tuple[Field, str]] = Counter()
    seen: set[str] = set()
    for row in rows.observations:
        it = told[row[:PLACE_WIDTH]]
        seen.add(row[PUBLIC_ID])
        at = it.x if x.is_discrete else _value(x, row, column, it.spot, view.raw)
        value = it.y if y.is_discrete else _value(y, row, column, it.spot, view.raw)
        for field, found in ((y, value), (x, at)):
            if found is None:
                lacking[field, _why(field, row, column)] += 1
                break
        else:
            assert at is not None
            if (view.at is not None and key(at) != view.at) or (view.among is not None and it.key != view.among):
                continue
            cell = (it.series, at, row[PUBLIC_ID], row[POINT_KEY]) if is_single else (it.series, at)
            if y.kind != "number":
                cell = (*cell, value)
            cells.setdefault(cell, []).append((value, row[PUBLIC_ID]))
            held.setdefault(cell, set()).add(it.number)
    marks = [_mark(cell, found, y) for cell, found in cells.items()]
    marks.sort(key=lambda mark: _place(mark, x, y, series))
    noun = "run" if is_main_only else "point"
    left_out = [LeftOut(count, noun, field.title, reason) for (field, reason), count in lacking.most_common()]
    if (absent := rows.runs - len(seen)) > 0:
        left_out.append(LeftOut(absent, "run", y.title if y.metric else x.title, (y if y.metric else x).missing))
    return Sheet(
        view, x, y, series, marks,
        observations=sum(mark.count for mark in marks),
        matching_runs=rows.runs,
        left_out=left_out,
        mixed=_mixed(held.values(), list(spots.values()), known),
        is_single=is_single,
    )  # fmt: skip


class _Told:
    """What the fields say of a spot, read once and not for each of its observations."""

    def __init__(self, number: int, spot: Spot, x: Field, y: Field, series: Field | None) -> None:
        self.number, self.spot = number, spot
        self.x = x.read(spot) if x.is_discrete else None
        self.y = y.read(spot) if y.is_discrete else None
        self.series = series.read(spot) if series else None
        self.key = key(self.series)


def _value(field: Field, row: tuple[Any, ...], column: Mapping[Field, int], spot: Spot, raw: bool) -> Value | None:
    if field.metric is None:
        started: datetime | None = row[STARTED_AT]
        return started if raw or started is None else started.replace(hour=0, minute=0, second=0, microsecond=0)
    measured = row[column[field]]
    return None if measured is None else field.turn(measured, spot)


def _why(field: Field, row: tuple[Any, ...], column: Mapping[Field, int]) -> str:
    """A measured number says by itself why it is missing; a field that is made of it says what else is."""
    if field.metric is None or row[column[field]] is not None:
        return field.missing
    return NULL_REASONS.get(row[column[field] + 1] or "", field.missing)


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


def _mixed(held: Iterable[Collection[int]], spots: Sequence[Spot], known: Mapping[str, Field]) -> list[str]:
    """Titles of the fields of MIXABLE that have several values within one mark."""
    groups = {frozenset(numbers) for numbers in held if len(numbers) > 1}
    fields = [known[name] for name in MIXABLE]
    return [
        field.title for field in fields if any(len({field.read(spots[n]) for n in group}) > 1 for group in groups)
    ]
