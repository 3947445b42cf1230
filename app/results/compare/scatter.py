"""How much runs of one configuration differ on a machine, from the stored history.

A history consists of groups: runs of one configuration with one prompt on the same hardware. Disturbed runs are left
out, and a group is split where its level shifted, since a shift is no scatter.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from sqlmodel import Session

from app.core.i18n import _
from app.core.samples import Workload
from app.db.database import cached_query
from app.db.measurements import measured_points
from app.db.tables import Run
from app.metrics import HEADLINE_METRICS, metrics, preferred
from app.metrics.base import Source
from app.results.compare.eligibility import refusal_reason_lengths
from app.results.compare.soundness import distinct_reasons, unsound_reasons
from app.results.history.changepoint import MIN_RUNS, change_points
from app.results.run_history import HistoryScope, PastValue, past_runs, past_values
from app.results.token_counts import answer_lengths
from app.stats.runs import RunMedian, RunScatter, run_median, run_scatter
from app.stats.verdict import SAME_WITHIN, Ratio, Result, Verdict, judge, overall

Groups = Sequence[Sequence[int]]
"""Groups of run ids, each in order of time."""


class Scatters:
    """The histories of some machines and suites at some points, and the values of `run_ids`."""

    def __init__(
        self,
        session: Session,
        histories: Collection[HistoryScope],
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
        self, scope: HistoryScope, point: Workload, key: str, source: Source, sides: Sequence[Mapping[int, RunMedian]]
    ) -> RunScatter:
        """Returns how much runs of one configuration differ, for one metric at one point.

        `sides` holds the ids of the compared runs of each side. The differences within a side are part of the history,
        those between the sides are not.

        A machine without a history uses that of others when they scatter more than is assumed; that others scatter less
        says nothing about this one.
        """
        at = (point.key, key, source)
        scatter = _scatter(self._groups[scope], self._medians.get(at, {}), key, sides)
        if not scatter.runs:
            groups, medians = self._elsewhere
            everywhere = groups[scope._replace(machine_id=None)]
            borrowed = _scatter(everywhere, medians.get(at, {}), key, sides, is_elsewhere=True)
            if borrowed.between_variance > scatter.between_variance:
                return borrowed
        return scatter

    @cached_property
    def _elsewhere(self) -> tuple[Mapping[HistoryScope, Groups], "Medians"]:
        """The histories of the same suites on all machines; read only when a machine has none."""
        groups = run_groups(self._session, frozenset(scope._replace(machine_id=None) for scope in self._histories))
        return groups, _medians(self._values(groups))

    def _values(self, groups: Mapping[HistoryScope, Groups], run_ids: Collection[int] = ()) -> list[PastValue]:
        grouped = {run_id for of_scope in groups.values() for group in of_scope for run_id in group}
        return past_values(self._session, frozenset(grouped.union(run_ids)), self._keys, self._point_keys)


Medians = Mapping[tuple[str, str, Source], Mapping[int, RunMedian]]
"""Medians by point key, metric and source, then by run id."""


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
    """Returns a run's median in the form that the statistics between runs need."""
    return run_median(
        value.value,
        value.standard_deviation,
        value.minimum,
        value.maximum,
        value.sample_count,
        Workload.from_key(value.point_key).concurrency,
    )


@cached_query(maxsize=4)
def run_groups(session: Session, histories: frozenset[HistoryScope]) -> Mapping[HistoryScope, Groups]:
    """Returns the runs of each history in groups: only sound runs, and only groups of at least two."""
    runs = past_runs(session, histories)
    by_run: dict[int, dict[tuple[str, Source], PastValue]] = {}
    for value in past_values(session, frozenset(run.run_id for run in runs), HEADLINE_METRICS):
        by_run.setdefault(value.run_id, {})[value.metric, value.source] = value
    groups: dict[HistoryScope, dict[tuple[int | None, str, str], list[int]]] = {}
    for run in runs:
        if not unsound_reasons(run.evidence, _variation(by_run.get(run.run_id, {}))):
            of_scope = run.scope if run.scope in histories else run.scope._replace(machine_id=None)
            groups.setdefault(of_scope, {}).setdefault(run.group, []).append(run.run_id)
    return {
        scope: [
            segment
            for group in groups.get(scope, {}).values()
            for segment in _without_shifts([(run_id, by_run.get(run_id, {})) for run_id in group])
            if len(segment) > 1
        ]
        for scope in histories
    }


def _variation(values: Mapping[tuple[str, Source], PastValue]) -> dict[str, float | None]:
    """Returns the variation of the repetitions by metric; the server's value is used only without one of the client."""
    variation: dict[str, float | None] = {}
    for (metric, source), value in values.items():
        if value.standard_deviation is not None and (source == "client" or metric not in variation):
            variation[metric] = value.standard_deviation / value.value
    return variation


def _without_shifts(group: Sequence[tuple[int, Mapping[tuple[str, Source], PastValue]]]) -> list[list[int]]:
    """Returns groups split where one of their metrics shifted."""
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


class Judged(NamedTuple):
    """The facts about a run that a verdict needs."""

    run_id: int
    public_id: str
    scope: HistoryScope
    main_point_key: str

    @classmethod
    def of(cls, run: Run) -> "Judged":
        assert run.id is not None
        return cls(run.id, run.public_id, HistoryScope(run.machine_id, run.suite_key), run.main_point_key)


class Values(NamedTuple):
    """The values of one metric of both runs."""

    source: Source
    base: float
    other: float


@dataclass(frozen=True)
class MainVerdict:
    """The verdict over the headline metrics, corrected for their number."""

    verdict: Verdict | None
    """The verdict; None when the runs cannot be compared."""
    ratios: Mapping[str, Ratio]
    """The ratios to the base by metric; only metrics that both have from one source."""
    unsound: tuple[str, ...] = ()
    """What disturbed one of the two, so that the verdict is inconclusive whatever the ratios are."""
    scatters: Mapping[str, RunScatter] = field(default_factory=dict)
    """How much runs of one configuration differ, by metric."""
    values: Mapping[str, Values] = field(default_factory=dict)
    """The values that the ratios are of, by metric."""
    reason: str = ""
    """Why there is no verdict."""


def same_within(session: Session) -> float:
    """The person's setting: an interval within this share of 1 counts as the same."""
    share: float = session.info.get("same_within", SAME_WITHIN)
    return share


def main_verdicts(
    session: Session, pairs: Collection[tuple[Judged, Judged]], unsound: Mapping[str, tuple[str, ...]]
) -> dict[tuple[int, int], MainVerdict]:
    """Returns the verdicts on pairs of base and compared run by their run ids: the same as `compare` gives, in a
    handful of queries however many pairs. `unsound` holds what disturbed these runs, by public id."""
    if not pairs:
        return {}
    runs = {run for pair in pairs for run in pair}
    run_ids = frozenset(run.run_id for run in runs)
    points = _common_points(session, pairs)
    at_points = frozenset(filter(None, points.values()))
    scatters = Scatters(session, {run.scope for run in runs}, HEADLINE_METRICS, at_points, run_ids)
    lengths = answer_lengths(session, run_ids)
    values = {(value.run_id, value.point_key, value.metric, value.source): value for value in scatters.values}
    verdicts = {}
    for base, candidate in pairs:
        point = points[base.run_id, candidate.run_id]
        why_not = refusal_reason_lengths(*(lengths.get((run.run_id, point)) for run in (base, candidate)))
        results: dict[str, tuple[Result, Result]] = {}
        compared: dict[str, Values] = {}
        for key in HEADLINE_METRICS if not why_not else ():
            if pair := _same_source(values, (base, candidate), point, key):
                results[key] = _results(scatters, (base, candidate), key, pair)
                compared[key] = Values(pair[0].source, pair[0].value, pair[1].value)
        reasons = distinct_reasons(reason for run in (base, candidate) for reason in unsound.get(run.public_id, ()))
        verdict = conclude(results, reasons, same_within(session))
        reason = "" if verdict.verdict else why_not or _("They have no values in common.")
        verdicts[base.run_id, candidate.run_id] = replace(verdict, values=compared, reason=reason)
    return verdicts


def _common_points(session: Session, pairs: Collection[tuple[Judged, Judged]]) -> dict[tuple[int, int], str]:
    """Returns the key of the point at which each pair is judged: the base's main point, or the first that both
    measured; empty when there is none."""
    unlike = {run.run_id for pair in pairs if len({run.main_point_key for run in pair}) > 1 for run in pair}
    measured = measured_points(session, unlike, HEADLINE_METRICS)
    points: dict[tuple[int, int], str] = {}
    for base, candidate in pairs:
        point = base.main_point_key
        if candidate.main_point_key != point:
            common = [key for key in measured.get(base.run_id, ()) if key in measured.get(candidate.run_id, ())]
            point = point if point in common else next(iter(common), "")
        points[base.run_id, candidate.run_id] = point
    return points


def conclude(results: Mapping[str, tuple[Result, Result]], unsound: tuple[str, ...], limit: float) -> MainVerdict:
    """Judges some metrics of the base and the compared result together; `limit` as in `same_within`."""
    ratios = judge(results, {key: metrics()[key].better for key in results}, limit)
    if unsound:
        ratios = {
            key: replace(ratio, verdict=Verdict.INCONCLUSIVE, additional_runs_needed=None)
            for key, ratio in ratios.items()
        }
    verdict = overall(ratio.verdict for ratio in ratios.values())
    return MainVerdict(verdict, ratios, unsound, {key: base.scatter for key, (base, _other) in results.items()})


def _same_source(
    values: Mapping[tuple[int, str, str, Source], PastValue], pair: tuple[Judged, Judged], point: str, key: str
) -> tuple[PastValue, PastValue] | None:
    """Returns the preferred source that both have."""
    for source in preferred(key):
        base, candidate = (values.get((run.run_id, point, key, source)) for run in pair)
        if base and candidate:
            return base, candidate
    return None


def _results(
    scatters: Scatters, pair: tuple[Judged, Judged], key: str, values: tuple[PastValue, PastValue]
) -> tuple[Result, Result]:
    medians: list[RunMedian] = [median_of(value) for value in values]
    sides = [{run.run_id: median} for run, median in zip(pair, medians, strict=True)]
    point, source = Workload.from_key(values[0].point_key), values[0].source
    of_scope = {scope: scatters.of(scope, point, key, source, sides) for scope in {run.scope for run in pair}}
    base, candidate = (Result([median], of_scope[run.scope]) for run, median in zip(pair, medians, strict=True))
    return base, candidate
