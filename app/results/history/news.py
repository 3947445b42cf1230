"""Engine updates of a whole history, as a list, and those that one run has just made certain."""

from collections.abc import Sequence
from dataclasses import replace

from sqlmodel import Session

from app.core.arrays import np
from app.db import runs
from app.metrics import HEADLINE_METRICS, metrics
from app.results import hardware
from app.results.history.series import history
from app.results.history.table import HistoryTable
from app.results.history.updates import Update, updates
from app.results.run_filter import RunFilter
from app.results.series import series_index


def engine_updates(session: Session, where: RunFilter) -> list[Update]:
    """Returns the updates within the days of a filter, in order of time; each is judged by all runs around it."""
    at_all_times = replace(where, since=None, until=None)
    points, _ = history(session, at_all_times)
    return [
        update
        for update in _updates(session, points)
        if (where.since is None or update.at.date() >= where.since)
        and (where.until is None or update.at.date() <= where.until)
    ]


def completed_by(session: Session, public_id: str) -> list[Update]:
    """Returns the updates whose shift a run has made certain: with it they have one, without it none.

    Only updates to the version that the run was measured with are looked at, on its machine and with its suite.
    """
    run = runs.run(session, public_id)
    if run.status != "done" or run.hidden_at is not None or run.config is None or run.config.engine_version is None:
        return []
    points, _ = history(session, RunFilter(machine=run.machine.slug, suite=run.suite_key))
    (own_place,) = points.with_public_ids([public_id]).tolist() or [None]
    if own_place is None:
        return []
    certain = [
        update
        for update in _updates(session, points)
        if update.shifts
        and (update.engine, update.new_version) == (run.config.engine, run.config.engine_version)
        and any(run.config_id in change.series.config_ids for change in update.series)
    ]
    if not certain:
        return []
    without = points.take(np.delete(np.arange(len(points)), own_place))
    earlier = {_key(update) for update in _updates(session, without) if update.shifts}
    return [update for update in certain if _key(update) not in earlier]


def _key(update: Update) -> tuple[int, str, str, str]:
    return update.machine_id, update.engine, update.old_version, update.new_version


def _updates(session: Session, points: HistoryTable) -> Sequence[Update]:
    triple = [metrics()[key] for key in HEADLINE_METRICS]
    return updates(points, triple, series_index(session), hardware.timelines(session).all_changes())
