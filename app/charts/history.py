"""TTFT, prefill and decode over time: three small multiples on one x axis."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from app.charts.base import MAX_SERIES, Figure, Key, Table, axis, plain, reduce, shares
from app.charts.naming import distinct_titles
from app.configuration import Snapshot, changes
from app.store.configs import Described
from app.store.hardware import HardwareChange
from app.store.listing import HistoryPoint
from app.units import number, plural

MAX_MARKS = 12
"""Of more changes, the newest are marked."""
MAX_ROWS = 100


@dataclass(frozen=True)
class Panel:
    title: str
    said: str
    """The title within a sentence."""
    unit: str
    metric: str
    y: str
    domain: tuple[float, float]

    def value(self, point: HistoryPoint) -> float | None:
        found: float | None = getattr(point, self.metric)
        return found


PANELS = (
    Panel("TTFT", "TTFT", "ms", "ttft_ms", "y", (0.71, 1.0)),
    Panel("Prefill", "prefill", "tok/s", "prefill_tokens_per_s", "y2", (0.355, 0.645)),
    Panel("Decode", "decode", "tok/s", "decode_tokens_per_s", "y3", (0.0, 0.29)),
)


@dataclass(frozen=True)
class _Series:
    index: int | None
    title: str
    points: Sequence[HistoryPoint]


def history(
    points: Sequence[HistoryPoint],
    configs: Mapping[int, Described],
    run_link: Callable[[str], str],
    config_link: Callable[[str], str] | None = None,
    engine_titles: Mapping[str, str] = MappingProxyType({}),
    intervals: Mapping[tuple[str, str], tuple[float, float]] = MappingProxyType({}),
    roofs: Mapping[int, float] = MappingProxyType({}),
    hardware: Mapping[int, Sequence[HardwareChange]] = MappingProxyType({}),
) -> Figure | None:
    """One series per configuration, broken where the hardware changed.

    Those with the newest runs are drawn distinctly, the others in the background.

    `points` in order of time; `intervals` are the ends of the 95 % intervals to draw, by public id and metric;
    `roofs` are decode ceilings by configuration, in tok/s; `hardware` are its changes by server, in order of time;
    `run_link` and `config_link` give the paths for a public id and a fingerprint. None when there is nothing to
    draw.
    """
    if not points:
        return None
    used = {point.config_id for point in points}
    titles = distinct_titles({key: each for key, each in configs.items() if key in used}, engine_titles)
    series = _series(points, titles)
    marks = _marks(points, configs, engine_titles, hardware)
    drawn = [
        (each, panel, [p for p in part if panel.value(p) is not None])
        for each in series
        for panel in PANELS
        for part in _unbroken(each, hardware)
    ]
    limits = shares([len(known) for _, _, known in drawn])
    traces = [
        _trace(each, panel, known, limit, run_link, titles, intervals)
        for (each, panel, known), limit in zip(drawn, limits, strict=True)
        if known
    ]
    traces += _roofs(series, roofs, _pad(points), hardware)
    legend = tuple(
        Key(
            each.index,
            each.title,
            config_link(configs[each.points[0].config_id].snapshot.fingerprint)
            if config_link and each.index is not None
            else None,
            mode=_mode(each),
        )
        for each in series
    )
    return Figure(
        data=traces,
        layout=_layout(points, marks),
        summary=_summary(points, configs, roofs.get(points[-1].config_id)),
        table=_table(points, titles, run_link),
        legend=legend,
        marks=tuple(f"{_day(mark.at)}, {mark.text}" for mark in marks),
    )


def _changed(hardware: Mapping[int, Sequence[HardwareChange]], then: HistoryPoint, today: HistoryPoint) -> list[str]:
    known = hardware.get(today.server_id, ())
    return [change.text for change in known if then.started_at < change.at <= today.started_at]


def _unbroken(series: _Series, hardware: Mapping[int, Sequence[HardwareChange]]) -> list[Sequence[HistoryPoint]]:
    """The stretches of a series on one and the same hardware."""
    if series.index is None:
        return [series.points]
    ends = [place for place, pair in enumerate(pairwise(series.points), 1) if _changed(hardware, *pair)]
    return [series.points[start:end] for start, end in pairwise([0, *ends, len(series.points)])]


def _series(points: Sequence[HistoryPoint], titles: Mapping[int, str]) -> list[_Series]:
    by_config: dict[int, list[HistoryPoint]] = {}
    for point in points:
        by_config.setdefault(point.config_id, []).append(point)
    newest_first = sorted(by_config, key=lambda config: by_config[config][-1].started_at, reverse=True)
    distinct, others = newest_first[:MAX_SERIES], set(newest_first[MAX_SERIES:])
    places = _places(sorted(by_config), distinct)
    found = [_Series(places[config], titles[config], by_config[config]) for config in distinct]
    if others:
        title = plural(len(others), "older configuration")
        found.append(_Series(None, title, [point for point in points if point.config_id in others]))
    return found


def _places(all_configs: Sequence[int], distinct: Collection[int]) -> dict[int, int]:
    """Which of the looks each configuration has: by its age among all, so that it keeps it when others come."""
    places: dict[int, int] = {}
    for age, config in enumerate(all_configs):
        if config in distinct:
            free = [place % MAX_SERIES for place in range(age, age + MAX_SERIES)]
            places[config] = next(place for place in free if place not in places.values())
    return places


def _mode(series: _Series) -> str:
    """Points of several configurations make no line."""
    return "markers" if series.index is None else "lines+markers"


def _trace(
    series: _Series,
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
        "mode": _mode(series),
        "name": plain(series.title),
        "meta": {"series": series.index},
        "x": [_stamp(known[i].started_at) for i in kept],
        "y": [round(values[i], 3) for i in kept],
        "yaxis": panel.y,
        "customdata": [run_link(known[i].public_id) for i in kept],
        "text": [number(values[i]) for i in kept],
        **({} if is_one else {"hovertext": [plain(titles[known[i].config_id]) for i in kept]}),
        **_error_bars([(values[i], intervals.get((known[i].public_id, panel.metric))) for i in kept]),
        "hovertemplate": f"{name}<br>{panel.title} %{{text}} {panel.unit}<br>%{{x|%d %b %Y, %H:%M}} UTC<extra></extra>",
        "showlegend": False,
    }


def _roofs(
    series: Sequence[_Series],
    roofs: Mapping[int, float],
    pad: timedelta,
    hardware: Mapping[int, Sequence[HardwareChange]],
) -> list[dict[str, Any]]:
    """A dashed line over the decode speeds of each configuration, as long as it was in use on its newest hardware."""
    traces = []
    for each in series:
        ceiling = roofs.get(each.points[0].config_id)
        if each.index is None or ceiling is None:
            continue
        newest = _unbroken(each, hardware)[-1]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(each.title),
                "meta": {"series": each.index, "role": "roof"},
                "x": [_stamp(newest[0].started_at - pad / 2), _stamp(newest[-1].started_at + pad / 2)],
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


def _table(points: Sequence[HistoryPoint], titles: Mapping[int, str], run_link: Callable[[str], str]) -> Table:
    newest = points[: -MAX_ROWS - 1 : -1]
    rest = len(points) - len(newest)
    return Table(
        texts=2,
        columns=("Started, UTC", "Configuration", *(f"{panel.title} {panel.unit}" for panel in PANELS)),
        rows=tuple(
            (
                f"{point.started_at:%Y-%m-%d %H:%M}",
                titles[point.config_id],
                *(number(panel.value(point)) for panel in PANELS),
            )
            for point in newest
        ),
        links=tuple(run_link(point.public_id) for point in newest),
        caption=f"The newest {len(newest)} of {len(points):,} runs." if rest else "",
    )


@dataclass(frozen=True)
class _Mark:
    at: datetime
    text: str


def _marks(
    points: Sequence[HistoryPoint],
    configs: Mapping[int, Described],
    engine_titles: Mapping[str, str],
    hardware: Mapping[int, Sequence[HardwareChange]],
) -> list[_Mark]:
    """Where a server's configuration or hardware differs from that of its run before, in words."""
    by_server: dict[int, list[HistoryPoint]] = {}
    for point in points:
        by_server.setdefault(point.server_id, []).append(point)
    marks = []
    for runs in by_server.values():
        for then, today in pairwise(runs):
            said = _changed(hardware, then, today)
            if then.config_id != today.config_id:
                said += changes(configs[then.config_id].snapshot, configs[today.config_id].snapshot, engine_titles)
            if said:
                marks.append(_Mark(today.started_at, f"{configs[today.config_id].server}: {'; '.join(said)}"))
    return sorted(marks, key=lambda mark: mark.at)[-MAX_MARKS:]


def _layout(points: Sequence[HistoryPoint], marks: Sequence[_Mark]) -> dict[str, Any]:
    first, last = points[0].started_at, points[-1].started_at
    pad = _pad(points)
    layout: dict[str, Any] = {
        "xaxis": {
            "title": {"text": "Started, UTC"},
            "type": "date",
            "range": [_stamp(first - pad), _stamp(last + pad)],
            "anchor": "y3",
        },
        "hovermode": "closest",
        "dragmode": "zoom",
        "shapes": [
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": _stamp(mark.at),
                "x1": _stamp(mark.at),
                "y0": 0,
                "y1": 1,
                "layer": "below",
            }
            for mark in marks
        ],
        "annotations": [
            {
                "x": _stamp(mark.at),
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "text": str(place),
                "hovertext": plain(mark.text),
                "showarrow": False,
            }
            for place, mark in enumerate(marks, 1)
        ],
    }
    for panel in PANELS:
        layout[panel.y.replace("y", "yaxis")] = axis(f"{panel.title} {panel.unit}", domain=list(panel.domain), nticks=5)
    return layout


def _pad(points: Sequence[HistoryPoint]) -> timedelta:
    return max((points[-1].started_at - points[0].started_at) * 0.03, timedelta(minutes=10))


def _summary(points: Sequence[HistoryPoint], configs: Mapping[int, Described], roof: float | None) -> str:
    used = {point.config_id for point in points}
    said = f"{plural(len(points), 'run')} of {plural(len(used), 'configuration')}"
    first, last = points[0].started_at, points[-1].started_at
    when = f"on {_day(first)}" if _day(first) == _day(last) else f"from {_day(first)} to {_day(last)}"
    newest = points[-1]
    figures = ", ".join(f"{p.said} {number(value)} {p.unit}" for p in PANELS if (value := p.value(newest)) is not None)
    model = _named(configs[newest.config_id].snapshot)
    ceiling = f"; its decode ceiling, dashed, is {number(roof)} tok/s" if roof else ""
    return f"{said} {when}; the newest, {model}, has {figures or 'no figures'}{ceiling}."


def _named(snapshot: Snapshot) -> str:
    return f"{snapshot.model} {snapshot.quantization or ''}".strip()


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


def _stamp(moment: datetime) -> str:
    """UTC, as Plotly reads it: it knows no zones."""
    return f"{moment:%Y-%m-%d %H:%M:%S}"
