"""Recent level shifts and drifts, which the overview shows first."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from sqlmodel import Session

from app.db import configs
from app.metrics import HEADLINE_METRICS, metrics
from app.results import hardware
from app.results.history.series import newest
from app.results.naming import distinct_titles
from app.web.templates import engine_titles

if TYPE_CHECKING:
    from app.results.history.level_shifts import SeriesDrift, Shift

RECENT = timedelta(days=30)
MAX_RUNS_PER_SERIES = 64
"""Of each configuration and suite."""


class RecentChange(NamedTuple):
    sentence: str
    config: str
    fingerprint: str
    before: str
    after: str
    """Public ids of the runs before and after a shift; of a drift the first and the newest run."""
    is_worse: bool
    is_drift: bool


def recent_changes(session: Session, moment: datetime) -> list[RecentChange]:
    """The shifts that began within RECENT before `moment` and still hold, and the drifts whose last run lies within it;
    of servers that are not archived, worse ones first."""
    from app.results.history.level_shifts import drifts, shifts  # loads numpy: not at start

    points = newest(session, MAX_RUNS_PER_SERIES)
    timelines = hardware.timelines(session).all_changes()
    since = moment - RECENT
    changes: list[Shift | SeriesDrift] = [
        *(drift for drift in drifts(points, len(HEADLINE_METRICS), timelines) if drift.until >= since),
        *(
            shift
            for shift in shifts(points, len(HEADLINE_METRICS), timelines)
            if shift.still_holds and shift.at >= since
        ),
    ]
    if not changes:
        return []
    described = configs.describe(session)
    titles = distinct_titles({key: described[key] for key in points.used_configs}, engine_titles())
    recent = [
        _recent_change(change, titles[change.config_id], described[change.config_id].fingerprint)
        for change in reversed(changes)
    ]
    return sorted(recent, key=lambda change: not change.is_worse)


def _recent_change(change: "Shift | SeriesDrift", config: str, fingerprint: str) -> RecentChange:
    from app.results.history.level_shifts import SeriesDrift, drift_words, is_worse, shift_words

    triple = [metrics()[key] for key in HEADLINE_METRICS]
    worse = any(is_worse(metric_change, triple[metric_change.place]) for metric_change in change.metrics)
    if isinstance(change, SeriesDrift):
        sentence, first, last, is_drift = drift_words(change, triple), change.first, change.last, True
    else:
        sentence, first, last, is_drift = shift_words(change, triple), change.before, change.after, False
    return RecentChange(sentence[:1].upper() + sentence[1:], config, fingerprint, first, last, worse, is_drift)
