"""From observations to data points: the same for chart, table, CSV and JSON, with what was excluded and why."""

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
from app.results.explore.observations import GroupKey, Observation, ObservationSet
from app.results.explore.query import View, value_key
from app.results.fields.field import Field, FieldValue, RunContext, identity, sort_key

PUBLIC_ID, STARTED_AT, METRICS_START = 0, 1, 2
"""Indexes of an Observation."""
SPLIT_FIELDS = {"concurrency": ("concurrency",), "depth": ("depth", "context_tokens")}
"""Conditions that change what a server is measured at, and the fields that show them. Unless one of these fields is
shown, workloads with several streams or a filled cache are excluded when there are others."""
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
"""Fields in which the observations of one data point should not differ without a notice."""


class DataPoint(NamedTuple):
    """One point of the chart and one row of the table."""

    series: FieldValue | None
    """The series; None without a field for series, or when that field is unknown."""
    x: FieldValue
    y: FieldValue
    """The median when there are several observations."""
    low: float | None
    """The lowest observation; None when y is no number."""
    high: float | None
    observations: int
    public_id: str | None
    """The run's public id when there is just one observation."""


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
) -> ExploreResult:
    """Returns the data points of a view. `observation_set` has the columns of `metrics_of((y, x))` and is emptied."""
    x, y, series = fields[view.x], fields[view.y], fields[view.series] if view.series else None
    shown = {field.key for field in (x, y, series) if field}
    collector = _Collector(view, x, y, series)
    run_ids: set[str] = set()
    main_runs = 0
    split_exclusions = _split_exclusions(contexts.values(), fields, shown)
    for (group_key, context), exclusion in zip(contexts.items(), split_exclusions, strict=True):
        rows = observation_set.observations.pop(group_key)  # each row is freed as soon as it is in a data point
        if is_main_only:
            main_runs += len(rows)  # each is a run of its own
        else:
            run_ids.update(row[PUBLIC_ID] for row in rows)
        if exclusion is not None:
            collector.excluded[exclusion] += len(rows)
        else:
            collector.add(group_key, context, rows)
    unread_runs = observation_set.matching_runs - main_runs - len(run_ids)
    return _result(collector, fields, observation_set.matching_runs, unread_runs, contexts, is_main_only)


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
    data_points = collector.singles if collector.is_single else [cell.data_point(y) for cell in cells]
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

    def __init__(self, series: FieldValue | None, x: FieldValue) -> None:
        self.series, self.x = series, x
        self.values: list[Any] = []
        self.public_ids: list[str] = []
        self.group_keys: set[GroupKey] = set()

    def data_point(self, y: Field) -> DataPoint:
        public_id = self.public_ids[0] if len(self.public_ids) == 1 else None
        if y.kind != "number":
            return DataPoint(self.series, self.x, self.values[0], None, None, len(self.values), public_id)
        low, high = min(self.values), max(self.values)
        return DataPoint(self.series, self.x, median(self.values), low, high, len(self.values), public_id)


class _Collector:
    """Sorts observations into data points and counts those that have none."""

    def __init__(self, view: View, x: Field, y: Field, series: Field | None) -> None:
        self.view, self.x, self.y, self.series = view, x, y, series
        self.is_single = view.raw or x.metric is not None
        self.columns = {key: METRICS_START + 2 * index for index, key in enumerate(metrics_of((y, x)))}
        self.cells: dict[tuple[Any, ...], _Cell] = {}
        self.singles: list[DataPoint] = []
        self.excluded: Counter[Exclusion] = Counter()

    def add(self, group_key: GroupKey, context: RunContext, rows: Iterable[Observation]) -> None:
        view, x, y = self.view, self.x, self.y
        series_value = self.series.read(context) if self.series else None
        if view.among is not None and value_key(series_value) != view.among:
            return
        read_x, read_y = (_reader(field, context, self.columns, view.raw) for field in (x, y))
        for row in rows:
            x_value, y_value = read_x(row), read_y(row)
            if y_value is None or x_value is None:
                self.excluded[_exclusion(y if y_value is None else x, context, row, self.columns)] += 1
            elif view.at is not None and value_key(x_value) != view.at:
                continue
            elif self.is_single:
                end = y_value if isinstance(y_value, int | float) else None
                self.singles.append(DataPoint(series_value, x_value, y_value, end, end, 1, row[PUBLIC_ID]))
            else:
                cell_key = (series_value, x_value) if y.kind == "number" else (series_value, x_value, y_value)
                cell = self.cells.get(cell_key) or self.cells.setdefault(cell_key, _Cell(series_value, x_value))
                cell.values.append(y_value)
                cell.public_ids.append(row[PUBLIC_ID])
                cell.group_keys.add(group_key)


def _reader(
    field: Field, context: RunContext, columns: Mapping[str, int], raw: bool
) -> Callable[[Observation], FieldValue | None]:
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
