"""The series of a history: their members, names and looks, and their traces, reduced for a screen."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import isnan
from typing import Any

from app.charts.base import MAX_SERIES, downsample_minmax, escape_plotly_html
from app.charts.history.panels import Panel, stamp
from app.core.arrays import Places
from app.core.i18n import _
from app.core.units import format_number, plural, plus_minus
from app.db.configs import ConfigDescription
from app.results.fields.run import series_context, series_name, series_text
from app.results.hardware import HardwareChange
from app.results.history.table import HistoryTable, merged

CONFIGURATION = "configuration"
"""What series are made by unless a person chooses otherwise; else a key of `fields.run.series_titles`."""


@dataclass(frozen=True)
class Series:
    """One line of the chart, or all older ones together in the background."""

    index: int | None
    """None: drawn in the background."""
    key: str
    """The fingerprint of its configuration, or the text of the field that it is made by."""
    title: str
    segments: Sequence[Places]
    """Each a line of its own: the places of the runs of one configuration with one prompt on one hardware."""

    @property
    def mode(self) -> str:
        """Plotly's mode: the series in the background has no line."""
        return "markers" if self.index is None else "lines+markers"


def series_of(
    points: HistoryTable,
    configs: Mapping[int, ConfigDescription],
    titles: Mapping[int, str],
    by: str,
    engine_titles: Mapping[str, str],
    hardware: Mapping[int, Sequence[HardwareChange]],
) -> list[Series]:
    """Returns the series in the order of their newest runs; beyond MAX_SERIES, all others together are the last one."""
    grouped: dict[str, list[Places]] = {}
    for segment in points.segments(hardware, by_labels=by == "label"):
        grouped.setdefault(_key(points, int(segment[0]), configs, by, engine_titles), []).append(segment)
    newest = {key: max(points.at_us[segment[-1]] for segment in group) for key, group in grouped.items()}
    ages = {key: int(min(points.config_ids[segment[0]] for segment in group)) for key, group in grouped.items()}
    newest_first = sorted(grouped, key=newest.__getitem__, reverse=True)
    distinct, background = newest_first[:MAX_SERIES], newest_first[MAX_SERIES:]
    places = _places(sorted(grouped, key=lambda key: (ages[key], key)), distinct)
    drawn_series = []
    for key in distinct:
        name, title = key, series_name(by, key)
        if by == CONFIGURATION:
            name, title = configs[ages[key]].fingerprint, titles[ages[key]]
        drawn_series.append(Series(places[key], name, title, grouped[key]))
    if background:
        title = (
            plural(len(background), "older configuration")
            if by == CONFIGURATION
            else _("{others} others", others=len(background))
        )
        drawn_series.append(
            Series(None, "", title, [merged([segment for key in background for segment in grouped[key]])])
        )
    return drawn_series


def _key(
    points: HistoryTable,
    place: int,
    configs: Mapping[int, ConfigDescription],
    by: str,
    engine_titles: Mapping[str, str],
) -> str:
    """Returns the key of the series that a run belongs to; all runs of a segment belong to the same."""
    config_id = int(points.config_ids[place])
    if by == CONFIGURATION:
        return str(config_id)
    labels = json.loads(points.labels(place)) if by == "label" else ()
    return series_text(by, series_context(configs[config_id], engine_titles, labels))


def _places(oldest_first: Sequence[str], distinct: Collection[str]) -> dict[str, int]:
    """Returns the look of each series by its age among all, so that it keeps its look when others are added."""
    places: dict[str, int] = {}
    for age, key in enumerate(oldest_first):
        if key in distinct:
            free = [place % MAX_SERIES for place in range(age, age + MAX_SERIES)]
            places[key] = next(place for place in free if place not in places.values())
    return places


MAX_BAND = 40
"""The most steps of the band of one series in one panel."""

ValueSegments = Sequence[Places]
"""The segments of a series, without runs that have no value of one metric."""


def segments_with_values(points: HistoryTable, series: Series, panel: Panel) -> ValueSegments:
    """Returns the segments of a series, reduced to the runs that have a value of the panel's metric; without empty
    ones."""
    is_known = points.is_known(panel.place)
    with_values = [segment[is_known[segment]] for segment in series.segments]
    return [segment for segment in with_values if len(segment)]


def line(
    points: HistoryTable,
    series: Series,
    panel: Panel,
    segments: ValueSegments,
    limit: int,
    run_link: Callable[[str], str],
    titles: Mapping[int, str],
    always: Places,
) -> dict[str, Any]:
    """Returns a series' trace of measured values; its line is broken between segments. Runs in `always` are never left
    out."""
    flat = [place for segment in segments for place in segment.tolist()]
    values: list[float] = points.values(panel.place)[flat].tolist()
    starts = _segment_starts(segments)
    pinned = {0, *(i for start in starts for i in (start - 1, start)), *_places_of(flat, always)}
    indices = downsample_minmax(values, limit, pinned if len(pinned) < limit else ())
    spots = list(_with_gaps(indices, starts if series.index is not None else ()))
    runs = [flat[spot] for spot, _ in spots]
    several = len({int(points.config_ids[segment[0]]) for segment in segments}) > 1 or series.index is None
    name = "%{hovertext}" if several else escape_plotly_html(titles[int(points.config_ids[flat[0]])])
    names = [escape_plotly_html(titles[config_id]) for config_id in points.config_ids[runs].tolist()] if several else []
    texts = _point_texts(points, [flat[spot] for spot, is_gap in spots if not is_gap], panel, len(flat) <= limit)
    return {
        "type": "scatter",
        "mode": series.mode,
        "name": escape_plotly_html(series.title),
        "meta": {"series": series.index},
        "x": points.stamps(runs),
        "y": [None if is_gap else round(values[spot], 3) for spot, is_gap in spots],
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


def band(points: HistoryTable, series: Series, panel: Panel, segments: ValueSegments) -> dict[str, Any] | None:
    """Returns the band of value ± standard deviation, one outline for each segment; with many runs, neighbours share a
    step."""
    x: list[str | None] = []
    y: list[float | None] = []
    total = sum(len(segment) for segment in segments)
    for segment in segments if series.index is not None else ():
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
        "name": escape_plotly_html(series.title),
        "meta": {"series": series.index, "role": "band"},
        "x": x,
        "y": y,
        "yaxis": panel.y,
        "fill": "toself",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def roofs(
    points: HistoryTable, series: Series, panel: Panel, ceilings: Mapping[int, float], pad: timedelta
) -> dict[str, Any] | None:
    """Returns a dashed line at the decode ceiling of each configuration that has one, as long as its newest segment."""
    x: list[str | None] = []
    y: list[float | None] = []
    newest = {
        int(points.config_ids[segment[0]]): segment
        for segment in sorted(series.segments, key=lambda places: places[-1])
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
    if not x or series.index is None:
        return None
    return {
        "type": "scatter",
        "mode": "lines",
        "name": escape_plotly_html(series.title),
        "meta": {"series": series.index, "role": "roof"},
        "x": x,
        "y": y,
        "yaxis": panel.y,
        "hovertemplate": (
            f"{escape_plotly_html(series.title)}<br>{_('Ceiling')} %{{y:,.4~r}} {panel.metric.unit}<extra></extra>"
        ),
        "showlegend": False,
    }
