"""What happened to the machines of a history: engine updates, other hardware and a person's notes, with a verdict on
what they changed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlmodel import Session

from app.core.arrays import np
from app.core.i18n import _, noun
from app.core.units import format_date, plural
from app.db import dated_notes
from app.db.tables import Annotation
from app.metrics.base import Metric
from app.results.hardware import HardwareChange
from app.results.history.table import HistoryTable
from app.results.history.updates import Update, hardware_updates, shift_words, updates
from app.results.series import SeriesIndex

MOST_NAMED = 3
"""The most updates that a verdict names."""


@dataclass(frozen=True)
class TimelineEvent:
    """One thing that happened on a machine, or on all."""

    kind: Literal["update", "hardware", "note"]
    at: datetime
    machine_id: int | None
    """None: a note about all machines."""
    label: str
    """A word or two: the new version, the new hardware, the note."""
    subject: str
    """What happened where and when, such as "llama.cpp b7689 → b7841 on strix-halo, 3 June 2026"."""
    verdict: str = ""
    """What it certainly changed, such as "decode 7.7 % slower on 3 models"; empty when nothing is certain."""
    is_worse: bool = False
    before: str = ""
    after: str = ""
    """The public ids of the runs around it whose comparison says most; empty when nothing was measured on both
    sides."""
    n_series: int = 0
    """The number of series that were measured on both sides."""
    note_id: int | None = None

    @property
    def sentence(self) -> str:
        """The subject with the verdict."""
        return _("{subject}: {verdict}", subject=self.subject, verdict=self.verdict) if self.verdict else self.subject


def timeline(
    session: Session,
    points: HistoryTable,
    metrics: Sequence[Metric],
    index: SeriesIndex,
    hardware: Mapping[int, Sequence[HardwareChange]],
    engine_titles: Mapping[str, str],
) -> list[TimelineEvent]:
    """Returns all that happened, in order of time: to the machines of `points`, whose readings are of `metrics`."""
    machines = _machines(points, index)
    events = [_of_update(update, engine_titles) for update in updates(points, metrics, index, hardware)]
    events += _hardware_events(points, metrics, index, hardware, machines)
    events += [_of_note(note) for note in dated_notes.list_notes(session) if note.machine_id in {None, *machines}]
    return sorted(events, key=lambda event: event.at)


def update_verdict(events: Sequence[TimelineEvent]) -> list[str]:
    """Returns the answer to whether an engine update cost speed: the updates that certainly did, the newest first, at
    most MOST_NAMED, and what the others did. Empty without updates."""
    updated = [event for event in reversed(events) if event.kind == "update"]
    worse = [event for event in updated if event.is_worse]
    if not worse:
        n_updates = plural(len(updated), noun("engine update"))
        return [_("No engine update certainly cost speed ({updates} measured).", updates=n_updates)] if updated else []
    sentences = [_("{sentence}.", sentence=event.sentence) for event in worse[:MOST_NAMED]]
    quiet = sum(not event.verdict for event in updated)
    if len(worse) > MOST_NAMED:
        n_more = plural(len(worse) - MOST_NAMED, noun("more engine update"))
        sentences.append(_("{updates} cost speed, too.", updates=n_more))
    if quiet:
        n_quiet = plural(quiet, noun("other engine update"))
        sentences.append(_("{updates} changed nothing for certain.", updates=n_quiet))
    return sentences


def _machines(points: HistoryTable, index: SeriesIndex) -> dict[int, str]:
    """Returns the names of the machines of all runs by id."""
    series = (index.by_config[config_id] for config_id in points.used_configs)
    return {a_series.machine_id: a_series.machine for a_series in series}


def _of_update(update: Update, engine_titles: Mapping[str, str]) -> TimelineEvent:
    versions = f"{engine_titles.get(update.engine, update.engine)} {update.old_version} → {update.new_version}"
    return _measured("update", update, versions, update.new_version, update.machine, update.at)


def _measured(
    kind: Literal["update", "hardware"], update: Update, what: str, label: str, machine: str, at: datetime
) -> TimelineEvent:
    clearest = update.clearest
    return TimelineEvent(
        kind=kind,
        at=at,
        machine_id=update.machine_id,
        label=label,
        subject=_("{what} on {machine}, {date}", what=what, machine=machine, date=format_date(at)),
        verdict=shift_words(update) if update.shifts else "",
        is_worse=update.is_worse,
        before=clearest.before,
        after=clearest.after,
        n_series=len(update.series),
    )


def _hardware_events(
    points: HistoryTable,
    metrics: Sequence[Metric],
    index: SeriesIndex,
    hardware: Mapping[int, Sequence[HardwareChange]],
    machines: Mapping[int, str],
) -> list[TimelineEvent]:
    """Returns one event for each change of a machine's hardware, though each of its servers has its own record of
    it."""
    servers, places = np.unique(points.server_ids, return_index=True)
    machine_of = {
        server_id: index.by_config[config_id].machine_id
        for server_id, config_id in zip(servers.tolist(), points.config_ids[places].tolist(), strict=True)
    }
    first: dict[tuple[int, str], HardwareChange] = {}
    for server_id, changes in hardware.items():
        if (machine_id := machine_of.get(server_id)) is None:
            continue
        for change in changes:
            key = machine_id, change.text
            if key not in first or change.at < first[key].at:
                first[key] = change
    tested: dict[tuple[int, str], list[Update]] = defaultdict(list)
    for text, update in hardware_updates(points, metrics, index, hardware):
        tested[update.machine_id, text].append(update)
    events = []
    for (machine_id, text), change in first.items():
        label = text.rpartition(" → ")[2]
        name = machines[machine_id]
        if measured := tested.get((machine_id, text)):
            largest = max(measured, key=lambda update: len(update.series))
            events.append(_measured("hardware", largest, text, label, name, change.at))
        else:
            subject = _("{what} on {machine}, {date}", what=text, machine=name, date=format_date(change.at))
            events.append(TimelineEvent("hardware", change.at, machine_id, label, subject))
    return events


def _of_note(note: Annotation) -> TimelineEvent:
    date = format_date(note.at)
    subject = (
        _("{what} on {machine}, {date}", what=note.text, machine=note.machine.name, date=date)
        if note.machine
        else _("{what}, {date}", what=note.text, date=date)
    )
    return TimelineEvent("note", note.at, note.machine_id, note.text, subject, note_id=note.id)
