"""How much runs of one configuration differ on a machine, from this notebook's own history.

A history is made of groups: runs of one configuration with one prompt on the same hardware. Runs that were disturbed
are left out, and a group is split where its level shifted: what happened there is no scatter.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from sqlmodel import Session

from app.core.samples import Workload
from app.db.query_cache import cached_query
from app.metrics import HEADLINE_METRICS, metrics
from app.metrics.base import Source
from app.results.compare.soundness import unsound_reasons
from app.results.run_history import PastValue, Series, past_runs, past_values
from app.stats.runs import RunMedian, RunScatter, run_median, run_scatter

Groups = Sequence[Sequence[int]]
"""Of run ids, each group in order of time."""


class Scatters:
    """The histories of some machines and suites, at some points; and beside them the values of `run_ids`."""

    def __init__(
        self,
        session: Session,
        histories: Collection[Series],
        keys: Sequence[str],
        point_keys: Collection[str],
        run_ids: Collection[int] = (),
    ) -> None:
        self._session, self._keys, self._point_keys = session, tuple(keys), frozenset(point_keys)
        self._histories = frozenset(histories)
        self._groups = run_groups(session, self._histories)
        values = self._values(self._groups, run_ids)
        self._medians = _medians(values)
        self.values = [value for value in values if value.run_id in frozenset(run_ids)]

    def of(
        self, series: Series, point: Workload, key: str, source: Source, sides: Sequence[Mapping[int, RunMedian]]
    ) -> RunScatter:
        """How much runs of one configuration differ, for one metric at one point.

        `sides`: the runs that are compared, by id, those of each side together. Their differences within a side
        are part of the history, those between the sides are not.

        A machine without a history borrows that of others where they are less steady than is assumed: that others are
        steadier says nothing about this one.
        """
        at = (point.key, key, source)
        scatter = _scatter(self._groups[series], self._medians.get(at, {}), key, sides)
        if not scatter.runs:
            groups, medians = self._elsewhere
            everywhere = groups[series._replace(machine_id=None)]
            borrowed = _scatter(everywhere, medians.get(at, {}), key, sides, is_elsewhere=True)
            if borrowed.between_variance > scatter.between_variance:
                return borrowed
        return scatter

    @cached_property
    def _elsewhere(self) -> tuple[Mapping[Series, Groups], "Medians"]:
        """The histories of the same suites on all machines: asked only where one of these has none."""
        groups = run_groups(self._session, frozenset(series._replace(machine_id=None) for series in self._histories))
        return groups, _medians(self._values(groups))

    def _values(self, groups: Mapping[Series, Groups], run_ids: Collection[int] = ()) -> list[PastValue]:
        grouped = {run_id for of_series in groups.values() for group in of_series for run_id in group}
        return past_values(self._session, frozenset(grouped.union(run_ids)), self._keys, self._point_keys)


Medians = Mapping[tuple[str, str, Source], Mapping[int, RunMedian]]
"""By key of the point, metric and source; then by run."""


def _medians(values: Sequence[PastValue]) -> Medians:
    medians: dict[tuple[str, str, Source], dict[int, RunMedian]] = {}
    for value in values:
        medians.setdefault((value.point_key, value.metric, value.source), {})[value.run_id] = median_of(value)
    return medians


def _scatter(
    history: Groups,
    medians: Mapping[int, RunMedian],
    key: str,
    sides: Sequence[Mapping[int, RunMedian]],
    *,
    is_elsewhere: bool = False,
) -> RunScatter:
    compared = {run_id for side in sides for run_id in side}
    groups = [
        [medians[run_id] for run_id in group if run_id in medians and run_id not in compared] for group in history
    ]
    return run_scatter(
        [*groups, *(list(side.values()) for side in sides)],
        metrics()[key].assumed_run_deviation,
        compared=[run for side in sides if len(side) == 1 for run in side.values()],
        is_elsewhere=is_elsewhere,
    )


def median_of(value: PastValue) -> RunMedian:
    """A run's median as the statistics between runs need it."""
    return run_median(
        value.value,
        value.standard_deviation,
        value.minimum,
        value.maximum,
        value.sample_count,
        Workload.from_key(value.point_key).concurrency,
    )


@cached_query(maxsize=4)
def run_groups(session: Session, histories: frozenset[Series]) -> Mapping[Series, Groups]:
    """The runs of each history in groups: only sound runs, and only groups of at least two."""
    runs = past_runs(session, histories)
    by_run: dict[int, dict[tuple[str, Source], PastValue]] = {}
    for value in past_values(session, frozenset(run.run_id for run in runs), HEADLINE_METRICS):
        by_run.setdefault(value.run_id, {})[value.metric, value.source] = value
    groups: dict[Series, dict[tuple[int | None, str, str], list[int]]] = {}
    for run in runs:
        if not unsound_reasons(run.evidence, _variation(by_run.get(run.run_id, {}))):
            of_series = run.series if run.series in histories else run.series._replace(machine_id=None)
            groups.setdefault(of_series, {}).setdefault(run.group, []).append(run.run_id)
    return {
        series: [
            segment
            for group in groups.get(series, {}).values()
            for segment in _without_shifts([(run_id, by_run.get(run_id, {})) for run_id in group])
            if len(segment) > 1
        ]
        for series in histories
    }


def _variation(values: Mapping[tuple[str, Source], PastValue]) -> dict[str, float | None]:
    """Of the repetitions, by metric; of the server's figure only where the client has none."""
    variation: dict[str, float | None] = {}
    for (metric, source), value in values.items():
        if value.standard_deviation is not None and (source == "client" or metric not in variation):
            variation[metric] = value.standard_deviation / value.value
    return variation


def _without_shifts(group: Sequence[tuple[int, Mapping[tuple[str, Source], PastValue]]]) -> list[list[int]]:
    """Split where one of its metrics shifted."""
    from app.results.history.changepoint import MIN_RUNS, change_points  # loads numpy: not at start

    if len(group) < 2 * MIN_RUNS:
        return [[run_id for run_id, _ in group]]
    cuts = {0, len(group)}
    for key in HEADLINE_METRICS:
        places = [place for place, (_, values) in enumerate(group) if (key, "client") in values]
        runs = [median_of(group[place][1][key, "client"]) for place in places]
        if len(runs) >= 2 * MIN_RUNS:
            deviations = [
                None if run.repetition_variance is None else math.sqrt(run.repetition_variance) for run in runs
            ]
            points = change_points([run.log_value for run in runs], deviations, [run.repetitions for run in runs])
            cuts |= {places[point.index] for point in points}
    bounds = sorted(cuts)
    return [[run_id for run_id, _ in group[start:end]] for start, end in pairwise(bounds)]
