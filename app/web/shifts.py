"""Level shifts and drifts that are news: what the overview says before anything else."""

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

NEWS = timedelta(days=30)
PER_SERIES = 64
"""So many runs of each configuration and suite are looked at."""


class News(NamedTuple):
    sentence: str
    config: str
    fingerprint: str
    before: str
    after: str
    """Public ids of the runs on both sides; of a drift the first and the newest."""
    is_worse: bool
    is_drift: bool


def news(session: Session, moment: datetime) -> list[News]:
    """Of servers in use, the shifts that began within NEWS before `moment` and still hold, and the drifts that were
    measured within it: worse ones first."""
    from app.results.history.level_shifts import drifts, shifts  # loads numpy: not at start

    points = newest(session, PER_SERIES)
    timelines = hardware.timelines(session).all_changes()
    since = moment - NEWS
    changes: list[Shift | SeriesDrift] = [
        *(each for each in drifts(points, len(HEADLINE_METRICS), timelines) if each.until >= since),
        *(each for each in shifts(points, len(HEADLINE_METRICS), timelines) if each.still_holds and each.at >= since),
    ]
    if not changes:
        return []
    known = configs.describe(session)
    titles = distinct_titles({key: known[key] for key in points.used_configs}, engine_titles())
    told = [_news(each, titles[each.config_id], known[each.config_id].fingerprint) for each in reversed(changes)]
    return sorted(told, key=lambda each: not each.is_worse)


def _news(change: "Shift | SeriesDrift", config: str, fingerprint: str) -> News:
    from app.results.history.level_shifts import SeriesDrift, drift_words, is_worse, shift_words

    triple = [metrics()[key] for key in HEADLINE_METRICS]
    worse = any(is_worse(each, triple[each.place]) for each in change.metrics)
    if isinstance(change, SeriesDrift):
        sentence, first, last, is_drift = drift_words(change, triple), change.first, change.last, True
    else:
        sentence, first, last, is_drift = shift_words(change, triple), change.before, change.after, False
    return News(sentence[:1].upper() + sentence[1:], config, fingerprint, first, last, worse, is_drift)
