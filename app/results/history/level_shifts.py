"""Level shifts and drifts within a configuration: the speed changes while model, settings, prompt and hardware stay the
same."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from app.core.arrays import Floats, Places, np
from app.core.i18n import N_, _, enumerated, lower_first
from app.core.units import format_date, format_percent
from app.metrics.base import Metric
from app.results.compare.words import metric_change
from app.results.hardware import HardwareChange
from app.results.history.changepoint import ChangePoint, Development, Drift, development
from app.results.history.table import HistoryTable

_DAY_US = 86_400_000_000.0
_RATES = (
    (timedelta(days=365.25 / 12), N_("{change} a month")),
    (timedelta(days=7), N_("{change} a week")),
    (timedelta(days=1), N_("{change} a day")),
    (timedelta(hours=1), N_("{change} an hour")),
)
"""The units of a slope: the longest of these that the series lasted for is used."""
_SAME = N_("{changes} since {at}, same configuration")
_NO_KNOWN_CHANGE = N_("{changes} since {at}, no known change of configuration")


class MetricShift(NamedTuple):
    """A shift of one metric."""

    place: int
    """The index of the metric among the readings of the points."""
    point: ChangePoint


class Shift(NamedTuple):
    """A level shift of one or several metrics at the same run."""

    config_id: int
    at: datetime
    """When the first run at the new level started."""
    before: str
    """The public id of the last run at the old level."""
    after: str
    """The public id of the first run at the new level."""
    metrics: tuple[MetricShift, ...]
    still_holds: bool
    """Whether none of its metrics has shifted again."""


class MetricDrift(NamedTuple):
    """A drift of one metric."""

    place: int
    """The index of the metric among the readings of the points."""
    drift: Drift
    lasted: timedelta
    """The time from the first run with a value to the last."""


class SeriesDrift(NamedTuple):
    """A drift of a segment, from its first run to its last."""

    config_id: int
    since: datetime
    until: datetime
    first: str
    last: str
    """The public ids of both runs."""
    metrics: tuple[MetricDrift, ...]


def shifts(
    points: HistoryTable, metrics: int, hardware: Mapping[int, Sequence[HardwareChange]] | None = None
) -> list[Shift]:
    """Returns the level shifts of all segments in `metrics` metrics, in order of time.

    Metrics that shift at the same run, or one run apart, shift together: at the run where the shift is clearest.
    """
    all_shifts = [
        shift for places in points.segments(hardware or {}) for shift in _segment_shifts(points, places, metrics)
    ]
    return sorted(all_shifts, key=lambda shift: shift.at)


def drifts(
    points: HistoryTable, metrics: int, hardware: Mapping[int, Sequence[HardwareChange]] | None = None
) -> list[SeriesDrift]:
    """Returns the drifts of all segments in `metrics` metrics, in the order of their last runs."""
    series = [drift for places in points.segments(hardware or {}) if (drift := _drift(points, places, metrics))]
    return sorted(series, key=lambda drift: drift.until)


def _drift(points: HistoryTable, places: Places, metrics: int) -> SeriesDrift | None:
    developments = [_development(points, places, place) for place in range(metrics)]
    drifting = tuple(
        MetricDrift(
            place,
            development.drift,
            points.started_at(places[with_value[-1]]) - points.started_at(places[with_value[0]]),
        )
        for place, (with_value, development) in enumerate(developments)
        if development.drift
    )
    if not drifting:
        return None
    first, last = points[places[0]], points[places[-1]]
    return SeriesDrift(first.config_id, first.started_at, last.started_at, first.public_id, last.public_id, drifting)


class _SegmentShift(NamedTuple):
    """A shift of one metric, by the indexes of runs in their segment."""

    after: int
    before: int
    shift: MetricShift


def _segment_shifts(points: HistoryTable, places: Places, metrics: int) -> list[Shift]:
    candidates = sorted(
        (candidate for place in range(metrics) for candidate in _metric_shifts(points, places, place)),
        key=lambda candidate: candidate.after,
    )
    groups: list[list[_SegmentShift]] = []
    for candidate in candidates:
        latest = groups[-1] if groups else []
        is_new_metric = all(grouped.shift.place != candidate.shift.place for grouped in latest)
        if latest and is_new_metric and candidate.after - latest[0].after <= 1:
            latest.append(candidate)
        else:
            groups.append([candidate])
    shifts = []
    for number, group in enumerate(groups, 1):
        shifted_later = {candidate.shift.place for later_group in groups[number:] for candidate in later_group}
        clearest = min(group, key=lambda candidate: candidate.shift.point.chance)
        first = points[places[clearest.after]]
        shifts.append(
            Shift(
                config_id=first.config_id,
                at=first.started_at,
                before=points.public_id(places[clearest.before]),
                after=first.public_id,
                metrics=tuple(sorted((candidate.shift for candidate in group), key=lambda shift: shift.place)),
                still_holds=shifted_later.isdisjoint(candidate.shift.place for candidate in group),
            )
        )
    return shifts


def _metric_shifts(points: HistoryTable, places: Places, place: int) -> list[_SegmentShift]:
    with_value, development = _development(points, places, place)
    return [
        _SegmentShift(int(with_value[point.index]), int(with_value[point.index - 1]), MetricShift(place, point))
        for point in development.points
    ]


def _development(points: HistoryTable, places: Places, place: int) -> "tuple[Places, Development]":
    """Returns the development of one metric in a segment, and the indexes of the runs with a value; others are skipped.

    Deviations are those of logarithms, so relative ones.
    """
    value, deviation, count = (column[places] for column in points.readings[3 * place : 3 * place + 3])
    with_value = (value > 0).nonzero()[0]
    days = points.at_us[places[with_value]] / _DAY_US
    return with_value, _cached(
        _Series(value[with_value], deviation[with_value] / value[with_value], count[with_value], days)
    )


class _Series:
    """A series as a cache key: two are equal when their content is. It drops its content once its development is
    known."""

    def __init__(self, value: Floats, relative_deviation: Floats, count: Floats, days: Floats) -> None:
        self._columns = [value, relative_deviation, count, days]
        self._digest = blake2b(b"".join(column.tobytes() for column in self._columns), digest_size=16).digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Series) and self._digest == other._digest

    def development(self) -> Development:
        value, relative_deviation, count, days = self._columns
        self._columns = []
        return development(np.log(value), relative_deviation, count, days)


@lru_cache(maxsize=4096)
def _cached(series: _Series) -> Development:
    """Returns the development from a cache, so that a history seen from several sides, or after another run, only
    computes what is new. Each series is a metric of a configuration with one prompt on one hardware: thousands of them
    take a megabyte."""
    return series.development()


def is_worse(change: MetricShift | MetricDrift, metric: Metric) -> bool:
    """Returns whether a shift or drift is for the worse."""
    ratio = change.drift.ratio if isinstance(change, MetricDrift) else change.point.ratio
    return (ratio < 1) is (metric.better == "higher")


def moved(shift: MetricShift, metric: Metric) -> str:
    """Returns one metric of a shift in words, such as "decode 11 % slower"."""
    return metric_change(metric.key, 1 + shift.point.change)


def shift_words(shift: Shift, metrics: Sequence[Metric], *, is_known: bool = False) -> str:
    """Returns a shift in words, such as "decode 11 % slower since 20 November 2026, same configuration".

    `metrics` are in the order of the readings. `is_known`: all settings that a restart may change are known; otherwise
    nobody can say that the configuration is the same.
    """
    moves = ", ".join(moved(metric_shift, metrics[metric_shift.place]) for metric_shift in shift.metrics)
    return _(_SAME if is_known else _NO_KNOWN_CHANGE, changes=moves, at=format_date(shift.at))


def rate(drift: MetricDrift) -> str:
    """Returns how fast a metric drifts, in words, such as "−1.2 % a month"."""
    unit, message = next((candidate for candidate in _RATES if drift.lasted >= candidate[0]), _RATES[-1])
    return _(message, change=format_percent(drift.drift.ratio ** (unit / drift.lasted) - 1))


def drift_words(series: SeriesDrift, metrics: Sequence[Metric], *, is_known: bool = False) -> str:
    """Returns a drift in words, such as "decode has been drifting by −1.2 % a month since 3 March 2026, same
    configuration"; `is_known` as in `shift_words`."""
    first, *more = (
        {"metric": lower_first(metrics[drift.place].title), "rate": rate(drift)} for drift in series.metrics
    )
    clauses = [
        _("{metric} has been drifting by {rate}", **first),
        *(_("{metric} by {rate}", **clause) for clause in more),
    ]
    return _(_SAME if is_known else _NO_KNOWN_CHANGE, changes=enumerated(clauses), at=format_date(series.since))
