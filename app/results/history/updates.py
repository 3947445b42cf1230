"""Engine updates: whether a new version changed the speed of what was measured before and after it.

An update is a mark on each series that was measured with both versions, next to each other in time on one hardware. A
series is tested at that known place, by the medians of its runs on both sides and the scatter of its machine
(update_scatter.py). The same update usually reaches several series, so a common change is tested as well: the median
of the changes of at least three series, so that one wrong run decides nothing. A change of single series must hold
whichever run is left out. Each of both tests may raise a false alarm at half of FALSE_ALARMS of the updates, corrected
by Bonferroni for the metrics and, among single series, for their number.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from app.core.i18n import _, enumerated, noun
from app.core.units import plural
from app.core.unknown_settings import has_unknown_settings
from app.metrics.base import Metric
from app.results.compare.words import metric_change
from app.results.hardware import HardwareChange
from app.results.history.changepoint import FALSE_ALARMS, MIN_CHANGE
from app.results.history.table import HistoryTable
from app.results.history.update_scatter import (
    MAX_RUNS,
    Block,
    Scatters,
    Scope,
    difference,
    hardware_blocks,
    run_medians,
    version_blocks,
    widening,
)
from app.results.series import Series, SeriesIndex
from app.stats.runs import median_variance
from app.stats.student import t_quantile, two_sided_p

MIN_SERIES = 3
"""The fewest series for a common change: of two, one wrong run decides half."""


@dataclass(frozen=True)
class Change:
    """A relative change of one metric."""

    metric: Metric
    log_ratio: float
    """The logarithm of after over before."""
    error: float
    """The standard error of the logarithm."""
    degrees_of_freedom: float
    cautious_z: float = 0.0
    """The logarithm over its error when the run that speaks most for the change is left out; 0 without another one."""

    @property
    def ratio(self) -> float:
        """After over before: 0.92 is 8 % less."""
        return math.exp(self.log_ratio)

    @property
    def interval(self) -> tuple[float, float]:
        """The two ends of the 95 % interval of the ratio."""
        half = t_quantile(self.degrees_of_freedom) * self.error
        return math.exp(self.log_ratio - half), math.exp(self.log_ratio + half)

    @property
    def p_value(self) -> float:
        """The two-sided p-value of no change."""
        if self.error <= 0:
            return float(self.log_ratio == 0)
        return two_sided_p(self.log_ratio / self.error, self.degrees_of_freedom)

    @property
    def is_worse(self) -> bool:
        return (self.log_ratio < 0) is (self.metric.better == "higher")


class SeriesChange(NamedTuple):
    """What an update did to one series."""

    series: Series
    at: datetime
    """When the first run with the new version started."""
    before: str
    """The public id of the last run with the old version."""
    after: str
    """The public id of the first run with the new version."""
    runs_before: int
    runs_after: int
    changes: Mapping[str, Change]
    """By the key of the metric; only metrics that were measured on both sides."""


@dataclass(frozen=True)
class Update:
    """One version of an engine after another on one machine, at one prompt."""

    machine_id: int
    machine: str
    engine: str
    old_version: str
    new_version: str
    at: datetime
    """When the first run with the new version started."""
    series: Sequence[SeriesChange]
    """All series that were measured with both, in order of time."""
    shifts: Sequence[Change]
    """The changes of metrics that are certain, the largest first: the common change of all series, or the median of
    those whose own change is certain."""

    @property
    def is_worse(self) -> bool:
        return any(shift.is_worse for shift in self.shifts)

    @property
    def clearest(self) -> SeriesChange:
        """The series whose comparison says most: of the largest shift the largest change, or else the newest."""
        return self.shifted(self.shifts[0])[0] if self.shifts else self.series[-1]

    @property
    def is_alone(self) -> bool:
        """Whether all settings are known of the series that it shifted: then nothing else changed with it."""
        return not any(
            has_unknown_settings(replace(change.series.snapshot, engine_version=self.new_version))
            for shift in self.shifts
            for change in self.shifted(shift)
        )

    def shifted(self, shift: Change) -> list[SeriesChange]:
        """Returns the series with a change of the shift's direction and more than MIN_CHANGE, the largest first."""
        direction = math.copysign(1, shift.log_ratio)
        changes = [
            (direction * change.log_ratio, place)
            for place, series_change in enumerate(self.series)
            if (change := series_change.changes.get(shift.metric.key))
        ]
        return [self.series[place] for size, place in sorted(changes, reverse=True) if size > MIN_CHANGE]


def updates(
    points: HistoryTable,
    metrics: Sequence[Metric],
    index: SeriesIndex,
    hardware: Mapping[int, Sequence[HardwareChange]] | None = None,
) -> list[Update]:
    """Returns all updates within a history, in order of time. `metrics` are those of its readings, in their order;
    `hardware` holds each server's changes of hardware.

    A change back to an older version is an update as well. A version that a server does not report is none.
    """
    segments = [
        version_blocks(points, places, index)
        for places in points.segments(hardware or {}, groups=index.ids(points.config_ids))
    ]
    return _tested(points, metrics, index, segments)


def hardware_updates(
    points: HistoryTable,
    metrics: Sequence[Metric],
    index: SeriesIndex,
    hardware: Mapping[int, Sequence[HardwareChange]],
) -> list[tuple[str, Update]]:
    """Returns what each change of hardware did to the configurations that were measured before and after it, in order
    of time, as an update without versions; with the words of the change.
    """
    words = {
        (server_id, str(number)): change.text
        for server_id, changes in hardware.items()
        for number, change in enumerate(changes, start=1)
    }
    if not words:
        return []
    epochs = points.hardware_epoch(hardware)
    segments = [hardware_blocks(places, epochs) for places in points.segments({})]
    tested = []
    for update in _tested(points, metrics, index, segments):
        (place,) = points.with_public_ids([update.series[0].after]).tolist()
        tested.append((words[int(points.server_ids[place]), update.new_version], update))
    return tested


def _tested(
    points: HistoryTable, metrics: Sequence[Metric], index: SeriesIndex, segments: Sequence[Sequence[Block]]
) -> list[Update]:
    scatters = Scatters(points, metrics, index, segments)
    by_scope: dict[Scope, dict[_Versions, list[SeriesChange]]] = defaultdict(lambda: defaultdict(list))
    for (scope, versions), pairs in _newest_pairs(points, index, scatters, segments).items():
        by_scope[scope][versions] = [
            _series_change(points, metrics, index, scatters, before, after) for before, after in pairs
        ]
    all_updates = [
        update
        for scope, changes in by_scope.items()
        for update in _updates_of(changes, metrics, [scatters.halves(scope, place) for place in range(len(metrics))])
    ]
    return sorted(all_updates, key=lambda update: update.at)


_Versions = tuple[str, str, str]
"""The engine, its version before and its version after an update."""


def _newest_pairs(
    points: HistoryTable, index: SeriesIndex, scatters: Scatters, segments: Sequence[Sequence[Block]]
) -> dict[tuple[Scope, _Versions], list[tuple[Block, Block]]]:
    """Returns the blocks before and after each update, in order of time: of each series the newest, since one that goes
    back and forth between two versions has many, and the last of them is what still holds."""
    newest: dict[tuple[Scope, _Versions, int], tuple[Block, Block]] = {}
    for before, after in (pair for blocks in segments for pair in pairwise(blocks)):
        series = index.by_config[int(points.config_ids[after.places[0]])]
        key = scatters.scope(after), (series.snapshot.engine, before.version, after.version), series.id
        if key not in newest or after.places[0] > newest[key][1].places[0]:
            newest[key] = before, after
    pairs: dict[tuple[Scope, _Versions], list[tuple[Block, Block]]] = defaultdict(list)
    for (scope, versions, _series), pair in sorted(newest.items(), key=lambda item: int(item[1][1].places[0])):
        pairs[scope, versions].append(pair)
    return pairs


def _series_change(
    points: HistoryTable,
    metrics: Sequence[Metric],
    index: SeriesIndex,
    scatters: Scatters,
    before: Block,
    after: Block,
) -> SeriesChange:
    """Returns what an update did to a series; errors are those that the scatter between runs explains."""
    changes = {}
    for place, metric in enumerate(metrics):
        old = list(run_medians(points, before.places[-MAX_RUNS:], place))
        new = list(run_medians(points, after.places[:MAX_RUNS], place))
        if old and new:
            scatter = scatters.of(scatters.scope(after), place)
            log_ratio, error, cautious_z = difference(old, new, scatter)
            changes[metric.key] = Change(metric, log_ratio, error, scatter.degrees_of_freedom, cautious_z)
    first = int(after.places[0])
    return SeriesChange(
        series=index.by_config[int(points.config_ids[first])],
        at=points.started_at(first),
        before=points.public_id(int(before.places[-1])),
        after=points.public_id(first),
        runs_before=len(before.places),
        runs_after=len(after.places),
        changes=changes,
    )


def _updates_of(
    changes: Mapping[_Versions, Sequence[SeriesChange]], metrics: Sequence[Metric], halves: Sequence[Sequence[float]]
) -> list[Update]:
    """Returns the updates of one machine at one prompt; `halves` are those of `Scatters` for each metric."""
    shifts: dict[_Versions, list[Change]] = defaultdict(list)
    for metric, of_halves in zip(metrics, halves, strict=True):
        changes = {versions: _widened(changes, versions, metric, of_halves) for versions in changes}
        common = {versions: _common(metric, series) for versions, series in changes.items()}
        for versions, series in changes.items():
            own, others = common[versions], [change for key, change in common.items() if key != versions and change]
            if shift := _shift(metric, series, own and _wider(own, [_z(change) for change in others]), len(metrics)):
                shifts[versions].append(shift)
    return [
        Update(
            machine_id=series[0].series.machine_id,
            machine=series[0].series.machine,
            engine=versions[0],
            old_version=versions[1],
            new_version=versions[2],
            at=series[0].at,
            series=series,
            shifts=sorted(shifts[versions], key=lambda shift: -abs(shift.log_ratio)),
        )
        for versions, series in changes.items()
    ]


def _widened(
    changes: Mapping[_Versions, Sequence[SeriesChange]], versions: _Versions, metric: Metric, halves: Sequence[float]
) -> list[SeriesChange]:
    """Returns the changes of an update with the errors of a metric widened by what the other updates show."""
    z_values = [
        _z(change)
        for key, series in changes.items()
        for series_change in series
        if key != versions and (change := series_change.changes.get(metric.key))
    ]
    return [
        series_change._replace(changes={**series_change.changes, metric.key: _wider(change, [*z_values, *halves])})
        if (change := series_change.changes.get(metric.key))
        else series_change
        for series_change in changes[versions]
    ]


def _z(change: Change) -> float:
    return change.log_ratio / change.error if change.error > 0 else 0.0


def _wider(change: Change, z_values: Sequence[float]) -> Change:
    factor, freedom = widening(z_values)
    return replace(
        change,
        error=change.error * factor,
        degrees_of_freedom=min(change.degrees_of_freedom, freedom),
        cautious_z=change.cautious_z / factor,
    )


def _common(metric: Metric, series: Sequence[SeriesChange]) -> Change | None:
    """Returns the median change of at least MIN_SERIES series. All rest on one scatter, so they share its degrees of
    freedom."""
    changes = [series_change.changes[metric.key] for series_change in series if metric.key in series_change.changes]
    return _median_change(metric, changes) if len(changes) >= MIN_SERIES else None


def _median_change(metric: Metric, changes: Sequence[Change]) -> Change:
    variance = fmean(change.error**2 for change in changes) * median_variance(len(changes))
    freedom = min(change.degrees_of_freedom for change in changes)
    return Change(metric, median(change.log_ratio for change in changes), math.sqrt(variance), freedom)


def _shift(metric: Metric, series: Sequence[SeriesChange], common: Change | None, looks: int) -> Change | None:
    """Returns the change of a metric that an update certainly made; None when there is none. `common` is the change of
    all series."""
    chance = FALSE_ALARMS / 2 / looks
    if common and common.p_value < chance and abs(common.log_ratio) > MIN_CHANGE:
        return common
    changes = [series_change.changes[metric.key] for series_change in series if metric.key in series_change.changes]
    testable = [change for change in changes if change.cautious_z]
    certain = [
        change
        for change in testable
        if abs(change.log_ratio) > MIN_CHANGE
        and two_sided_p(change.cautious_z, change.degrees_of_freedom) < chance / len(testable)
    ]
    return _median_change(metric, certain) if certain else None


def update_words(update: Update, engine_titles: Mapping[str, str]) -> str:
    """Returns an update with its shifts, such as "llama.cpp b5200 → b5600: decode 7.7 % slower on 3 models"."""
    engine = engine_titles.get(update.engine, update.engine)
    versions = f"{engine} {update.old_version} → {update.new_version}"
    if not update.shifts:
        return versions
    return _("{versions}: {changes}", versions=versions, changes=shift_words(update))


def shift_words(update: Update) -> str:
    """Returns the shifts of an update in words, such as "decode 7.7 % slower on 3 models".

    With unknown settings, nobody can say that nothing else changed with it.
    """
    phrases = [
        _(
            "{change} on {models}",
            change=metric_change(shift.metric.key, shift.ratio),
            models=_models(update.shifted(shift)),
        )
        for shift in update.shifts
    ]
    changes = enumerated(phrases)
    return changes if update.is_alone else _("{changes}, no other known change", changes=changes)


def _models(series: Sequence[SeriesChange]) -> str:
    names = list(dict.fromkeys(change.series.snapshot.model for change in series))
    return names[0] if len(names) == 1 else plural(len(names), noun("model"))
