"""Marks of a history: what happened, as labelled lines; level shifts and drifts, as letters with words below."""

import string
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from math import exp
from typing import Any, NamedTuple

from app.charts.base import Annotation, AnnotationList, escape_plotly_html
from app.charts.history.panels import Panel, stamp
from app.core.i18n import _
from app.metrics.base import Metric
from app.results.history.level_shifts import SeriesDrift, Shift, drift_words, is_worse, moved, rate, shift_words

MAX_MARKS = 12
"""The most shifts, and the most drifts, to mark: the newest."""
MAX_EVENTS = 60


class Event(NamedTuple):
    """What happened at a moment, to be marked above all panels: an update, other hardware, a person's note."""

    at: datetime
    label: str
    """A word or two, shown beside the mark where there is room."""
    text: str
    """A sentence, shown under the pointer."""
    kind: str = ""
    """better or worse, for an update that changed a speed; or note."""


def shift_list(
    shifts: Sequence[Shift],
    metrics: Sequence[Metric],
    titles: Mapping[int, str],
    run_link: Callable[[str], str],
    known_config_ids: Collection[int],
) -> AnnotationList | None:
    """Returns the list below the chart that explains the level shifts, which have capital letters; None without any.
    `known_config_ids` are the configurations all of whose settings are known."""
    if not shifts:
        return None
    of_all = _(", the newest {shown} of {all:,}", shown=MAX_MARKS, all=len(shifts)) if len(shifts) > MAX_MARKS else ""
    marks = tuple(
        Annotation(
            f"{shift_words(shift, metrics, is_known=shift.config_id in known_config_ids)} ({titles[shift.config_id]})",
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
    known_config_ids: Collection[int],
) -> AnnotationList | None:
    """Returns the list below the chart that explains the drifts, which have small letters; None without any.
    `known_config_ids` are the configurations all of whose settings are known."""
    if not drifts:
        return None
    of_all = _(", the newest {shown} of {all:,}", shown=MAX_MARKS, all=len(drifts)) if len(drifts) > MAX_MARKS else ""
    marks = tuple(
        Annotation(
            f"{drift_words(drift, metrics, is_known=drift.config_id in known_config_ids)} ({titles[drift.config_id]})",
            ((_("first run"), run_link(drift.first)), (_("newest run"), run_link(drift.last))),
            name,
        )
        for name, drift in zip(string.ascii_lowercase, drifts[-MAX_MARKS:], strict=False)
    )
    return AnnotationList(
        _("Slow drifts within one configuration, lettered as in the chart{of_all}", of_all=of_all), marks
    )


def mark_layout(
    events: Sequence[Event], shifts: Sequence[Shift], drifts: Sequence[SeriesDrift], panels: Sequence[Panel]
) -> dict[str, list[Any]]:
    """Returns Plotly's shapes and annotations for all marks; `name` says whether one is for the better or the worse."""
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for event in events[-MAX_EVENTS:]:
        name = {"name": event.kind} if event.kind else {}
        shapes.append(_upright(event.at, "paper") | name)
        notes.append(_note(event.at, "paper", escape_plotly_html(event.label), event.text) | name)
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
