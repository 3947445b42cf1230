"""The series of a history as Plotly's traces, reduced to what a screen can show."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import add, sub
from typing import Any

from app.charts.base import plain, reduce
from app.charts.history.panels import Panel, stamp
from app.charts.history.series import Series
from app.i18n import _
from app.store.history import HistoryPoint
from app.units import number, plus_minus

MAX_BAND = 40
"""So many steps are enough for the band of one series in one panel."""

Known = Sequence[Sequence[HistoryPoint]]
"""The stretches of a series, without runs that have no value of one metric."""


def known_of(series: Series, panel: Panel) -> Known:
    place = 3 * panel.place
    found = [[point for point in stretch if point.readings[place] is not None] for stretch in series.stretches]
    return [stretch for stretch in found if stretch]


def line(
    series: Series,
    panel: Panel,
    known: Known,
    limit: int,
    run_link: Callable[[str], str],
    titles: Mapping[int, str],
    always: Collection[str],
) -> dict[str, Any]:
    """Measured values; a line is broken between stretches. Runs in `always` are never left out."""
    flat = [point for stretch in known for point in stretch]
    values: list[float] = [point.readings[3 * panel.place] for point in flat]
    starts = _starts(known)
    wanted = {0, *(i for start in starts for i in (start - 1, start)), *_places_of(flat, always)}
    kept = reduce(values, limit, wanted if len(wanted) < limit else ())
    spots = list(_broken(kept, starts if series.index is not None else ()))
    runs = [flat[spot] for spot, _ in spots]
    several = len({stretch[0].config_id for stretch in known}) > 1 or series.index is None
    name = "%{hovertext}" if several else plain(titles[flat[0].config_id])
    more = {"hovertext": [plain(titles[run.config_id]) for run in runs]} if several else {}
    return {
        "type": "scatter",
        "mode": series.mode,
        "name": plain(series.title),
        "meta": {"series": series.index},
        "x": [stamp(run.started_at) for run in runs],
        "y": [None if is_gap else round(values[spot], 3) for spot, is_gap in spots],
        "yaxis": panel.y,
        "customdata": [run_link(run.public_id) for run in runs],
        "text": [None if is_gap else _said(flat[spot], panel, len(flat) <= limit) for spot, is_gap in spots],
        **more,
        "hovertemplate": f"{name}<br>{panel.metric.title} %{{text}}<br>{_('%{x|%d %b %Y, %H:%M} UTC')}<extra></extra>",
        "showlegend": False,
    }


def _said(point: HistoryPoint, panel: Panel, with_spread: bool) -> str:
    """Of very many runs the band says enough of their spread."""
    value = point.value(panel.place)
    spread = plus_minus(value, point.deviation(panel.place)) if with_spread else ""
    return " ".join(filter(None, [number(value), spread, panel.metric.unit]))


def _starts(known: Known) -> list[int]:
    """Places among all values at which another stretch begins."""
    found, at = [], 0
    for stretch in known[:-1]:
        at += len(stretch)
        found.append(at)
    return found


def _places_of(flat: Sequence[HistoryPoint], always: Collection[str]) -> list[int]:
    return [place for place, point in enumerate(flat) if point.public_id in always] if always else []


def _broken(kept: Sequence[int], starts: Sequence[int]) -> Iterator[tuple[int, bool]]:
    """Each kept place, and before a start a gap."""
    waiting = iter([*starts, None])
    start = next(waiting)
    for spot in kept:
        if start is not None and spot >= start:
            yield spot, True
            while start is not None and spot >= start:
                start = next(waiting)
        yield spot, False


def band(series: Series, panel: Panel, known: Known) -> dict[str, Any] | None:
    """Value ± standard deviation as one outline for each stretch; of very many runs, of neighbours together."""
    x: list[str | None] = []
    y: list[float | None] = []
    total = sum(len(stretch) for stretch in known)
    for stretch in known:
        steps = list(_steps(stretch, panel, max(2, MAX_BAND * len(stretch) // total)))
        if len(steps) < 2:
            continue
        if x:
            x.append(None)
            y.append(None)
        ways = [(at, low) for at, low, _ in steps] + [(at, high) for at, _, high in reversed(steps)]
        x += [stamp(at) for at, _ in ways]
        y += [round(end, 3) for _, end in ways]
    if not x or series.index is None:
        return None
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(series.title),
        "meta": {"series": series.index, "role": "band"},
        "x": x,
        "y": y,
        "yaxis": panel.y,
        "fill": "toself",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _steps(stretch: Sequence[HistoryPoint], panel: Panel, limit: int) -> Iterator[tuple[datetime, float, float]]:
    """When, lowest and highest; nothing unless every run says how far its samples spread."""
    place, count = 3 * panel.place, len(stretch)
    values: list[float] = [point.readings[place] for point in stretch]
    deviations = [point.readings[place + 1] for point in stretch]
    if None in deviations:
        return
    lows, highs = list(map(sub, values, deviations)), list(map(add, values, deviations))
    steps = min(count, limit)
    for step in range(steps):
        begin, end = step * count // steps, (step + 1) * count // steps
        middle = 0 if step == 0 else count - 1 if step == steps - 1 else (begin + end) // 2
        yield stretch[middle].started_at, max(0.0, min(lows[begin:end])), max(highs[begin:end])


def roofs(series: Series, panel: Panel, ceilings: Mapping[int, float], pad: timedelta) -> dict[str, Any] | None:
    """A dashed line over the speeds of each configuration whose ceiling is known, as long as its newest stretch is."""
    x: list[str | None] = []
    y: list[float | None] = []
    newest = {
        stretch[0].config_id: stretch for stretch in sorted(series.stretches, key=lambda each: each[-1].started_at)
    }
    for config_id, stretch in newest.items():
        ceiling = ceilings.get(config_id)
        if ceiling is None:
            continue
        if x:
            x.append(None)
            y.append(None)
        x += [stamp(stretch[0].started_at - pad / 2), stamp(stretch[-1].started_at + pad / 2)]
        y += [round(ceiling, 3)] * 2
    if not x or series.index is None:
        return None
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(series.title),
        "meta": {"series": series.index, "role": "roof"},
        "x": x,
        "y": y,
        "yaxis": panel.y,
        "hovertemplate": f"{plain(series.title)}<br>{_('Ceiling')} %{{y:,.4~r}} {panel.metric.unit}<extra></extra>",
        "showlegend": False,
    }
