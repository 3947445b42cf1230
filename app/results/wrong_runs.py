"""Runs that stand off from the other runs of their configuration: "decode 45 % below the other runs".

The others are those before and after it in time: up to NEIGHBOURS on each side with the same machine, configuration,
version of the suite and hardware, finished and not hidden. `app.stats.outliers` decides. A run that two others agree
with is none: it is at another level, which `history.level_shifts` reports.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from statistics import median
from typing import Any, NamedTuple

from sqlalchemy import Text, and_, case, cast, func, literal, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from app.core.arrays import Floats, Places, np
from app.core.i18n import _, as_sentence, enumerated, joined, loads, lower_first, upper_first
from app.core.units import pair_parts
from app.db.database import cached_query
from app.db.measurements import EVIDENCE_PARTS, stored_parts
from app.db.tables import Measurement, Run
from app.metrics import HEADLINE_METRICS, metrics
from app.results.compare.soundness import unsound_reasons
from app.results.hardware import HardwareChange, device_changes, thaw_devices
from app.results.history.table import HistoryTable
from app.stats.outliers import MIN_OTHERS, outliers
from app.stats.runs import run_median

NEIGHBOURS = 10
MOST_MARKED = 200
"""The most runs that a history marks: the newest."""
_ROWS_AT_ONCE = 4096
_CALENDAR = tuple(moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))
_IN_WORDS = ("decode_tokens_per_s", "prefill_tokens_per_s", "ttft_ms")
"""The order in which a sentence names metrics."""


class WrongMetric(NamedTuple):
    """One metric of a run that is far from the other runs."""

    key: str
    value: float
    usual: float
    """The median of the other runs."""
    others: int
    """The number of other runs that the median is of."""

    @property
    def change(self) -> float:
        """The relative distance from the other runs: -0.45 is 45 % below."""
        return self.value / self.usual - 1

    @property
    def is_worse(self) -> bool:
        return (self.change < 0) is (metrics()[self.key].better == "higher")

    @property
    def words(self) -> str:
        """Returns metric and distance in the reader's language, such as "decode 45 % below"."""
        percent = f"{abs(100 * self.change):.0f}"
        title = lower_first(_(metrics()[self.key].title))
        if self.change < 0:
            return _("{metric} {percent} % below", metric=title, percent=percent)
        return _("{metric} {percent} % above", metric=title, percent=percent)


@dataclass(frozen=True)
class WrongRun:
    """A run that stands off from the other runs of its configuration."""

    public_id: str
    metrics: tuple[WrongMetric, ...]
    """Those that stand off, decode first."""
    causes: tuple[str, ...] = ()
    """What disturbed it, in clauses."""

    @property
    def is_worse(self) -> bool:
        """Whether any of its metrics is worse than usual; else it is better than is plausible."""
        return any(metric.is_worse for metric in self.metrics)

    @property
    def brief(self) -> str:
        """Returns its first metric in words, such as "decode 45 % below"."""
        return self.metrics[0].words

    @property
    def sentence(self) -> str:
        """Returns what stands off, such as "Decode 45 % below the other runs of this configuration." """
        what = enumerated(metric.words for metric in self.metrics)
        return upper_first(_("{what} the other runs of this configuration.", what=what))

    @property
    def details(self) -> str:
        """Returns the figures, and the likely cause where one is known."""
        pairs = [
            (metric, *pair_parts(metric.value, metric.usual, metrics()[metric.key].unit)) for metric in self.metrics
        ]
        figures = [
            _(
                "{metric}: {value} {unit}, where the median of {n} others is {usual}",
                metric=_(metrics()[metric.key].title),
                value=value,
                usual=usual,
                unit=unit,
                n=metric.others,
            )
            for metric, value, usual, unit in pairs
        ]
        return joined(*map(as_sentence, figures), self.cause)

    @property
    def cause(self) -> str:
        """Returns the likely cause in a sentence, or that none is known."""
        if self.causes:
            return _("Likely cause: {causes}.", causes=enumerated(self.causes))
        if self.is_worse:
            return _("No cause is known.")
        return _("No cause is known; what is too good to be true is doubtful, too.")


def wrong_runs(session: Session, public_ids: Collection[str]) -> Mapping[str, WrongRun]:
    """Returns those of some runs that stand off from the others, by public id; in one query."""
    return _wrong_runs(session, frozenset(public_ids))


@cached_query(maxsize=8)
def _wrong_runs(session: Session, public_ids: frozenset[str]) -> Mapping[str, WrongRun]:
    windows = _windows(session, public_ids) if public_ids else []
    standing_off: dict[str, list[WrongMetric]] = {}
    for key in _IN_WORDS:
        of_metric = [window for window in windows if window.metric == key and len(window.others) >= MIN_OTHERS]
        for public_id, metric in _of_metric(of_metric, key):
            standing_off.setdefault(public_id, []).append(metric)
    return {
        public_id: WrongRun(public_id, tuple(of_run), _causes(windows, public_id))
        for public_id, of_run in standing_off.items()
    }


def _causes(windows: Sequence["_Window"], public_id: str) -> tuple[str, ...]:
    """Returns what disturbed a run, as `unsound_by_run` does."""
    of_run = [window for window in windows if window.public_id == public_id]
    variation = {
        window.metric: window.own.standard_deviation / window.own.value
        for window in of_run
        if window.own.standard_deviation is not None
    }
    return unsound_reasons(of_run[0].evidence, variation)


class _Value(NamedTuple):
    """A measurement at the main point of a run."""

    source: str
    value: float
    standard_deviation: float | None
    sample_count: int

    @property
    def variance_of_median(self) -> float:
        run = run_median(self.value, self.standard_deviation, None, None, self.sample_count)
        return run.variance_of_median or 0.0


class _Window(NamedTuple):
    """A metric of a run and of its neighbours on the same hardware, of one source."""

    public_id: str
    metric: str
    own: _Value
    others: Sequence[_Value]
    evidence: Mapping[str, Any]
    """The parts of the run's evidence that show disturbances."""


def _of_metric(windows: Sequence[_Window], key: str) -> Iterator[tuple[str, WrongMetric]]:
    """Yields the runs that stand off in a metric, which all of the windows are of."""
    if not windows:
        return
    others = np.full((len(windows), max(len(window.others) for window in windows)), np.nan)
    for place, window in enumerate(windows):
        others[place, : len(window.others)] = [math.log(value.value) for value in window.others]
    own = np.log([window.own.value for window in windows])
    variances = np.array([median(value.variance_of_median for value in window.others) for window in windows])
    compared = outliers(own, others, metrics()[key].assumed_run_deviation, variances)
    for place in np.flatnonzero(compared.is_outlier).tolist():
        value, usual, count = windows[place].own.value, math.exp(compared.usual[place]), int(compared.others[place])
        yield windows[place].public_id, WrongMetric(key, value, usual, count)


# --- the neighbours of some runs -------------------------------------------------------------------------------------


def _windows(session: Session, public_ids: Collection[str]) -> list[_Window]:
    """Reads the values of each run and of its neighbours, in one query; one window for each run and metric."""
    target: Any = aliased(Run, name="target")
    hardware = cast(col(target.hardware), Text).label("hardware")
    facts = (target.id, target.public_id, target.machine_id, target.config_id, target.suite_sha256, hardware)
    bounds = _bound(target, is_before=True).label("low"), _bound(target, is_before=False).label("high")
    targets = (
        select(*facts, *bounds)
        .where(
            col(target.public_id).in_(public_ids),
            target.status == "done",
            col(target.hidden_at).is_(None),
            col(target.started_at).is_not(None),
            col(target.config_id).is_not(None),
        )
        .cte("targets")
        .prefix_with("MATERIALIZED")  # so that the bounds are found once for each run
    )
    is_shown = (
        (col(Measurement.run_id) == col(Run.id))
        & (col(Measurement.point_key) == col(Run.main_point_key))
        & col(Measurement.metric).in_(HEADLINE_METRICS)
        & col(Measurement.is_shown).is_(True)
        & (col(Measurement.value) > 0)
    )
    of_target, recorded = targets.c, cast(col(Run.hardware), Text)
    is_own = col(Run.id) == of_target.id
    columns: list[Any] = [
        *(of_target.public_id, Measurement.metric, is_own),
        *(case((recorded == of_target.hardware, ""), else_=text) for text in (of_target.hardware, recorded)),
        *(col(getattr(Measurement, name)) for name in _Value._fields),
        *(case((is_own, col(Run.evidence)[part])) for part in EVIDENCE_PARTS),
    ]
    query = (
        select(*columns)
        .join_from(targets, Run, _is_neighbour(of_target, Run))
        .join(Measurement, is_shown)
        .where(
            col(Run.started_at) >= of_target.low,
            col(Run.started_at) <= of_target.high,
        )
    )
    return _windows_of(session.execute(query))


def _windows_of(rows: Iterable[Any]) -> list[_Window]:
    is_same = cache(_is_same_hardware)
    own: list[tuple[tuple[str, str], _Value, Mapping[str, Any]]] = []
    others: dict[tuple[str, str], list[_Value]] = {}
    for public_id, metric, is_own, hardware, neighbour_hardware, *rest in rows:
        value = _Value._make(rest[: len(_Value._fields)])
        if is_own:
            own.append(((public_id, metric), value, stored_parts(rest[len(_Value._fields) :])))
        elif is_same(hardware, neighbour_hardware):
            others.setdefault((public_id, metric), []).append(value)
    return [
        _Window(*key, value, [other for other in others.get(key, ()) if other.source == value.source], evidence)
        for key, value, evidence in own
    ]


def _is_neighbour(target: Any, run: Any) -> Any:
    """Returns a condition: finished, not hidden, and of the same machine, configuration and version of the suite."""
    return and_(
        run.config_id == target.config_id,
        run.machine_id == target.machine_id,
        run.suite_sha256 == target.suite_sha256,
        run.status == "done",
        col(run.hidden_at).is_(None),
    )


def _bound(target: Any, *, is_before: bool) -> Any:
    """Returns when the farthest neighbour on one side of a run started; where there are fewer, one end of the
    calendar."""
    neighbour: Any = aliased(Run)
    started: Any = col(neighbour.started_at)
    query = select(started).where(
        _is_neighbour(target, neighbour),
        started < target.started_at if is_before else started > target.started_at,
    )
    order = started.desc() if is_before else started
    farthest = query.order_by(order).limit(1).offset(NEIGHBOURS - 1).scalar_subquery()
    return func.coalesce(farthest, literal(_CALENDAR[0 if is_before else 1], started.type))


def _is_same_hardware(first: str, second: str) -> bool:
    """Whether two runs were on the same devices, as far as both recorded theirs."""
    if first == second or "[]" in (first, second):
        return True
    return not device_changes(*(thaw_devices(loads(text)) for text in (first, second)))


# --- a whole history -------------------------------------------------------------------------------------------------


def wrong_in_history(
    session: Session, points: HistoryTable, hardware: Mapping[int, Sequence[HardwareChange]]
) -> Mapping[str, WrongRun]:
    """Returns the newest runs of a history that stand off, at most MOST_MARKED, by public id.

    `points` has the headline metrics. The history itself tells which runs to look at; these are judged as everywhere.
    """
    suspects = np.sort(np.unique(np.concatenate([np.array([], dtype=int), *_suspects(points, hardware)])))
    return wrong_runs(session, points.public_ids(suspects[-MOST_MARKED:]))


def _suspects(points: HistoryTable, hardware: Mapping[int, Sequence[HardwareChange]]) -> Iterator[Places]:
    """Yields the places of the runs that stand off from the neighbours that are in the history."""
    if not len(points):
        return
    groups = points.segments(hardware)
    order = np.concatenate(groups)
    group_of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    offsets = np.concatenate([np.arange(-NEIGHBOURS, 0), np.arange(1, NEIGHBOURS + 1)])
    logs = [_logs(points.values(place)[order]) for place in range(len(HEADLINE_METRICS))]
    for start in range(0, len(order), _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(order)))
        neighbours = rows[:, None] + offsets
        inside = neighbours.clip(0, len(order) - 1)
        is_other = (inside == neighbours) & (group_of[inside] == group_of[rows][:, None])
        for key, of_metric in zip(HEADLINE_METRICS, logs, strict=True):
            others = np.where(is_other, of_metric[inside], np.nan)
            compared = outliers(of_metric[rows], others, metrics()[key].assumed_run_deviation)
            yield order[rows[compared.is_outlier]]


def _logs(values: Floats) -> Floats:
    logs: Floats = np.log(np.where(values > 0, values, np.nan))
    return logs
