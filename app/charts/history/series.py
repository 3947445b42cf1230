"""Which lines a history has, and what they look like."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from app.charts.base import MAX_SERIES, plain, reduce
from app.charts.history.panels import PANELS, Panel, stamp
from app.store.listing import HistoryPoint
from app.units import number, plural


@dataclass(frozen=True)
class Series:
    index: int | None
    title: str
    points: Sequence[HistoryPoint]


def series_of(points: Sequence[HistoryPoint], titles: Mapping[int, str]) -> list[Series]:
    by_config: dict[int, list[HistoryPoint]] = {}
    for point in points:
        by_config.setdefault(point.config_id, []).append(point)
    newest_first = sorted(by_config, key=lambda config: by_config[config][-1].started_at, reverse=True)
    distinct, others = newest_first[:MAX_SERIES], set(newest_first[MAX_SERIES:])
    places = _places(sorted(by_config), distinct)
    found = [Series(places[config], titles[config], by_config[config]) for config in distinct]
    if others:
        title = plural(len(others), "older configuration")
        found.append(Series(None, title, [point for point in points if point.config_id in others]))
    return found


def _places(all_configs: Sequence[int], distinct: Collection[int]) -> dict[int, int]:
    """Which of the looks each configuration has: by its age among all, so that it keeps it when others come."""
    places: dict[int, int] = {}
    for age, config in enumerate(all_configs):
        if config in distinct:
            free = [place % MAX_SERIES for place in range(age, age + MAX_SERIES)]
            places[config] = next(place for place in free if place not in places.values())
    return places


def mode(series: Series) -> str:
    """Points of several configurations make no line."""
    return "markers" if series.index is None else "lines+markers"


def trace(
    series: Series,
    panel: Panel,
    known: Sequence[HistoryPoint],
    limit: int,
    run_link: Callable[[str], str],
    titles: Mapping[int, str],
    intervals: Mapping[tuple[str, str], tuple[float, float]],
) -> dict[str, Any]:
    values = [value for point in known if (value := panel.value(point)) is not None]
    kept = reduce(values, limit)
    is_one = series.index is not None
    name = plain(series.title) if is_one else "%{hovertext}"
    return {
        "type": "scatter",
        "mode": mode(series),
        "name": plain(series.title),
        "meta": {"series": series.index},
        "x": [stamp(known[i].started_at) for i in kept],
        "y": [round(values[i], 3) for i in kept],
        "yaxis": panel.y,
        "customdata": [run_link(known[i].public_id) for i in kept],
        "text": [number(values[i]) for i in kept],
        **({} if is_one else {"hovertext": [plain(titles[known[i].config_id]) for i in kept]}),
        **_error_bars([(values[i], intervals.get((known[i].public_id, panel.metric))) for i in kept]),
        "hovertemplate": f"{name}<br>{panel.title} %{{text}} {panel.unit}<br>%{{x|%d %b %Y, %H:%M}} UTC<extra></extra>",
        "showlegend": False,
    }


def roofs_of(series: Sequence[Series], roofs: Mapping[int, float], pad: timedelta) -> list[dict[str, Any]]:
    """A dashed line over the decode speeds of each configuration, as long as it was in use."""
    traces = []
    for each in series:
        ceiling = roofs.get(each.points[0].config_id)
        if each.index is None or ceiling is None:
            continue
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(each.title),
                "meta": {"series": each.index, "role": "roof"},
                "x": [stamp(each.points[0].started_at - pad / 2), stamp(each.points[-1].started_at + pad / 2)],
                "y": [round(ceiling, 3)] * 2,
                "yaxis": PANELS[-1].y,
                "hovertemplate": f"{plain(each.title)}<br>Ceiling %{{y:,.4~r}} tok/s<extra></extra>",
                "showlegend": False,
            }
        )
    return traces


def _error_bars(known: Sequence[tuple[float, tuple[float, float] | None]]) -> dict[str, Any]:
    """Of values with the ends of their intervals; nothing where no value has one."""
    if not any(ends for _, ends in known):
        return {}
    filled = [(value, ends or (value, value)) for value, ends in known]
    return {
        "error_y": {
            "symmetric": False,
            "array": [round(max(0.0, high - value), 3) for value, (_, high) in filled],
            "arrayminus": [round(max(0.0, value - low), 3) for value, (low, _) in filled],
        }
    }
