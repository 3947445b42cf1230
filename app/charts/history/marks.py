"""Marks of changes: a number or a letter in the figure, words below it."""

import string
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from math import exp
from typing import Any, NamedTuple

from app.charts.base import Annotation, AnnotationList, escape_plotly_html
from app.charts.history.panels import Panel, stamp
from app.core.configuration import describe_changes
from app.core.i18n import _, joined
from app.core.units import format_date
from app.db.configs import ConfigDescription
from app.metrics.base import Metric
from app.results.hardware import HardwareChange
from app.results.history.level_shifts import SeriesDrift, Shift, drift_words, is_worse, moved, rate, shift_words
from app.results.history.table import HistoryTable

MAX_MARKS = 12
"""The most changes, and the most shifts, to mark: the newest."""


class Change(NamedTuple):
    """A change of configuration or hardware between two consecutive runs on a server."""

    at: datetime
    server: str
    descriptions: tuple[str, ...]

    @property
    def text(self) -> str:
        return joined(self.server, joined(*self.descriptions, by="; "), by=": ")


class Changes(NamedTuple):
    """The changes of all servers that a chart marks."""

    newest: Sequence[Change]
    """The newest changes, at most MAX_MARKS, in order of time."""
    total: int
    """The number of changes including older ones."""


def changes_of(
    points: HistoryTable,
    configs: Mapping[int, ConfigDescription],
    engine_titles: Mapping[str, str],
    hardware: Mapping[int, Sequence[HardwareChange]],
) -> Changes:
    """Returns the changes: where a server's configuration or hardware differs from that of its previous run."""

    @cache
    def words(old: int, new: int) -> tuple[str, ...]:
        return tuple(describe_changes(configs[old].snapshot, configs[new].snapshot, engine_titles))

    places = points.steps(hardware, lambda old, new: bool(words(old, new)))
    server_changes = []
    for before, place in places[-MAX_MARKS:]:
        previous_point, point = points[before], points[place]
        hardware_changes = hardware.get(point.server_id, ())
        descriptions = tuple(
            change.text for change in hardware_changes if previous_point.started_at < change.at <= point.started_at
        )
        descriptions += words(previous_point.config_id, point.config_id)
        server_changes.append(Change(point.started_at, configs[point.config_id].server, descriptions))
    return Changes(server_changes, len(places))


def change_list(server_changes: Changes) -> AnnotationList | None:
    """Returns the list below the chart that explains its numbered marks; None without changes."""
    if not server_changes.total:
        return None
    shown = len(server_changes.newest)
    of_all = (
        _(", the newest {shown} of {all:,}", shown=shown, all=server_changes.total)
        if server_changes.total > shown
        else ""
    )
    marks = tuple(Annotation(joined(format_date(change.at), change.text, by=", ")) for change in server_changes.newest)
    return AnnotationList(
        _("Changes of configuration and hardware, numbered as in the chart{of_all}", of_all=of_all), marks
    )


def shift_list(
    shifts: Sequence[Shift],
    metrics: Sequence[Metric],
    titles: Mapping[int, str],
    run_link: Callable[[str], str],
    known: Collection[int],
) -> AnnotationList | None:
    """Returns the list below the chart that explains the level shifts, which have capital letters; None without any.
    `known` are the configurations all of whose settings are known."""
    if not shifts:
        return None
    of_all = _(", the newest {shown} of {all:,}", shown=MAX_MARKS, all=len(shifts)) if len(shifts) > MAX_MARKS else ""
    marks = tuple(
        Annotation(
            f"{shift_words(shift, metrics, is_known=shift.config_id in known)} ({titles[shift.config_id]})",
            ((_("last run before"), run_link(shift.before)), (_("first run after"), run_link(shift.after))),
            name,
        )
        for name, shift in zip(string.ascii_uppercase, shifts[-MAX_MARKS:], strict=False)
    )
    return AnnotationList(
        _("Level shifts within one configuration, lettered as in the chart{of_all}", of_all=of_all), marks
    )


def drift_list(
    drifts: Sequence[SeriesDrift],
    metrics: Sequence[Metric],
    titles: Mapping[int, str],
    run_link: Callable[[str], str],
    known: Collection[int],
) -> AnnotationList | None:
    """Returns the list below the chart that explains the drifts, which have small letters; None without any.
    `known` are the configurations all of whose settings are known."""
    if not drifts:
        return None
    of_all = _(", the newest {shown} of {all:,}", shown=MAX_MARKS, all=len(drifts)) if len(drifts) > MAX_MARKS else ""
    marks = tuple(
        Annotation(
            f"{drift_words(drift, metrics, is_known=drift.config_id in known)} ({titles[drift.config_id]})",
            ((_("first run"), run_link(drift.first)), (_("newest run"), run_link(drift.last))),
            name,
        )
        for name, drift in zip(string.ascii_lowercase, drifts[-MAX_MARKS:], strict=False)
    )
    return AnnotationList(
        _("Slow drifts within one configuration, lettered as in the chart{of_all}", of_all=of_all), marks
    )


def mark_layout(
    server_changes: Changes, shifts: Sequence[Shift], drifts: Sequence[SeriesDrift], panels: Sequence[Panel]
) -> dict[str, list[Any]]:
    """Returns Plotly's shapes and annotations for all marks; `name` says whether a shift or a drift is for the better
    or the worse."""
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for number, change in enumerate(server_changes.newest, 1):
        shapes.append(_upright(change.at, "paper"))
        notes.append(_note(change.at, "paper", str(number), change.text))
    for letter, shift in zip(string.ascii_uppercase, shifts[-MAX_MARKS:], strict=False):
        for metric_shift in shift.metrics:
            panel = panels[metric_shift.place]
            name = {"name": "worse" if is_worse(metric_shift, panel.metric) else "better"}
            shapes.append(_upright(shift.at, f"{panel.y} domain") | name)
            notes.append(_note(shift.at, f"{panel.y} domain", letter, moved(metric_shift, panel.metric)) | name)
    for letter, series in zip(string.ascii_lowercase, drifts[-MAX_MARKS:], strict=False):
        for drifting in series.metrics:
            panel = panels[drifting.place]
            name = {"name": "worse" if is_worse(drifting, panel.metric) else "better"}
            start = exp(drifting.drift.start)
            shapes.append(_line(series, panel.y, start, start * drifting.drift.ratio) | name)
            notes.append(_note(series.until, f"{panel.y} domain", letter, rate(drifting)) | name)
    return {"shapes": shapes, "annotations": notes}


def _upright(at: datetime, yref: str) -> dict[str, Any]:
    x = stamp(at)
    return {"type": "line", "xref": "x", "yref": yref, "x0": x, "x1": x, "y0": 0, "y1": 1, "layer": "below"}


def _line(series: SeriesDrift, yref: str, start: float, end: float) -> dict[str, Any]:
    ends = {"x0": stamp(series.since), "x1": stamp(series.until), "y0": round(start, 3), "y1": round(end, 3)}
    return {"type": "line", "xref": "x", "yref": yref, **ends, "layer": "below"}


def _note(at: datetime, yref: str, text: str, hover_text: str) -> dict[str, Any]:
    return {
        "x": stamp(at),
        "y": 1,
        "yref": yref,
        "yanchor": "bottom",
        "text": text,
        "hovertext": escape_plotly_html(hover_text),
        "showarrow": False,
    }
