"""Runs that stand off from the other runs of their configuration: "decode 45 % below the other runs".

The others are those before and after it in time: up to NEIGHBOURS on each side with the same machine, configuration,
version of the suite and hardware, finished and not hidden. `app.stats.outliers` decides. A run that two others agree
with is none: it is at another level, which `history.level_shifts` reports.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any, NamedTuple

from sqlalchemy import Text, cast, func, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from app.core.arrays import Floats, Places, np
from app.core.i18n import _, as_sentence, enumerated, joined, loads, lower_first, upper_first
from app.core.units import format_number
from app.db.database import cached_query
from app.db.tables import Measurement, Run
from app.metrics import HEADLINE_METRICS, metrics
from app.results.compare.soundness import unsound_by_run
from app.results.hardware import HardwareChange, device_changes, thaw_devices
from app.results.history.table import HistoryTable
from app.results.run_filter import NOT_HIDDEN
from app.stats.outliers import MIN_OTHERS, outliers
from app.stats.runs import run_median

NEIGHBOURS = 10
MOST_MARKED = 200
"""The most runs that a history marks: the newest."""
_ROWS_AT_ONCE = 4096
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
        figures = [
            _(
                "{metric}: {value} {unit}, where the median of {n} others is {usual}",
                metric=_(metrics()[metric.key].title),
                value=format_number(metric.value),
                usual=format_number(metric.usual),
                unit=metrics()[metric.key].unit,
                n=metric.others,
            )
            for metric in self.metrics
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
    """Returns those of some runs that stand off from the others, by public id; in two queries, and a third one for the
    causes where there are any."""
    return _wrong_runs(session, frozenset(public_ids))


@cached_query(maxsize=8)
def _wrong_runs(session: Session, public_ids: frozenset[str]) -> Mapping[str, WrongRun]:
    windows = _windows(session, public_ids)
    if not windows:
        return {}
    values = _values(session, {run_id for window in windows for run_id in (window.run_id, *window.others)})
    standing_off: dict[str, list[WrongMetric]] = {}
    for key in _IN_WORDS:
        for window, metric in _of_metric(windows, values.get(key, {}), key):
            standing_off.setdefault(window.public_id, []).append(metric)
    causes = unsound_by_run(session, standing_off) if standing_off else {}
    return {
        public_id: WrongRun(public_id, tuple(of_run), causes.get(public_id, ()))
        for public_id, of_run in standing_off.items()
    }


class _Window(NamedTuple):
    """A run and its neighbours on the same hardware."""

    run_id: int
    public_id: str
    others: Sequence[int]


class _Value(NamedTuple):
    run_id: int
    source: str
    value: float
    standard_deviation: float | None
    sample_count: int

    @property
    def variance_of_median(self) -> float:
        run = run_median(self.value, self.standard_deviation, None, None, self.sample_count)
        return run.variance_of_median or 0.0


def _of_metric(
    windows: Sequence[_Window], values: Mapping[int, _Value], key: str
) -> Iterator[tuple[_Window, WrongMetric]]:
    """Yields the windows whose run stands off in a metric. Only values of one source are compared."""
    rows = [
        (window, own, neighbours)
        for window in windows
        if (own := values.get(window.run_id))
        and len(neighbours := _of_source(own.source, window, values)) >= MIN_OTHERS
    ]
    if not rows:
        return
    others = np.full((len(rows), max(len(neighbours) for _window, _own, neighbours in rows)), np.nan)
    for place, (_window, _own, neighbours) in enumerate(rows):
        others[place, : len(neighbours)] = [math.log(value.value) for value in neighbours]
    variances = np.array(
        [median(value.variance_of_median for value in neighbours) for _window, _own, neighbours in rows]
    )
    own_values = np.log([own.value for _window, own, _neighbours in rows])
    compared = outliers(own_values, others, metrics()[key].assumed_run_deviation, variances)
    for place in np.flatnonzero(compared.is_outlier).tolist():
        window, own, _neighbours = rows[place]
        yield window, WrongMetric(key, own.value, math.exp(compared.usual[place]), int(compared.others[place]))


def _of_source(source: str, window: _Window, values: Mapping[int, _Value]) -> list[_Value]:
    return [value for run_id in window.others if (value := values.get(run_id)) and value.source == source]


# --- the neighbours of some runs -------------------------------------------------------------------------------------


def _windows(session: Session, public_ids: Collection[str]) -> list[_Window]:
    """Reads the neighbours of each run, in one query; runs without any are missing."""
    target: Any = aliased(Run, name="target")
    started = target.started_at
    columns = (target.id, target.public_id, target.machine_id, target.config_id, target.suite_sha256)
    hardware = cast(col(target.hardware), Text).label("hardware")
    targets = (
        select(
            *(*columns, hardware),
            *(_bound(target, is_before=True).label("low"), _bound(target, is_before=False).label("high")),
        )
        .where(
            col(target.public_id).in_(public_ids),
            target.status == "done",
            col(target.hidden_at).is_(None),
            col(started).is_not(None),
            col(target.config_id).is_not(None),
        )
        .cte("targets")
    )
    of_target = targets.c
    query = select(
        *(of_target.id, of_target.public_id, of_target.hardware),
        *(col(Run.id).label("other_id"), cast(col(Run.hardware), Text).label("other_hardware")),
    ).where(
        col(Run.config_id) == of_target.config_id,
        col(Run.machine_id) == of_target.machine_id,
        col(Run.suite_sha256) == of_target.suite_sha256,
        col(Run.status) == "done",
        NOT_HIDDEN,
        col(Run.id) != of_target.id,
        func.coalesce(of_target.low, col(Run.started_at)) <= Run.started_at,
        func.coalesce(of_target.high, col(Run.started_at)) >= Run.started_at,
    )
    is_same = cache(_is_same_hardware)
    others: dict[tuple[int, str], list[int]] = {}
    for run_id, public_id, own_hardware, other_id, other_hardware in session.execute(query):
        if is_same(own_hardware, other_hardware):
            others.setdefault((run_id, public_id), []).append(other_id)
    return [_Window(run_id, public_id, ids) for (run_id, public_id), ids in others.items()]


def _bound(target: Any, *, is_before: bool) -> Any:
    """Returns when the farthest neighbour on one side of a run started; null where there are fewer."""
    neighbour: Any = aliased(Run)
    started = col(neighbour.started_at)
    query = select(started).where(
        neighbour.config_id == target.config_id,
        neighbour.machine_id == target.machine_id,
        neighbour.suite_sha256 == target.suite_sha256,
        neighbour.status == "done",
        col(neighbour.hidden_at).is_(None),
        started < target.started_at if is_before else started > target.started_at,
    )
    order = started.desc() if is_before else started
    return query.order_by(order).limit(1).offset(NEIGHBOURS - 1).scalar_subquery()


def _is_same_hardware(first: str, second: str) -> bool:
    """Whether two runs were on the same devices, as far as both recorded theirs."""
    if first == second or "[]" in (first, second):
        return True
    return not device_changes(*(thaw_devices(loads(text)) for text in (first, second)))


def _values(session: Session, run_ids: Collection[int]) -> dict[str, dict[int, _Value]]:
    """Reads the shown values at the main points, by metric and run."""
    columns: tuple[Any, ...] = (
        Measurement.metric,
        Measurement.run_id,
        Measurement.source,
        Measurement.value,
        Measurement.standard_deviation,
    )
    query = (
        select(*columns, col(Measurement.sample_count))
        .join(Run, (col(Run.id) == Measurement.run_id) & (col(Run.main_point_key) == Measurement.point_key))
        .where(
            col(Measurement.run_id).in_(run_ids),
            col(Measurement.metric).in_(HEADLINE_METRICS),
            col(Measurement.is_shown).is_(True),
            col(Measurement.value) > 0,
        )
    )
    values: dict[str, dict[int, _Value]] = {}
    for key, *figures in session.execute(query):
        value = _Value(*figures)
        values.setdefault(key, {})[value.run_id] = value
    return values


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
