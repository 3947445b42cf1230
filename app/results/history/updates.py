"""Engine updates: whether a new version changed the speed of what was measured before and after it.

An update is a mark on each series that was measured with both versions, next to each other in time on one hardware. A
series is tested at that known place, by the medians of its runs on both sides and the scatter between runs of its
machine. The same update usually reaches several series, so a common change is tested as well: the median of their
changes, so that one wrong run decides nothing. Each of both tests may raise a false alarm at half of FALSE_ALARMS of
the updates, corrected by Bonferroni for the metrics and, among single series, for their number.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from app.core.arrays import Places, np
from app.core.i18n import _, enumerated, noun
from app.core.units import plural
from app.metrics.base import Metric
from app.results.compare.words import metric_change
from app.results.hardware import HardwareChange
from app.results.history.changepoint import FALSE_ALARMS, MIN_CHANGE
from app.results.history.table import HistoryTable
from app.results.series import Series, SeriesIndex
from app.stats.runs import RunMedian, RunScatter, median_variance, run_median, run_scatter
from app.stats.student import t_quantile, two_sided_p

MAX_RUNS = 10
"""The most runs of a series on either side of an update: what is further away says little about it."""
MIN_RUNS = 2
"""The fewest runs on both sides for a change of one series alone; a lone run may be wrong."""
MAX_HISTORY_RUNS = 200
"""The newest runs of each machine and prompt from which their scatter is estimated."""


@dataclass(frozen=True)
class Change:
    """A relative change of one metric."""

    metric: Metric
    log_ratio: float
    """The logarithm of after over before."""
    error: float
    """The standard error of the logarithm."""
    degrees_of_freedom: float

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
    blocks_by_segment = [
        _blocks(points, places, index)
        for places in points.segments(hardware or {}, groups=index.ids(points.config_ids))
    ]
    scatters = _Scatters(points, metrics, index, [block for blocks in blocks_by_segment for block in blocks])
    grouped: dict[tuple[int, int, str, str, str], list[SeriesChange]] = defaultdict(list)
    for blocks in blocks_by_segment:
        for before, after in pairwise(blocks):
            change = _series_change(points, metrics, index, scatters, before, after)
            machine_id, prompt = change.series.machine_id, points.prompt_code(int(after.places[0]))
            grouped[machine_id, prompt, change.series.snapshot.engine, before.version, after.version].append(change)
    all_updates = [_update(key[2:], _first_of_each(changes), metrics) for key, changes in grouped.items()]
    return sorted(all_updates, key=lambda update: update.at)


def _first_of_each(changes: Sequence[SeriesChange]) -> list[SeriesChange]:
    """Returns the first change of each series, in order of time: a series that goes back and forth between two versions
    has many."""
    first: dict[int, SeriesChange] = {}
    for change in sorted(changes, key=lambda change: change.at):
        first.setdefault(change.series.id, change)
    return list(first.values())


class _Block(NamedTuple):
    """Consecutive runs of a series with one version."""

    version: str
    places: Places


def _blocks(points: HistoryTable, places: Places, index: SeriesIndex) -> list[_Block]:
    config_ids = points.config_ids[places]
    starts = [0, *(np.flatnonzero(config_ids[1:] != config_ids[:-1]) + 1).tolist(), len(places)]
    blocks: list[_Block] = []
    for start, end in pairwise(starts):
        version = index.version(int(config_ids[start]))
        if version is None:
            continue
        if blocks and blocks[-1].version == version:
            blocks[-1] = _Block(version, np.concatenate([blocks[-1].places, places[start:end]]))
        else:
            blocks.append(_Block(version, places[start:end]))
    return blocks


class _Scatters:
    """How much runs of one configuration differ, by machine, prompt and metric; each is computed when first asked
    for."""

    def __init__(
        self, points: HistoryTable, metrics: Sequence[Metric], index: SeriesIndex, blocks: Iterable[_Block]
    ) -> None:
        self._points, self._metrics, self._index = points, metrics, index
        self._blocks: dict[tuple[int, int], list[_Block]] = defaultdict(list)
        for block in blocks:
            self._blocks[self._scope(block)].append(block)
        self._computed: dict[tuple[tuple[int, int], int], RunScatter] = {}

    def of(self, block: _Block, place: int) -> RunScatter:
        """Returns the scatter of the `place`-th metric on the machine and at the prompt of a block."""
        scope = self._scope(block)
        if (scope, place) not in self._computed:
            groups, runs = [], 0
            for near in sorted(self._blocks[scope], key=lambda near: -int(near.places[-1])):
                if runs < MAX_HISTORY_RUNS:
                    groups.append(list(run_medians(self._points, near.places[-MAX_RUNS:], place)))
                    runs += len(groups[-1])
            self._computed[scope, place] = run_scatter(groups, self._metrics[place].assumed_run_deviation)
        return self._computed[scope, place]

    def _scope(self, block: _Block) -> tuple[int, int]:
        first = int(block.places[0])
        return self._index.by_config[int(self._points.config_ids[first])].machine_id, self._points.prompt_code(first)


def run_medians(points: HistoryTable, places: Places, metric: int) -> Iterator[RunMedian]:
    """Returns the medians of the runs at some places that have a value of the `metric`-th metric."""
    columns = (column[places].tolist() for column in points.readings[3 * metric : 3 * metric + 3])
    for value, deviation, count in zip(*columns, strict=True):
        if value > 0:
            repetitions = 1 if math.isnan(count) else max(1, int(count))
            yield run_median(value, None if math.isnan(deviation) else deviation, None, None, repetitions)


def _series_change(
    points: HistoryTable,
    metrics: Sequence[Metric],
    index: SeriesIndex,
    scatters: _Scatters,
    before: _Block,
    after: _Block,
) -> SeriesChange:
    changes = {}
    for place, metric in enumerate(metrics):
        old = list(run_medians(points, before.places[-MAX_RUNS:], place))
        new = list(run_medians(points, after.places[:MAX_RUNS], place))
        if old and new:
            changes[metric.key] = _change(metric, old, new, scatters.of(after, place))
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


def _change(metric: Metric, old: Sequence[RunMedian], new: Sequence[RunMedian], scatter: RunScatter) -> Change:
    log_ratio = median(run.log_value for run in new) - median(run.log_value for run in old)
    variance = sum(
        fmean(scatter.variance_of_median(run) for run in side) * median_variance(len(side)) for side in (old, new)
    )
    return Change(metric, log_ratio, math.sqrt(variance), scatter.degrees_of_freedom)


def _update(key: tuple[str, str, str], series: Sequence[SeriesChange], metrics: Sequence[Metric]) -> Update:
    engine, old_version, new_version = key
    shifts = [shift for metric in metrics if (shift := _shift(metric, series, len(metrics)))]
    return Update(
        machine_id=series[0].series.machine_id,
        machine=series[0].series.machine,
        engine=engine,
        old_version=old_version,
        new_version=new_version,
        at=series[0].at,
        series=series,
        shifts=sorted(shifts, key=lambda shift: -abs(shift.log_ratio)),
    )


def _shift(metric: Metric, series: Sequence[SeriesChange], looks: int) -> Change | None:
    """Returns the change of a metric that an update certainly made; None when there is none."""
    measured = [series_change for series_change in series if metric.key in series_change.changes]
    chance = FALSE_ALARMS / 2 / looks
    if len(measured) > 1 and _is_certain(common := _common(metric, measured), chance):
        return common
    repeated = [change for change in measured if min(change.runs_before, change.runs_after) >= MIN_RUNS]
    certain = [change for change in repeated if _is_certain(change.changes[metric.key], chance / len(repeated))]
    return _common(metric, certain) if certain else None


def _is_certain(change: Change, chance: float) -> bool:
    return change.p_value < chance and abs(change.log_ratio) > MIN_CHANGE


def _common(metric: Metric, series: Sequence[SeriesChange]) -> Change:
    """Returns the median change of several series. All rest on one scatter, so they share its degrees of freedom."""
    changes = [series_change.changes[metric.key] for series_change in series]
    variance = fmean(change.error**2 for change in changes) * median_variance(len(changes))
    freedom = min(change.degrees_of_freedom for change in changes)
    return Change(metric, median(change.log_ratio for change in changes), math.sqrt(variance), freedom)


def latest_changes(all_updates: Iterable[Update]) -> dict[int, SeriesChange]:
    """Returns what the newest update did to each series that had any, by its id."""
    changes = [series_change for update in all_updates for series_change in update.series]
    return {change.series.id: change for change in sorted(changes, key=lambda change: change.at)}


def update_words(update: Update, engine_titles: Mapping[str, str]) -> str:
    """Returns an update with its shifts, such as "llama.cpp b5200 → b5600: decode 7.7 % slower on 3 models"."""
    engine = engine_titles.get(update.engine, update.engine)
    versions = f"{engine} {update.old_version} → {update.new_version}"
    if not update.shifts:
        return versions
    moves = [
        _(
            "{change} on {models}",
            change=metric_change(shift.metric.key, shift.ratio),
            models=_models(update.shifted(shift)),
        )
        for shift in update.shifts
    ]
    return _("{versions}: {changes}", versions=versions, changes=enumerated(moves))


def _models(series: Sequence[SeriesChange]) -> str:
    names = list(dict.fromkeys(change.series.snapshot.model for change in series))
    return names[0] if len(names) == 1 else plural(len(names), noun("model"))
