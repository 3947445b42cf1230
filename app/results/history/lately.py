"""What got worse or better lately, and still is: engine updates, level shifts, drifts and wrong runs, as one list."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Literal, NamedTuple

from sqlmodel import Session

from app.core.i18n import _
from app.core.units import format_date
from app.core.unknown_settings import has_unknown_settings
from app.db import configs
from app.db.configs import ConfigDescription
from app.db.database import cached_query
from app.metrics import HEADLINE_METRICS, metrics
from app.results import hardware
from app.results.hardware import HardwareChange
from app.results.history.level_shifts import SeriesDrift, Shift, drift_words, drifts, is_worse, shift_words, shifts
from app.results.history.series import newest
from app.results.history.table import HistoryTable
from app.results.history.updates import Change, Update, update_words, updates
from app.results.naming import distinct_titles
from app.results.series import series_index
from app.results.wrong_runs import WrongRun, wrong_in_history

RECENT = timedelta(days=30)
UPDATES_SINCE = timedelta(days=365)
"""An update that made something slower costs speed until somebody goes back, so it is news for longer."""
WRONG_SINCE = timedelta(days=90)
"""A wrong run waits until somebody hides it or finds it right."""
MAX_RUNS_PER_SERIES = 64
"""The most runs of each configuration and suite."""
LASTING_SHARE = 0.5
"""An update still holds while more than this share of its change is left after all later ones."""


@dataclass(frozen=True)
class RecentChange:
    """One change for a list."""

    kind: Literal["update", "shift", "drift", "wrong"]
    sentence: str
    subject: str
    """What changed: the machine of an update, otherwise the configuration."""
    before: str
    after: str
    """The public ids of the runs before and after it; for a drift, of the first and the newest run; for a wrong run,
    both its own."""
    is_worse: bool
    fingerprint: str = ""
    """The configuration; empty for an update."""


class _WrongOne(NamedTuple):
    """A wrong run with its configuration and when it started."""

    config_id: int
    at: datetime
    run: WrongRun


class _Lasting(NamedTuple):
    """All changes that still hold, in order of time."""

    updates: Sequence[Update]
    shifts: Sequence[Shift]
    drifts: Sequence[SeriesDrift]
    wrong: Sequence[_WrongOne]
    used_configs: set[int]


def recent_changes(session: Session, moment: datetime, engine_titles: Mapping[str, str]) -> list[RecentChange]:
    """Returns what changed within RECENT before `moment` and still holds, of servers that are not archived: worse ones
    first, each kind with the newest first. Updates for the worse are listed for UPDATES_SINCE.
    """
    lasting = _lasting_changes(session)
    since = moment - RECENT
    changes: list[Update | Shift | SeriesDrift | _WrongOne] = [
        *(wrong for wrong in lasting.wrong if wrong.at >= moment - WRONG_SINCE),
        *(drift for drift in lasting.drifts if drift.until >= since),
        *(shift for shift in lasting.shifts if shift.at >= since),
        *(update for update in lasting.updates if update.at >= (moment - UPDATES_SINCE if update.is_worse else since)),
    ]
    if not changes:
        return []
    described = configs.describe(session)
    titles = distinct_titles({key: described[key] for key in lasting.used_configs}, engine_titles)
    recent = []
    for change in reversed(changes):
        if isinstance(change, Update):
            recent.append(_update(change, engine_titles))
        else:
            recent.append(_level_change(change, titles[change.config_id], described[change.config_id]))
    return sorted(recent, key=lambda change: not change.is_worse)


def _update(update: Update, engine_titles: Mapping[str, str]) -> RecentChange:
    clearest = update.shifted(update.shifts[0])[0]
    return RecentChange(
        kind="update",
        sentence=update_words(update, engine_titles),
        subject=_("{machine}, since {date}", machine=update.machine, date=format_date(update.at)),
        before=clearest.before,
        after=clearest.after,
        is_worse=update.is_worse,
    )


def _level_change(change: Shift | SeriesDrift | _WrongOne, config: str, described: ConfigDescription) -> RecentChange:
    fingerprint, is_known = described.fingerprint, not has_unknown_settings(described.snapshot)
    if isinstance(change, _WrongOne):
        sentence, public_id = change.run.sentence.rstrip("."), change.run.public_id
        return RecentChange("wrong", sentence, config, public_id, public_id, change.run.is_worse, fingerprint)
    triple = [metrics()[key] for key in HEADLINE_METRICS]
    worse = any(is_worse(metric_change, triple[metric_change.place]) for metric_change in change.metrics)
    if isinstance(change, SeriesDrift):
        sentence = drift_words(change, triple, is_known=is_known)
        sentence = sentence[:1].upper() + sentence[1:]
        return RecentChange("drift", sentence, config, change.first, change.last, worse, fingerprint)
    sentence = shift_words(change, triple, is_known=is_known)
    sentence = sentence[:1].upper() + sentence[1:]
    return RecentChange("shift", sentence, config, change.before, change.after, worse, fingerprint)


@cached_query(maxsize=1)
def _lasting_changes(session: Session) -> _Lasting:
    points = newest(session, MAX_RUNS_PER_SERIES)
    timelines = hardware.timelines(session).all_changes()
    triple = [metrics()[key] for key in HEADLINE_METRICS]
    return _Lasting(
        lasting_updates(points, updates(points, triple, series_index(session), timelines)),
        [shift for shift in shifts(points, len(triple), timelines) if shift.still_holds],
        drifts(points, len(triple), timelines),
        _wrong_ones(session, points, timelines),
        points.used_configs,
    )


def _wrong_ones(
    session: Session, points: HistoryTable, timelines: Mapping[int, Sequence[HardwareChange]]
) -> list[_WrongOne]:
    wrong = wrong_in_history(session, points, timelines)
    places = points.with_public_ids(wrong).tolist()
    return [
        _WrongOne(int(points.config_ids[place]), points.started_at(place), wrong[points.public_id(place)])
        for place in places
    ]


def lasting_updates(points: HistoryTable, all_updates: Sequence[Update]) -> list[Update]:
    """Returns the updates of a history with a shift that later updates have not taken back, in order of time.

    `all_updates` are those that `updates` found in `points`. An update is measured at several prompts: the one that
    most series were measured at counts.
    """
    first_runs = {update.series[0].before for update in all_updates}
    prompts = {
        points.public_id(int(place)): points.prompt_code(int(place)) for place in points.with_public_ids(first_runs)
    }
    by_scope: dict[tuple[int, str, int], list[Update]] = defaultdict(list)
    for update in all_updates:
        by_scope[update.machine_id, update.engine, prompts[update.series[0].before]].append(update)
    lasting: dict[tuple[int, str, str, str], Update] = {}
    for scope in by_scope.values():
        for place, update in enumerate(scope):
            key = update.machine_id, update.engine, update.old_version, update.new_version
            is_main = key not in lasting or len(update.series) > len(lasting[key].series)
            if is_main and any(_is_lasting(update, shift, scope[place + 1 :]) for shift in update.shifts):
                lasting[key] = update
    return sorted(lasting.values(), key=lambda update: update.at)


def _is_lasting(update: Update, shift: Change, later_updates: Sequence[Update]) -> bool:
    """Whether the median series keeps enough of a shift. A series that was not measured since keeps all of it."""
    shares = []
    for series_change in update.shifted(shift):
        own = series_change.changes[shift.metric.key].log_ratio
        later = [
            later_change.changes[shift.metric.key].log_ratio
            for later_update in later_updates
            for later_change in later_update.series
            if later_change.series.id == series_change.series.id and shift.metric.key in later_change.changes
        ]
        shares.append((own + sum(later)) / own)
    return median(shares) > LASTING_SHARE
