"""Makes the rows of a leaderboard from all runs of one prompt."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

from sqlmodel import Session

from app.core.arrays import Places, np
from app.core.config_settings import remote_host
from app.core.configuration import distinguishing_settings, model_names
from app.db.configs import ConfigDescription, describe
from app.db.database import cached_query
from app.metrics.base import Metric
from app.results import hardware
from app.results.history.table import HistoryTable, merged, microseconds
from app.results.history.update_scatter import run_medians
from app.results.history.updates import Update, updates
from app.results.leaderboard.rows import BestConfiguration, BuildChange, BuildResult, LatestRun, Row
from app.results.leaderboard.view import LeaderboardView
from app.results.series import series_index
from app.results.wrong_runs import wrong_in_history
from app.stats.runs import RunScatter, run_scatter
from app.stats.student import CONFIDENCE
from app.stats.verdict import Ratio, Result, Verdict, judge

YEAR = timedelta(days=365)
STEPS_OF_YEAR = 52
"""A trend has at most this many values: medians of weeks."""
MAX_RUNS = 50
"""The most runs of a configuration on which a verdict rests: the newest."""
MAX_HISTORY_RUNS = 200
"""The newest runs of a machine from which the scatter between its runs is estimated."""


@cached_query(maxsize=1)
def _names(session: Session) -> Mapping[int, str]:
    """Returns the name of each configuration's model, in full where it has namesakes."""
    configs = describe(session)
    return dict(zip(configs, model_names([config.snapshot for config in configs.values()]), strict=True))


_Key = tuple[str, str, int, str]
"""Model, quantization, machine, and the engine where rows are grouped by it."""


class _Segment(NamedTuple):
    """The runs of one configuration on one hardware, in order of time."""

    row: int
    config_id: int
    places: Places
    value: float
    """The median of the metric."""
    is_on_todays_hardware: bool
    """Whether its server's hardware has not changed since."""


class RowBuilder:
    """Makes the rows of the runs of one prompt."""

    def __init__(self, session: Session, view: LeaderboardView, points: HistoryTable, moment: datetime) -> None:
        self._view, self._moment = view, moment
        self._configs: Mapping[int, ConfigDescription] = describe(session)
        self._names = _names(session)
        self._index = series_index(session)
        self._hardware = hardware.timelines(session).all_changes()
        self.updates = updates(points, view.metrics, self._index, self._hardware) if len(points) else []
        self._changes = _build_changes(self.updates, view.metric)
        recent = [places[-MAX_RUNS:] for places in points.segments(self._hardware)]
        self.wrong = list(wrong_in_history(session, points.take(merged(recent)), self._hardware)) if recent else []
        is_counted = points.is_known(view.place) & (points.values(view.place) > 0)
        is_counted[points.with_public_ids(self.wrong)] = False
        self._points = points.take(np.flatnonzero(is_counted))
        self._scatters: dict[int, RunScatter] = {}

    @cached_property
    def _keys(self) -> dict[int, _Key]:
        """The row of each configuration that was measured."""
        return {config_id: self._key(config_id) for config_id in sorted(self._points.used_configs)}

    def _key(self, config_id: int) -> _Key:
        config = self._configs[config_id]
        engine = config.snapshot.engine if self._view.group == "engine" else ""
        return self._names[config_id], config.snapshot.quantization or "", config.machine_id, engine

    @cached_property
    def _segments(self) -> list[_Segment]:
        """All configurations on each hardware."""
        numbers = {key: number for number, key in enumerate(dict.fromkeys(self._keys.values()))}
        servers, epochs = self._points.server_ids, self._points.hardware_epoch(self._hardware)
        todays = {server: epochs[servers == server].max() for server in np.unique(servers).tolist()}
        segments = []
        for places in self._points.segments(self._hardware):
            is_todays = bool(epochs[places[0]] == todays[int(servers[places[0]])])
            config_id = int(self._points.config_ids[places[0]])
            value = float(np.median(self._points.values(self._view.place)[places]))
            segments.append(_Segment(numbers[self._keys[config_id]], config_id, places, value, is_todays))
        return segments

    def rows(self) -> list[Row]:
        """Returns the rows in no particular order."""
        by_row: dict[int, list[_Segment]] = {}
        for segment in self._segments:
            by_row.setdefault(segment.row, []).append(segment)
        keys = list(dict.fromkeys(self._keys.values()))
        looks = sum(len(segments) - 1 for segments in by_row.values())
        return [self._row(keys[number], segments, looks) for number, segments in sorted(by_row.items())]

    def _row(self, key: _Key, segments: Sequence[_Segment], looks: int) -> Row:
        """Makes a row; `looks` is the number of comparisons with the best of each row, one of which is worse by chance
        the more there are."""
        name, quantization, machine_id, _engine = key
        best, newest = self._best_and_newest(segments)
        change = self._changes.get(self._index.by_config[newest.config_id].id)
        places = np.sort(np.concatenate([segment.places for segment in segments]))
        config = self._configs[best.config_id]
        return Row(
            model=name,
            stored_name=config.snapshot.model,
            quantization=quantization,
            machine_id=machine_id,
            machine=config.machine,
            machine_slug=config.machine_slug,
            engine=config.snapshot.engine,
            engine_version=config.snapshot.engine_version,
            best=self._best(best),
            particulars=self._particulars(best, segments),
            latest=self._latest(segments, change, looks),
            change=change,
            trend=self._trend(places),
            builds=self._builds(segments),
            config_ids=list(dict.fromkeys(segment.config_id for segment in segments)),
            runs=len(places),
            remote_host=remote_host(config.snapshot.settings),
        )

    def _best_and_newest(self, segments: Sequence[_Segment]) -> tuple[_Segment, _Segment]:
        choose = max if self._view.metric.better == "higher" else min
        best = choose(segments, key=lambda segment: segment.value)
        return best, max(segments, key=lambda segment: int(segment.places[-1]))

    def _best(self, segment: _Segment) -> BestConfiguration:
        values = self._points.values(self._view.place)[segment.places]
        distances = np.abs(values - segment.value)
        nearest = segment.places[np.flatnonzero(distances == distances.min())[-1]]
        figures = {
            metric.key: _median(self._points.values(place)[segment.places])
            for place, metric in enumerate(self._view.metrics)
        }
        return BestConfiguration(
            config_id=segment.config_id,
            value=segment.value,
            public_id=self._points.public_id(int(nearest)),
            runs=len(segment.places),
            figures=figures,
            result=self._result(segment),
        )

    def _particulars(self, best: _Segment, segments: Sequence[_Segment]) -> str:
        snapshots = {segment.config_id: self._configs[segment.config_id].snapshot for segment in segments}
        unversioned = {key: replace(snapshot, engine="", engine_version=None) for key, snapshot in snapshots.items()}
        return " · ".join(distinguishing_settings(unversioned)[best.config_id])

    def _latest(self, segments: Sequence[_Segment], change: BuildChange | None, looks: int) -> LatestRun:
        best, newest = self._best_and_newest(segments)
        place = int(newest.places[-1])
        is_worse_since_update = change is not None and change.is_certain and change.change.is_worse
        return LatestRun(
            public_id=self._points.public_id(place),
            at=self._points.started_at(place),
            config_id=newest.config_id,
            value=float(self._points.values(self._view.place)[place]),
            against_best=None if newest is best else self._ratio(best, newest),
            is_worse=self._is_worse(segments, looks)
            and (is_worse_since_update or all(map(partial(self._is_worse, looks=looks), self._without_one(segments)))),
        )

    def _ratio(self, best: _Segment, newest: _Segment) -> Ratio:
        pair = {self._view.by: (self._result(best), self._result(newest))}
        return judge(pair, {self._view.by: self._view.metric.better})[self._view.by]

    def _is_worse(self, segments: Sequence[_Segment], looks: int) -> bool:
        """Whether the newest of some configurations is certainly worse than the best of them."""
        best, newest = self._best_and_newest(segments)
        if best is newest:
            return False
        ratio = self._ratio(best, newest)
        return ratio.verdict is Verdict.WORSE and ratio.p_value < (1 - CONFIDENCE) / looks

    def _without_one(self, segments: Sequence[_Segment]) -> Iterator[list[_Segment]]:
        """Returns the configurations without the run that speaks most for the best one, and without the newest run: one
        wrong run decides nothing."""
        best, newest = self._best_and_newest(segments)
        values = self._points.values(self._view.place)
        choose = np.argmax if self._view.metric.better == "higher" else np.argmin
        for segment, left_out in ((best, int(choose(values[best.places]))), (newest, len(newest.places) - 1)):
            places = np.delete(segment.places, left_out)
            others = [other for other in segments if other is not segment]
            if len(places):
                others.append(segment._replace(places=places, value=float(np.median(values[places]))))
            yield others

    def _trend(self, places: Places) -> list[tuple[float, float]]:
        start = microseconds(self._moment - YEAR)
        share = (self._points.at_us[places] - start) / (YEAR / timedelta(microseconds=1))
        inside = places[(share >= 0) & (share <= 1)]
        share = share[(share >= 0) & (share <= 1)]
        values = self._points.values(self._view.place)[inside]
        if len(inside) > STEPS_OF_YEAR:
            steps = (share * STEPS_OF_YEAR).astype(int)
            starts = [0, *(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(steps)]
            return [(float(np.median(share[a:b])), float(np.median(values[a:b]))) for a, b in pairwise(starts)]
        return list(zip(share.tolist(), values.tolist(), strict=True))

    def _builds(self, segments: Sequence[_Segment]) -> list[BuildResult]:
        series: dict[int, dict[str, list[_Segment]]] = {}
        of_today = [segment for segment in segments if segment.is_on_todays_hardware]
        for segment in sorted(of_today, key=lambda segment: int(segment.places[0])):
            if version := self._index.version(segment.config_id):
                of_series = series.setdefault(self._index.by_config[segment.config_id].id, {})
                of_series.setdefault(version, []).append(segment)
        return [
            self._build(version, np.sort(np.concatenate([segment.places for segment in of_version])))
            for version, of_version in max(series.values(), key=len, default={}).items()
        ]

    def _build(self, version: str, places: Places) -> BuildResult:
        value = float(np.median(self._points.values(self._view.place)[places]))
        at = self._points.started_at(int(places[0]))
        return BuildResult(version, at, value, self._points.public_id(int(places[-1])), len(places))

    # --- statistics ---

    def _result(self, segment: _Segment) -> Result:
        medians = list(run_medians(self._points, segment.places[-MAX_RUNS:], self._view.place))
        return Result(medians, self._scatter(self._configs[segment.config_id].machine_id))

    def _scatter(self, machine_id: int) -> RunScatter:
        """Returns how much runs of one configuration differ on a machine."""
        if machine_id not in self._scatters:
            near = [segment for segment in self._segments if self._configs[segment.config_id].machine_id == machine_id]
            groups, runs = [], 0
            for segment in sorted(near, key=lambda segment: -int(segment.places[-1])):
                if runs < MAX_HISTORY_RUNS:
                    groups.append(list(run_medians(self._points, segment.places[-MAX_RUNS:], self._view.place)))
                    runs += len(groups[-1])
            self._scatters[machine_id] = run_scatter(groups, self._view.metric.assumed_run_deviation)
        return self._scatters[machine_id]


def _median(values: Any) -> float | None:
    present = values[~np.isnan(values)]
    return float(np.median(present)) if len(present) else None


def _build_changes(all_updates: Iterable[Update], metric: Metric) -> dict[int, BuildChange]:
    """Returns what the newest update did to each series that had any, by its id."""
    changes: dict[int, BuildChange] = {}
    for update, series_change in sorted(_pairs(all_updates), key=lambda pair: pair[1].at):
        change = series_change.changes.get(metric.key)
        if change is None:
            changes.pop(series_change.series.id, None)  # an earlier change is not that of the newest update
            continue
        shift = next((shift for shift in update.shifts if shift.metric.key == metric.key), None)
        shifted = {shifted_change.series.id for shifted_change in update.shifted(shift)} if shift else set()
        changes[series_change.series.id] = BuildChange(
            old_version=update.old_version,
            new_version=update.new_version,
            at=series_change.at,
            before=series_change.before,
            after=series_change.after,
            change=change,
            is_certain=series_change.series.id in shifted,
        )
    return changes


def _pairs(all_updates: Iterable[Update]) -> Iterator[tuple[Update, Any]]:
    return ((update, series_change) for update in all_updates for series_change in update.series)
