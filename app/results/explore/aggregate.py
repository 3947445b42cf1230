"""From observations to data points: the same for chart, table, CSV and JSON, with what was excluded and why."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

from app.core.i18n import _, lower_first, noun
from app.core.units import plural
from app.metrics import NULL_REASONS
from app.results.explore.observations import (
    METRICS_START,
    PUBLIC_ID,
    STARTED_AT,
    GroupKey,
    Observation,
    ObservationSet,
)
from app.results.explore.parts import Group, Narrowing, differing_parts, narrow, part_ranking, split
from app.results.explore.query import View, line_key, value_key
from app.results.fields.field import Field, FieldValue, RunContext, identity, sort_key

EARLIEST = datetime.min.replace(tzinfo=UTC)
SPLIT_FIELDS = {"concurrency": ("concurrency",), "depth": ("depth", "context_tokens")}
"""Conditions that change what a server is measured at, and the fields that show them. Unless one of these fields is
shown, workloads with several streams or a filled cache are excluded when there are others."""
HETEROGENEITY_FIELDS = (
    "machine",
    "model",
    "quantization",
    "engine",
    "engine_version",
    "prompt_tokens",
    "output_tokens",
    "concurrency",
    "depth",
)
"""Fields in which the observations of one data point should not differ without a notice."""


class DataPoint(NamedTuple):
    """One point of the chart and one row of the table."""

    series: FieldValue | None
    """The series; None without a field for series, or when that field is unknown."""
    x: FieldValue
    y: FieldValue
    """The median of several observations, or the one that the view asks for."""
    low: float | None
    """The lowest observation; None when y is no number."""
    high: float | None
    observations: int
    public_id: str | None
    """The public id of the run that has this y; None for a median of several."""
    parts: tuple[FieldValue | None, ...] = ()
    """The values of the result's parts, by which its line is split from others of the series."""
    interruption: tuple[FieldValue | None, ...] = ()
    """A line over time is interrupted where this changes."""

    @property
    def line(self) -> tuple[FieldValue | None, ...]:
        return (self.series, *self.parts)


class Exclusion(NamedTuple):
    """The reason why an observation is in no data point."""

    what: str
    """The reason in words: `without TTFT`."""
    reason: str


class ExclusionCount(NamedTuple):
    observations: int
    noun: str
    """The noun that is counted: run or point."""
    exclusion: Exclusion

    @property
    def text(self) -> str:
        return _(
            "Left out: {number} {what}: {reason}",
            number=plural(self.observations, self.noun),
            what=self.exclusion.what,
            reason=lower_first(self.exclusion.reason),
        )


@dataclass(frozen=True)
class ExploreResult:
    """The result for one view."""

    view: View
    x: Field
    y: Field
    series: Field | None
    data_points: Sequence[DataPoint]
    """The data points in the order of series, x and y."""
    noun: str
    """What an observation is: a run at its main workload, or any workload (point) of a run."""
    observations: int
    """The number of observations in the data points."""
    matching_runs: int
    """The number of runs that match the filter, with or without the values of the view."""
    exclusions: Sequence[ExclusionCount]
    heterogeneous: Sequence[Field]
    """The fields of which some data point holds several values."""
    is_single: bool
    """Whether each data point is one observation."""
    parts: tuple[str, ...] = ()
    """The keys of the parts by which lines are split."""
    title_places: tuple[int, ...] = ()
    """The places among `parts` of those in which the shown lines differ."""
    narrowings: Sequence[Narrowing] = ()
    """What was left out because there would have been too many lines."""
    differing: tuple[str, ...] = ()
    """The keys of the other parts in which lines differ."""


def metrics_of(fields: Iterable[Field]) -> list[str]:
    """Returns the keys of the metrics to read for some fields, that of the first field first."""
    keys = [key for field in fields for key in (field.metric, field.streams_metric) if key]
    return list(dict.fromkeys(keys))


def aggregate(
    view: View,
    fields: Mapping[str, Field],
    observation_set: ObservationSet,
    contexts: Mapping[GroupKey, RunContext],
    is_main_only: bool,
    ages: Mapping[tuple[int, int], datetime] = MappingProxyType({}),
) -> ExploreResult:
    """Returns the data points of a view. `observation_set` has the columns of `metrics_of((y, x))` and is emptied;
    `ages` tells when each machine measured each configuration last."""
    x, y, series = fields[view.x], fields[view.y], fields[view.series] if view.series else None
    shown = {field.key for field in (x, y, series) if field}
    collector = _Collector(view, x, y, series)
    exclusions = dict(zip(contexts, _split_exclusions(contexts.values(), fields, shown), strict=True))
    groups = {
        group_key: group
        for group_key, context in contexts.items()
        if exclusions[group_key] is None
        and (group := collector.group(context, observation_set.observations[group_key])) is not None
    }
    for group_key, group in groups.items():
        starts = [row[STARTED_AT] for row in observation_set.observations[group_key] if row[STARTED_AT]]
        group.age = (max(starts, default=ages.get((group_key.machine_id, group_key.config_id)) or EARLIEST), group_key)
    parts: tuple[str, ...] = ()
    narrowings: list[Narrowing] = []
    remaining = list(groups.values())
    if x.metric is None:  # a measured x has a mark for each run, and no lines
        parts = split(remaining, view, x, series)
        if not view.raw:
            remaining, narrowings = narrow(remaining, view, parts)
    remaining_ids = {id(group) for group in remaining}
    run_ids: set[str] = set()
    main_runs = 0
    for group_key, context in contexts.items():
        rows = observation_set.observations.pop(group_key)  # each row is freed as soon as it is in a data point
        if is_main_only:
            main_runs += len(rows)  # each is a run of its own
        else:
            run_ids.update(row[PUBLIC_ID] for row in rows)
        exclusion, own_group = exclusions[group_key], groups.get(group_key)
        if exclusion is not None:
            collector.excluded[exclusion] += len(rows)
        else:
            collector.add(group_key, context, rows, own_group, own_group is None or id(own_group) in remaining_ids)
    unread_runs = observation_set.matching_runs - main_runs - len(run_ids)
    result = _result(collector, fields, observation_set.matching_runs, unread_runs, contexts, is_main_only)
    differing = differing_parts(remaining, parts, view) if x.metric is None else ()
    values = zip(*(group.values.values() for group in remaining), strict=True)
    places = tuple(place for place, of_part in enumerate(values) if len(set(of_part)) > 1)
    return replace(result, parts=parts, title_places=places, narrowings=narrowings, differing=differing)


def _result(
    collector: "_Collector",
    fields: Mapping[str, Field],
    matching_runs: int,
    unread_runs: int,
    contexts: Mapping[GroupKey, RunContext],
    is_main_only: bool,
) -> ExploreResult:
    """Returns the result; `unread_runs` match the filter, but have no observation of the first metric."""
    x, y, series = collector.x, collector.y, collector.series
    counted_noun = noun("run") if is_main_only else noun("point")
    exclusions = [
        ExclusionCount(count, counted_noun, exclusion) for exclusion, count in collector.excluded.most_common()
    ]
    if unread_runs > 0:
        exclusions.append(ExclusionCount(unread_runs, "run", _without(y if y.metric else x)))
    cells = collector.cells.values()
    data_points = (
        collector.singles if collector.is_single else [cell.data_point(y, collector.view.mark) for cell in cells]
    )
    return ExploreResult(
        view=collector.view,
        x=x,
        y=y,
        series=series,
        data_points=_sorted(data_points, x, y, series),
        noun=counted_noun,
        observations=sum(data_point.observations for data_point in data_points),
        matching_runs=matching_runs,
        exclusions=exclusions,
        heterogeneous=_heterogeneous([[contexts[key] for key in cell.group_keys] for cell in cells], fields),
        is_single=collector.is_single,
    )


class _Cell:
    """The observations of one data point."""

    def __init__(self, x: FieldValue, group: Group) -> None:
        self.x, self.group = x, group
        self.values: list[Any] = []
        self.rows: list[Observation] = []
        self.group_keys: set[GroupKey] = set()

    def data_point(self, y: Field, mark: str | None) -> DataPoint:
        place = (tuple(self.group.values.values()), self.group.interruption)
        series, count = self.group.series, len(self.values)
        if y.kind != "number":
            public_id = self.rows[0][PUBLIC_ID] if count == 1 else None
            return DataPoint(series, self.x, self.values[0], None, None, count, public_id, *place)
        low, high = min(self.values), max(self.values)
        chosen = self._chosen(y, mark) if mark or count == 1 else None
        value = median(self.values) if chosen is None else self.values[chosen]
        public_id = None if chosen is None else self.rows[chosen][PUBLIC_ID]
        return DataPoint(series, self.x, value, low, high, count, public_id, *place)

    def _chosen(self, y: Field, mark: str | None) -> int:
        """Returns the index of the observation that stands for all: the latest one, or else the best one."""
        indexes = range(len(self.values))
        if mark == "latest":
            return max(indexes, key=lambda index: (self.rows[index][STARTED_AT] or EARLIEST, index))
        return (max if y.better == "higher" else min)(indexes, key=self.values.__getitem__)


class _Collector:
    """Sorts observations into data points and counts those that have none."""

    def __init__(self, view: View, x: Field, y: Field, series: Field | None) -> None:
        self.view, self.x, self.y, self.series = view, x, y, series
        self.is_single = view.raw or x.metric is not None
        self.columns = {key: METRICS_START + 2 * index for index, key in enumerate(metrics_of((y, x)))}
        self.cells: dict[tuple[Any, ...], _Cell] = {}
        self.singles: list[DataPoint] = []
        self.excluded: Counter[Exclusion] = Counter()

    def group(self, context: RunContext, rows: Sequence[Observation]) -> Group | None:
        """Returns the group of observations that share a context; None when none of them has both values."""
        read_x, read_y = self._readers(context)
        observations = sum(read_y(row) is not None and read_x(row) is not None for row in rows)
        if not observations:
            return None
        x_value = None if self.x.metric or self.x.kind == "time" else read_x(rows[0])
        return Group(context, self.series.read(context) if self.series else None, x_value, observations)

    def add(
        self,
        group_key: GroupKey,
        context: RunContext,
        rows: Iterable[Observation],
        group: Group | None,
        is_shown: bool,
    ) -> None:
        """Adds observations to the data points; only the reasons of missing values count when the group is not
        shown, or None."""
        view, x, y = self.view, self.x, self.y
        if group is not None and view.among not in (None, line_key(group.line), value_key(group.series)):
            return
        read_x, read_y = self._readers(context)
        place = (tuple(group.values.values()), group.interruption) if group else ((), ())
        for row in rows:
            x_value, y_value = read_x(row), read_y(row)
            if y_value is None or x_value is None:
                self.excluded[_exclusion(y if y_value is None else x, context, row, self.columns)] += 1
            elif group is None or not is_shown or (view.at is not None and value_key(x_value) != view.at):
                continue
            elif self.is_single:
                end = y_value if isinstance(y_value, int | float) else None
                self.singles.append(DataPoint(group.series, x_value, y_value, end, end, 1, row[PUBLIC_ID], *place))
            else:
                cell_key = (*group.line, group.interruption, x_value, None if y.kind == "number" else y_value)
                cell = self.cells.get(cell_key) or self.cells.setdefault(cell_key, _Cell(x_value, group))
                cell.values.append(y_value)
                cell.rows.append(row)
                cell.group_keys.add(group_key)

    def _readers(self, context: RunContext) -> "tuple[_Reader, _Reader]":
        x, y = (_reader(field, context, self.columns, self.view.raw) for field in (self.x, self.y))
        return x, y


_Reader = Callable[[Observation], FieldValue | None]


def _reader(field: Field, context: RunContext, columns: Mapping[str, int], raw: bool) -> _Reader:
    """Returns a function that reads a field from the observations that share a context."""
    if (metric := field.metric_at(context.workload)) is not None:
        column, transform = columns[metric], field.transform
        if transform is identity:
            return itemgetter(column)
        return lambda row: None if row[column] is None else transform(row[column], context)
    if field.kind == "time":
        return itemgetter(STARTED_AT) if raw else lambda row: _day(row[STARTED_AT])
    value = field.read(context)
    return lambda _row: value


def _day(moment: datetime | None) -> datetime | None:
    return moment and moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _split_exclusions(
    contexts: Collection[RunContext], fields: Mapping[str, Field], shown: Collection[str]
) -> list[Exclusion | None]:
    """Returns for each context why it does not count with the others, if so. `shown` holds the keys of the view's
    fields."""
    usual_values: list[tuple[Field, FieldValue | None]] = []
    for key, showing_keys in SPLIT_FIELDS.items():
        field = fields[key]
        values = {field.read(context) for context in contexts}
        if len(values) > 1 and not set(showing_keys) & set(shown):
            usual_values.append((field, min(values, key=lambda value: sort_key(field, value))))
    return [
        next(
            (_split_exclusion(field, value) for field, value in usual_values if field.read(context) != value),
            None,
        )
        for context in contexts
    ]


def _split_exclusion(field: Field, usual_value: FieldValue | None) -> Exclusion:
    title = lower_first(field.title)
    return Exclusion(
        _("with {field} above {value}", field=title, value=value_key(usual_value)),
        _("Choose {field} for an axis or the series to see them.", field=title),
    )


def _exclusion(field: Field, context: RunContext, row: Observation, columns: Mapping[str, int]) -> Exclusion:
    """Returns why a value is missing: a measured number has its own reason, and a derived field names the missing
    part."""
    metric = field.metric_at(context.workload)
    if metric is None or row[columns[metric]] is not None:
        return _without(field)
    return _without(field, row[columns[metric] + 1])


def _without(field: Field, null_reason: str | None = None) -> Exclusion:
    reason = _(NULL_REASONS[null_reason]) if null_reason in NULL_REASONS else field.missing
    return Exclusion(_("without {field}", field=lower_first(field.title)), reason)


def _sorted(data_points: Sequence[DataPoint], x: Field, y: Field, series: Field | None) -> list[DataPoint]:
    """Returns the data points sorted by series, x and y; each value is ranked once, however many data points have
    it."""
    rank_series = _ranking(series, {data_point.series for data_point in data_points})
    rank_x = _ranking(x, {data_point.x for data_point in data_points})
    rank_y = _ranking(y, {data_point.y for data_point in data_points})
    ordered = sorted(data_points, key=lambda data_point: data_point.public_id or "")
    # sorted by the least important key first, since a hundred thousand tuples of all four keys would take too much
    # memory
    ordered.sort(key=lambda data_point: rank_y(data_point.y))
    ordered.sort(key=lambda data_point: rank_x(data_point.x))
    rank_parts = part_ranking({data_point.parts for data_point in data_points})
    ordered.sort(key=lambda data_point: rank_parts[data_point.parts])
    ordered.sort(key=lambda data_point: rank_series(data_point.series))
    return ordered


def _ranking(field: Field | None, values: Collection[FieldValue | None]) -> Callable[[FieldValue | None], Any]:
    """Returns a sort key for these values of a field."""
    if field is None or (field.kind != "category" and None not in values):
        return lambda value: value or 0
    ordered = sorted(values, key=lambda value: sort_key(field, value))
    return {value: rank for rank, value in enumerate(ordered)}.__getitem__


def _heterogeneous(groups: Iterable[Sequence[RunContext]], fields: Mapping[str, Field]) -> list[Field]:
    """Returns the fields of HETEROGENEITY_FIELDS that have several values within one data point."""
    several = [group for group in groups if len(group) > 1]
    candidates = [fields[key] for key in HETEROGENEITY_FIELDS]
    return [
        field for field in candidates if any(len({field.read(context) for context in group}) > 1 for group in several)
    ]
