"""How much runs of one configuration differ on a machine, from this notebook's own history.

A history is made of groups: runs of one configuration with one prompt on the same hardware. Runs that were disturbed
are left out, and a group is split where its level shifted: what happened there is no scatter.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from sqlmodel import Session

from app.compare.soundness import unsound_reasons
from app.kept import kept
from app.metrics import TRIPLE, metrics
from app.metrics.base import Source
from app.samples import Point
from app.stats.runs import RunMedian, RunScatter, run_median, run_scatter
from app.store.run_history import PastValue, Series, past_runs, past_values
from app.store.subjects import MOST

Groups = Sequence[Sequence[int]]
"""Of run ids, each group in order of time."""


class Scatters:
    """The histories of some machines and suites, at some points."""

    def __init__(
        self, session: Session, histories: Collection[Series], keys: Sequence[str], point_keys: Collection[str]
    ) -> None:
        groups = dict(run_groups(session, frozenset(histories)))
        # a machine whose only history are the runs that are compared borrows that of all others
        short = {series._replace(machine_id=None) for series in histories if sum(map(len, groups[series])) <= MOST}
        self._groups: Mapping[Series, Groups] = {**groups, **run_groups(session, frozenset(short))}
        run_ids = frozenset(run_id for of_series in self._groups.values() for group in of_series for run_id in group)
        self._medians: dict[tuple[str, str, Source], dict[int, RunMedian]] = {}
        for value in past_values(session, run_ids, tuple(keys), frozenset(point_keys)):
            medians = self._medians.setdefault((value.point_key, value.metric, value.source), {})
            medians[value.run_id] = median_of(value)

    def of(
        self, series: Series, point: Point, key: str, source: Source, sides: Sequence[Mapping[int, RunMedian]]
    ) -> RunScatter:
        """`sides`: the runs that are compared, by id, those of each side together. Their differences within a side
        are part of the history, those between the sides are not.

        A machine without a history borrows that of others where they are less steady than is assumed: that others are
        steadier says nothing about this one.
        """
        medians = self._medians.get((point.key, key, source), {})
        scatter = self._scatter(series, medians, key, sides)
        if not scatter.runs and (elsewhere := series._replace(machine_id=None)) in self._groups:
            borrowed = self._scatter(elsewhere, medians, key, sides)
            if borrowed.between_variance > scatter.between_variance:
                return borrowed
        return scatter

    def _scatter(
        self, series: Series, medians: Mapping[int, RunMedian], key: str, sides: Sequence[Mapping[int, RunMedian]]
    ) -> RunScatter:
        compared = {run_id for side in sides for run_id in side}
        groups = [
            [medians[run_id] for run_id in group if run_id in medians and run_id not in compared]
            for group in self._groups[series]
        ]
        return run_scatter(
            [*groups, *(list(side.values()) for side in sides)],
            metrics()[key].assumed_run_deviation,
            compared=[run for side in sides if len(side) == 1 for run in side.values()],
            is_elsewhere=series.machine_id is None,
        )


def median_of(value: PastValue) -> RunMedian:
    return run_median(
        value.value,
        value.standard_deviation,
        value.minimum,
        value.maximum,
        value.sample_count,
        Point.from_key(value.point_key).concurrency,
    )


@kept(4)
def run_groups(session: Session, histories: frozenset[Series]) -> Mapping[Series, Groups]:
    """Of sound runs; only groups that have at least two."""
    runs = past_runs(session, histories)
    by_run: dict[int, dict[tuple[str, Source], PastValue]] = {}
    for value in past_values(session, frozenset(run.run_id for run in runs), TRIPLE):
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
    from app.compare.changepoint import MIN_RUNS, change_points  # loads numpy: not at start

    if len(group) < 2 * MIN_RUNS:
        return [[run_id for run_id, _ in group]]
    cuts = {0, len(group)}
    for key in TRIPLE:
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
