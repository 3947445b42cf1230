"""The traces of a history's lines, reduced for a screen."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from math import isnan
from typing import Any

from app.charts.base import downsample_minmax, escape_plotly_html
from app.charts.history.lines import Line
from app.charts.history.panels import Panel, stamp
from app.core.arrays import Places, np
from app.core.i18n import _
from app.core.units import format_number, plus_minus
from app.results.history.table import HistoryTable

MAX_BAND = 40
"""The most steps of the band of one line in one panel."""

ValueSegments = Sequence[Places]
"""The segments of a line, without runs that have no value of one metric."""


def segments_with_values(points: HistoryTable, line: Line, panel: Panel) -> ValueSegments:
    """Returns the segments of a line, reduced to the runs that have a value of the panel's metric; without empty
    ones."""
    is_known = points.is_known(panel.place)
    with_values = [segment[is_known[segment]] for segment in line.segments]
    return [segment for segment in with_values if len(segment)]


def values(
    points: HistoryTable,
    line: Line,
    panel: Panel,
    segments: ValueSegments,
    limit: int,
    run_link: Callable[[str], str],
    titles: Mapping[int, str],
    always: Places,
) -> dict[str, Any]:
    """Returns a line's trace of measured values; it is broken between segments. Runs in `always` are never left
    out."""
    flat = [place for segment in segments for place in segment.tolist()]
    all_values: list[float] = points.values(panel.place)[flat].tolist()
    starts = _segment_starts(segments)
    pinned = {0, *(i for start in starts for i in (start - 1, start)), *_places_of(flat, always)}
    indices = downsample_minmax(all_values, limit, pinned if len(pinned) < limit else ())
    spots = list(_with_gaps(indices, starts if line.look is not None else ()))
    runs = [flat[spot] for spot, _ in spots]
    several = len(np.unique(points.config_ids[flat])) > 1 or line.look is None
    name = "%{hovertext}" if several else escape_plotly_html(titles[int(points.config_ids[flat[0]])])
    names = [escape_plotly_html(titles[config_id]) for config_id in points.config_ids[runs].tolist()] if several else []
    texts = _point_texts(points, [flat[spot] for spot, is_gap in spots if not is_gap], panel, len(flat) <= limit)
    return {
        "type": "scatter",
        "mode": line.mode,
        "name": escape_plotly_html(line.title),
        "meta": line.meta,
        "x": points.stamps(runs),
        "y": [None if is_gap else round(all_values[spot], 3) for spot, is_gap in spots],
        "yaxis": panel.y,
        "customdata": [run_link(public_id) for public_id in points.public_ids(runs)],
        "text": [None if is_gap else next(texts) for _, is_gap in spots],
        **({"hovertext": names} if several else {}),
        "hovertemplate": f"{name}<br>{panel.metric.title} %{{text}}<br>{_('%{x|%d %b %Y, %H:%M} UTC')}<extra></extra>",
        "showlegend": False,
    }


def _point_texts(points: HistoryTable, places: Sequence[int], panel: Panel, with_spread: bool) -> Iterator[str]:
    """Returns the texts of points; with very many runs the band shows their spread well enough."""
    columns = (points.values(panel.place)[places].tolist(), points.deviations(panel.place)[places].tolist())
    for value, deviation in zip(*columns, strict=True):
        spread = plus_minus(value, deviation) if with_spread and not isnan(deviation) else ""
        yield " ".join(filter(None, [format_number(value), spread, panel.metric.unit]))


def _segment_starts(segments: ValueSegments) -> list[int]:
    """Returns the places among all values at which another segment begins."""
    starts, offset = [], 0
    for segment in segments[:-1]:
        offset += len(segment)
        starts.append(offset)
    return starts


def _places_of(flat: Sequence[int], always: Places) -> list[int]:
    if not len(always):
        return []
    pinned = set(always.tolist())
    return [spot for spot, place in enumerate(flat) if place in pinned]


def _with_gaps(indices: Sequence[int], starts: Sequence[int]) -> Iterator[tuple[int, bool]]:
    """Returns the kept places, with a gap before each start of a segment."""
    waiting = iter([*starts, None])
    start = next(waiting)
    for spot in indices:
        if start is not None and spot >= start:
            yield spot, True
            while start is not None and spot >= start:
                start = next(waiting)
        yield spot, False


def band(points: HistoryTable, line: Line, panel: Panel, segments: ValueSegments) -> dict[str, Any] | None:
    """Returns the band of value ± standard deviation, one outline for each segment; with many runs, neighbours share a
    step."""
    x: list[str | None] = []
    y: list[float | None] = []
    total = sum(len(segment) for segment in segments)
    for segment in segments if line.look is not None else ():
        steps = points.spread(panel.place, segment, max(2, MAX_BAND * len(segment) // total))
        if steps is None or len(steps.places) < 2:
            continue
        if x:
            x.append(None)
            y.append(None)
        at = points.stamps(steps.places)
        x += [*at, *reversed(at)]
        y += [round(end, 3) for end in [*steps.lows, *reversed(steps.highs)]]
    if not x:
        return None
    return {
        "type": "scatter",
        "mode": "lines",
        "name": escape_plotly_html(line.title),
        "meta": {**line.meta, "role": "band"},
        "x": x,
        "y": y,
        "yaxis": panel.y,
        "fill": "toself",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def roofs(
    points: HistoryTable, line: Line, panel: Panel, ceilings: Mapping[int, float], pad: timedelta
) -> dict[str, Any] | None:
    """Returns a dashed line at the decode ceiling of each configuration that has one, as long as its newest segment."""
    x: list[str | None] = []
    y: list[float | None] = []
    newest = {
        int(points.config_ids[segment[0]]): segment for segment in sorted(line.segments, key=lambda places: places[-1])
    }
    for config_id, segment in newest.items():
        ceiling = ceilings.get(config_id)
        if ceiling is None:
            continue
        if x:
            x.append(None)
            y.append(None)
        first, last = points.started_at(segment[0]), points.started_at(segment[-1])
        x += [stamp(first - pad / 2), stamp(last + pad / 2)]
        y += [round(ceiling, 3)] * 2
    if not x or line.look is None:
        return None
    return {
        "type": "scatter",
        "mode": "lines",
        "name": escape_plotly_html(line.title),
        "meta": {**line.meta, "role": "roof"},
        "x": x,
        "y": y,
        "yaxis": panel.y,
        "hovertemplate": (
            f"{escape_plotly_html(line.title)}<br>{_('Ceiling')} %{{y:,.4~r}} {panel.metric.unit}<extra></extra>"
        ),
        "showlegend": False,
    }
