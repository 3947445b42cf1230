"""What changed and when: in the figure a number or a letter, below it words."""

import string
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from app.charts.base import Mark, MarkList, plain
from app.charts.history.panels import Panel, stamp
from app.compare.shifts import Shift, is_worse, moved, words
from app.configuration import changes
from app.i18n import _, pause
from app.metrics.base import Metric
from app.store.configs import Described
from app.store.hardware import HardwareChange
from app.store.history import HistoryPoint
from app.units import day

MAX_MARKS = 12
"""Of more changes, and of more shifts, the newest are marked."""


class Change(NamedTuple):
    """Of configuration or hardware."""

    at: datetime
    server: str
    said: tuple[str, ...]

    @property
    def text(self) -> str:
        return pause(": ").join((self.server, pause("; ").join(self.said)))


def changes_of(
    points: Sequence[HistoryPoint],
    configs: Mapping[int, Described],
    engine_titles: Mapping[str, str],
    hardware: Mapping[int, Sequence[HardwareChange]],
) -> list[Change]:
    """Where a server's configuration or hardware is another than at its run before; in order of time."""
    found: list[Change] = []
    before: dict[int, HistoryPoint] = {}
    words: dict[tuple[int, int], tuple[str, ...]] = {}  # a server that goes back and forth does so thousands of times
    for point in points:
        then = before.get(point.server_id)
        before[point.server_id] = point
        if then is None:
            continue
        known = hardware.get(point.server_id, ())
        said = tuple(change.text for change in known if then.started_at < change.at <= point.started_at)
        if then.config_id != point.config_id:
            pair = then.config_id, point.config_id
            if pair not in words:
                old, new = (configs[one].snapshot for one in pair)
                words[pair] = tuple(changes(old, new, engine_titles))
            said += words[pair]
        if said:
            found.append(Change(point.started_at, configs[point.config_id].server, said))
    return found


def listed(found: Sequence[Change]) -> MarkList | None:
    if not found:
        return None
    of_all = _(", the newest {shown} of {all:,}", shown=MAX_MARKS, all=len(found)) if len(found) > MAX_MARKS else ""
    marks = tuple(Mark(pause(", ").join((day(change.at), change.text))) for change in found[-MAX_MARKS:])
    return MarkList(_("Changes of configuration and hardware, numbered as in the chart{of_all}", of_all=of_all), marks)


def listed_shifts(
    shifts: Sequence[Shift], metrics: Sequence[Metric], titles: Mapping[int, str], run_link: Callable[[str], str]
) -> MarkList | None:
    if not shifts:
        return None
    of_all = _(", the newest {shown} of {all:,}", shown=MAX_MARKS, all=len(shifts)) if len(shifts) > MAX_MARKS else ""
    marks = tuple(
        Mark(
            f"{words(shift, metrics)} ({titles[shift.config_id]})",
            ((_("last run before"), run_link(shift.before)), (_("first run after"), run_link(shift.after))),
            name,
        )
        for name, shift in zip(string.ascii_uppercase, shifts[-MAX_MARKS:], strict=False)
    )
    return MarkList(_("Level shifts within one configuration, lettered as in the chart{of_all}", of_all=of_all), marks)


def drawn(found: Sequence[Change], shifts: Sequence[Shift], panels: Sequence[Panel]) -> dict[str, list[Any]]:
    """Shapes and annotations; `name` says whether a shift is for the better or the worse."""
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for number, change in enumerate(found[-MAX_MARKS:], 1):
        shapes.append(_upright(change.at, "paper"))
        notes.append(_note(change.at, "paper", str(number), change.text))
    for letter, shift in zip(string.ascii_uppercase, shifts[-MAX_MARKS:], strict=False):
        for each in shift.metrics:
            panel = panels[each.place]
            name = {"name": "worse" if is_worse(each, panel.metric) else "better"}
            shapes.append(_upright(shift.at, f"{panel.y} domain") | name)
            notes.append(_note(shift.at, f"{panel.y} domain", letter, moved(each, panel.metric)) | name)
    return {"shapes": shapes, "annotations": notes}


def _upright(at: datetime, yref: str) -> dict[str, Any]:
    x = stamp(at)
    return {"type": "line", "xref": "x", "yref": yref, "x0": x, "x1": x, "y0": 0, "y1": 1, "layer": "below"}


def _note(at: datetime, yref: str, text: str, said: str) -> dict[str, Any]:
    return {
        "x": stamp(at),
        "y": 1,
        "yref": yref,
        "yanchor": "bottom",
        "text": text,
        "hovertext": plain(said),
        "showarrow": False,
    }
