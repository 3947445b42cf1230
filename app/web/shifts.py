"""Level shifts that are news: what the overview says before anything else."""

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlmodel import Session

from app.charts.naming import distinct_titles
from app.metrics import TRIPLE, metrics
from app.store import configs, hardware
from app.store.history import newest
from app.web.render import engine_titles

NEWS = timedelta(days=30)
PER_SERIES = 64
"""So many runs of each configuration and suite are looked at."""


class News(NamedTuple):
    sentence: str
    config: str
    fingerprint: str
    before: str
    after: str
    """Public ids of the runs on both sides."""
    is_worse: bool


def news(session: Session, moment: datetime) -> list[News]:
    """Of servers in use, the shifts that began within NEWS before `moment` and still hold: worse ones first."""
    from app.compare.shifts import is_worse, shifts, words  # loads numpy: not at start

    triple = [metrics()[key] for key in TRIPLE]
    points = newest(session, PER_SERIES)
    found = [
        each
        for each in shifts(points, len(triple), hardware.timelines(session).all_changes())
        if each.still_holds and each.at >= moment - NEWS
    ]
    if not found:
        return []
    known = configs.describe(session)
    titles = distinct_titles({key: known[key] for key in points.used_configs}, engine_titles())
    told = [
        News(
            sentence=said[:1].upper() + said[1:],
            config=titles[shift.config_id],
            fingerprint=known[shift.config_id].fingerprint,
            before=shift.before,
            after=shift.after,
            is_worse=any(is_worse(each, triple[each.place]) for each in shift.metrics),
        )
        for shift in reversed(found)
        for said in [words(shift, triple)]
    ]
    return sorted(told, key=lambda each: not each.is_worse)
