"""From observations to what is drawn, listed and handed out: the same marks for chart, table, CSV and JSON."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

from app.core.i18n import _, lower_first, noun
from app.core.units import plural
from app.metrics import NULL_REASONS
from app.results.explore.field import Field, FieldValue, GroupContext, identity, sort_key
from app.results.explore.observations import GroupKey, Observation, ObservationSet
from app.results.explore.query import View, value_key

PUBLIC_ID, STARTED_AT, NUMBERS = 0, 1, 2
"""Where they stand in an Observation."""
SPLIT_FIELDS = {"concurrency": ("concurrency",), "depth": ("depth", "context_tokens")}
"""Conditions under which a server is another one, and the fields that tell of them: without one of these in sight,
points with several streams, or behind a filled cache, do not count beside those without."""
HETEROGENEITY_FIELDS = (
    "machine",
    "model",
    "quantization",
    "engine",
    "prompt_tokens",
    "output_tokens",
    "concurrency",
    "depth",
)
"""What makes results differ so much that a mark should not hold several of them unseen."""


class DataPoint(NamedTuple):
    """One point of the chart, one row of the table."""

    series: FieldValue | None
    """None: without a field for series, or where that field is unknown."""
    x: FieldValue
    y: FieldValue
    """Of several observations the median."""
    low: float | None
    """The lowest observation; None where y is no number."""
    high: float | None
    observations: int
    public_id: str | None
    """Of the run, where there is just one observation."""


class Exclusion(NamedTuple):
    """Why an observation is in no mark."""

    what: str
    """`without TTFT`"""
    reason: str


class ExclusionCount(NamedTuple):
    number: int
    noun: str
    """run or point."""
    lack: Exclusion

    @property
    def words(self) -> str:
        return _(
            "Left out: {number} {what}: {reason}",
            number=plural(self.number, self.noun),
            what=self.lack.what,
            reason=lower_first(self.lack.reason),
        )


@dataclass(frozen=True)
class ExploreResult:
    """All that was asked for, in the order of series, x and y."""

    view: View
    x: Field
    y: Field
    series: Field | None
    marks: Sequence[DataPoint]
    noun: str
    """What an observation is: a run at its main point, or any point of one."""
    observations: int
    """How many are in the marks."""
    matching_runs: int
    """How many runs there are to look at, with or without the values that were asked for."""
    left_out: Sequence[ExclusionCount]
    mixed: Sequence[Field]
    """Fields of which some mark holds several values."""
    is_single: bool
    """Each mark is one observation."""


def metrics_of(fields: Iterable[Field]) -> list[str]:
    """The metrics to read, the one of the first field first."""
    named = [name for field in fields for name in (field.metric, field.streams_metric) if name]
    return list(dict.fromkeys(named))


def aggregate(
    view: View,
    known: Mapping[str, Field],
    found: ObservationSet,
    spots: Mapping[GroupKey, GroupContext],
    is_main_only: bool,
) -> ExploreResult:
    """`found` as read for `metrics_of((y, x))`."""
    x, y, series = known[view.x], known[view.y], known[view.series] if view.series else None
    is_single = view.raw or x.metric is not None
    columns = metrics_of((y, x))
    column = {metric: NUMBERS + 2 * place for place, metric in enumerate(columns)}
    aside = _aside(spots.values(), known, {field.name for field in (x, y, series) if field})
    cells: dict[tuple[Any, ...], _Cell] = {}
    singles: list[DataPoint] = []
    lacking: Counter[Exclusion] = Counter()
    seen: set[str] = set()
    n_seen = 0
    for (place, spot), why in zip(spots.items(), aside, strict=True):
        rows = found.observations.pop(place)  # each row is let go as soon as it is a mark
        if is_main_only:
            n_seen += len(rows)  # each is a run of its own
        else:
            seen.update(row[PUBLIC_ID] for row in rows)
        of_series = series.read(spot) if series else None
        if why is not None:
            lacking[why] += len(rows)
            continue
        if view.among is not None and value_key(of_series) != view.among:
            continue
        x_of, y_of = (_reader(field, spot, column, view.raw) for field in (x, y))
        for row in rows:
            at, value = x_of(row), y_of(row)
            if value is None or at is None:
                lacking[_lack(y if value is None else x, spot, row, column)] += 1
            elif view.at is not None and value_key(at) != view.at:
                continue
            elif is_single:
                end = value if isinstance(value, int | float) else None
                singles.append(DataPoint(of_series, at, value, end, end, 1, row[PUBLIC_ID]))
            else:
                name = (of_series, at) if y.kind == "number" else (of_series, at, value)
                cell = cells.get(name) or cells.setdefault(name, _Cell(of_series, at))
                cell.values.append(value)
                cell.public_ids.append(row[PUBLIC_ID])
                cell.spots.add(place)
    counted = noun("run") if is_main_only else noun("point")
    left_out = [ExclusionCount(number, counted, lack) for lack, number in lacking.most_common()]
    if (absent := found.runs - n_seen - len(seen)) > 0:
        left_out.append(ExclusionCount(absent, "run", _without(y if y.metric else x)))
    marks = singles if is_single else [cell.mark(y) for cell in cells.values()]
    return ExploreResult(
        view, x, y, series, _sorted(marks, x, y, series), counted,
        observations=sum(mark.observations for mark in marks),
        matching_runs=found.runs,
        left_out=left_out,
        mixed=_mixed([[spots[place] for place in cell.spots] for cell in cells.values()], known),
        is_single=is_single,
    )  # fmt: skip


class _Cell:
    """The observations of one mark."""

    def __init__(self, series: FieldValue | None, x: FieldValue) -> None:
        self.series, self.x = series, x
        self.values: list[Any] = []
        self.public_ids: list[str] = []
        self.spots: set[GroupKey] = set()

    def mark(self, y: Field) -> DataPoint:
        public_id = self.public_ids[0] if len(self.public_ids) == 1 else None
        if y.kind != "number":
            return DataPoint(self.series, self.x, self.values[0], None, None, len(self.values), public_id)
        low, high = min(self.values), max(self.values)
        return DataPoint(self.series, self.x, median(self.values), low, high, len(self.values), public_id)


def _reader(
    field: Field, spot: GroupContext, column: Mapping[str, int], raw: bool
) -> Callable[[Observation], FieldValue | None]:
    """How to read a field from the observations of a spot."""
    if (metric := field.metric_at(spot.point)) is not None:
        place, turn = column[metric], field.turn
        if turn is identity:
            return itemgetter(place)
        return lambda row: None if row[place] is None else turn(row[place], spot)
    if field.kind == "time":
        return itemgetter(STARTED_AT) if raw else lambda row: _day(row[STARTED_AT])
    value = field.read(spot)
    return lambda _row: value


def _day(moment: datetime | None) -> datetime | None:
    return moment and moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _aside(
    spots: Collection[GroupContext], known: Mapping[str, Field], in_sight: Collection[str]
) -> list[Exclusion | None]:
    """Of each spot why it does not count beside the others, if so."""
    usual: list[tuple[Field, FieldValue | None]] = []
    for name, tellers in SPLIT_FIELDS.items():
        field = known[name]
        values = {field.read(spot) for spot in spots}
        if len(values) > 1 and not set(tellers) & set(in_sight):
            usual.append((field, min(values, key=lambda value: sort_key(field, value))))
    return [
        next(
            (
                Exclusion(
                    _("with {field} above {value}", field=lower_first(field.title), value=value_key(value)),
                    _("Choose {field} for an axis or the series to see them.", field=lower_first(field.title)),
                )
                for field, value in usual
                if field.read(spot) != value
            ),
            None,
        )
        for spot in spots
    ]


def _lack(field: Field, spot: GroupContext, row: Observation, column: Mapping[str, int]) -> Exclusion:
    """A measured number says by itself why it is missing; a field that is made of it says what else is."""
    metric = field.metric_at(spot.point)
    if metric is None or row[column[metric]] is not None:
        return _without(field)
    return _without(field, _null_reason(row[column[metric] + 1]))


def _null_reason(key: str | None) -> str | None:
    return _(NULL_REASONS[key]) if key in NULL_REASONS else None


def _without(field: Field, reason: str | None = None) -> Exclusion:
    return Exclusion(_("without {field}", field=lower_first(field.title)), reason or field.missing)


def _sorted(marks: Sequence[DataPoint], x: Field, y: Field, series: Field | None) -> list[DataPoint]:
    """By series, x and y; each value is ranked once, however many marks have it."""
    of_series = _rank(series, {mark.series for mark in marks})
    of_x, of_y = _rank(x, {mark.x for mark in marks}), _rank(y, {mark.y for mark in marks})
    found = sorted(marks, key=lambda mark: mark.public_id or "")
    # what counts least comes first: a hundred thousand tuples of all four would be there at once
    found.sort(key=lambda mark: of_y(mark.y))
    found.sort(key=lambda mark: of_x(mark.x))
    found.sort(key=lambda mark: of_series(mark.series))
    return found


def _rank(field: Field | None, values: Collection[FieldValue | None]) -> Callable[[FieldValue | None], Any]:
    """What to sort these values of a field by."""
    if field is None or (field.kind != "category" and None not in values):
        return lambda value: value or 0
    ordered = sorted(values, key=lambda value: sort_key(field, value))
    return {value: rank for rank, value in enumerate(ordered)}.__getitem__


def _mixed(groups: Iterable[Sequence[GroupContext]], known: Mapping[str, Field]) -> list[Field]:
    """The fields of MIXABLE that have several values within one mark."""
    several = [group for group in groups if len(group) > 1]
    fields = [known[name] for name in HETEROGENEITY_FIELDS]
    return [field for field in fields if any(len({field.read(spot) for spot in group}) > 1 for group in several)]
