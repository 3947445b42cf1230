"""What a history page shows: its figures, one for each machine, and what happened."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlmodel import Session
from starlette.requests import Request

from app import charts
from app.charts.base import MAX_POINTS
from app.charts.history import MAX_ROWS, HistoryLook
from app.charts.history.lines import SERIES
from app.charts.history.marks import Event
from app.charts.history.panels import Span
from app.core.arrays import np
from app.db.configs import ConfigDescription
from app.db.tables import Machine, now
from app.results import hardware
from app.results.ceiling import config_ceilings
from app.results.history.level_shifts import SeriesDrift, Shift, drifts, shifts
from app.results.history.series import history
from app.results.history.table import HistoryTable
from app.results.history.timeline import TimelineEvent, timeline, update_verdict
from app.results.series import SeriesIndex, series_index
from app.web.history_view import FIT, HistoryView
from app.web.paths import path_for
from app.web.templates import engine_titles

MAX_MACHINES = 4
"""The most machines with a figure of their own: those that were measured last."""


class MachineFigure(NamedTuple):
    """One figure of the page."""

    id: str
    machine: str
    """The name of its machine; empty when it is the only one."""
    figure: charts.Figure
    has_more_ceilings: bool
    """Whether there are ceilings that are not drawn."""


@dataclass(frozen=True)
class HistoryContent:
    """All that a history shows for its filters."""

    figures: Sequence[MachineFigure] = ()
    events: Sequence[TimelineEvent] = ()
    """What certainly changed something, hardware and notes; the newest first."""
    quiet_updates: Sequence[TimelineEvent] = ()
    """Updates without a certain change, the newest first."""
    verdict: Sequence[str] = ()
    """Whether an update cost speed, in one or two sentences; empty where no update was measured."""
    more_machines: Sequence[tuple[str, str]] = ()
    """Slug and name of machines that have no figure."""
    hidden: int = 0
    """The number of hidden runs that are left out."""


class _Changes(NamedTuple):
    """What changed in a history."""

    events: Sequence[TimelineEvent]
    shifts: Sequence[Shift]
    drifts: Sequence[SeriesDrift]
    hardware: Mapping[int, Sequence[hardware.HardwareChange]]


def history_content(
    request: Request,
    session: Session,
    view: HistoryView,
    config_by_id: Mapping[int, ConfigDescription],
    machines: Sequence[Machine],
) -> HistoryContent:
    """Reads what a view shows; `machines` are all there are."""
    keys = [metric.key for metric in view.metrics]
    ids = view.config_ids(config_by_id, engine_titles())
    where = view.dated(now())
    points, hidden = history(session, where, keys, ids)
    if not points.has_values:
        return HistoryContent(hidden=hidden)
    wide = points
    if where.since or where.until:  # an update is judged by all runs around it
        wide, _ = history(session, view.at_all_times.where, keys, ids)
    index = series_index(session)
    changes = _changes(session, view, points, wide, index)
    figures, last_first = _figures(request, session, view, points, config_by_id, index, changes)
    names = {machine.id: (machine.slug, machine.name) for machine in machines}
    return HistoryContent(
        figures=figures,
        verdict=update_verdict(changes.events),
        events=[event for event in reversed(changes.events) if not _is_quiet(event)],
        quiet_updates=[event for event in reversed(changes.events) if _is_quiet(event)],
        more_machines=[names[machine_id] for machine_id in last_first[MAX_MACHINES:]] if view.by == SERIES else [],
        hidden=hidden,
    )


def _is_quiet(event: TimelineEvent) -> bool:
    return event.kind == "update" and not event.verdict


def _changes(
    session: Session, view: HistoryView, points: HistoryTable, wide: HistoryTable, index: SeriesIndex
) -> _Changes:
    timelines = hardware.timelines(session).all_changes()
    where = view.dated(now())
    events = [
        event
        for event in timeline(session, wide, view.metrics, index, timelines, engine_titles())
        if (where.since is None or event.at.date() >= where.since)
        and (where.until is None or event.at.date() <= where.until)
    ]
    after_updates = {event.after for event in events if event.verdict}
    level_shifts = shifts(points, len(view.metrics), timelines)
    return _Changes(
        events,
        [shift for shift in level_shifts if shift.after not in after_updates],
        drifts(points, len(view.metrics), timelines),
        timelines,
    )


def _figures(
    request: Request,
    session: Session,
    view: HistoryView,
    points: HistoryTable,
    config_by_id: Mapping[int, ConfigDescription],
    index: SeriesIndex,
    changes: _Changes,
) -> tuple[list[MachineFigure], list[int]]:
    """Returns a figure for each of MAX_MACHINES machines, and the ids of all, the one measured last first. What is not
    made by series is one figure: then machines may be what it is about."""
    config_ids, places = np.unique(points.config_ids, return_inverse=True)
    machine_ids = np.array([index.by_config[config_id].machine_id for config_id in config_ids.tolist()])[places.ravel()]
    last_first = list(dict.fromkeys(machine_ids[::-1].tolist()))
    if view.by != SERIES:
        parts: list[tuple[int | None, HistoryTable]] = [(None, points)]
    else:
        parts = [
            (machine_id, points.take(np.flatnonzero(machine_ids == machine_id)))
            for machine_id in last_first[:MAX_MACHINES]
        ]
    look = _look(view, points, changes.events, len(parts))
    roofs = _roofs(session, view)
    path = path_for(request, "history")
    run_path = path_for(request, "run", public_id="0").removesuffix("0")  # once, not for thousands of points
    figures = []
    for machine_id, part in parts:
        used = part.used_configs
        ids = set(last_first) if machine_id is None else {machine_id}
        figure = charts.history(
            part,
            config_by_id,
            view.metrics,
            run_link=lambda public_id: run_path + public_id,
            look=look,
            index=index,
            line_link=_line_link(path, view),
            engine_titles=engine_titles(),
            roofs={config_id: roof for config_id, roof in roofs.items() if config_id in used},
            events=_marks(changes.events, ids),
            shifts=[shift for shift in changes.shifts if shift.config_id in used],
            drifts=[drift for drift in changes.drifts if drift.config_id in used],
            hardware=changes.hardware,
        )
        if figure is None:  # the machine has runs, but none with this metric
            continue
        has_roofs = view.metrics[-1].key == "decode_tokens_per_s" and bool(roofs.keys() & used)
        drawn_roofs = any(trace["meta"].get("role") == "roof" for trace in figure.data)
        is_one_of_several = machine_id is not None and len(last_first) > 1
        name = index.by_config[part[0].config_id].machine if is_one_of_several else ""
        figures.append(MachineFigure(f"figure-{machine_id or 0}", name, figure, has_roofs and not drawn_roofs))
    return figures, last_first


def _look(view: HistoryView, points: HistoryTable, events: Sequence[TimelineEvent], n_figures: int) -> HistoryLook:
    first, last = Span.of(points)
    newest = max((event.at for event in events if event.at <= now()), default=last)  # a note of today, before any run
    return HistoryLook(
        by=view.by,
        is_from_zero=view.axis != FIT,
        has_roofs=bool(view.ceilings),
        span=Span(first, max(last, newest)),
        max_points=MAX_POINTS // n_figures,
        max_rows=MAX_ROWS // n_figures,
    )


def _roofs(session: Session, view: HistoryView) -> dict[int, float]:
    """Returns the decode ceilings by configuration, in tok/s."""
    return {
        config_id: config_ceiling.ceiling.tokens_per_s
        for (config_id, suite_key), config_ceiling in config_ceilings(session).items()
        if suite_key == view.where.suite
    }


def _line_link(path: str, view: HistoryView) -> Callable[[str], str] | None:
    if view.by in (SERIES, "label"):
        return None
    return lambda value: f"{path}?{view.narrowed(value).query}"


def _marks(events: Sequence[TimelineEvent], machine_ids: Collection[int]) -> list[Event]:
    """Returns the marks of some machines; of several, updates that changed nothing would be too many."""
    return [
        Event(event.at, event.label, event.sentence, _kind(event))
        for event in events
        if event.machine_id is None or event.machine_id in machine_ids
        if len(machine_ids) == 1 or not _is_quiet(event)
    ]


def _kind(event: TimelineEvent) -> str:
    if event.kind == "note":
        return "note"
    if not event.verdict:
        return ""
    return "worse" if event.is_worse else "better"
