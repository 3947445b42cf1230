"""TTFT, prefill and decode over time: three small multiples on one x axis."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from app.charts.base import Figure, Key, Table, shares
from app.charts.history.marks import marks_of
from app.charts.history.panels import PANELS, layout_of, pad
from app.charts.history.series import mode, roofs_of, series_of, trace
from app.charts.naming import distinct_titles
from app.configuration import Snapshot
from app.store.configs import Described
from app.store.listing import HistoryPoint
from app.units import number, plural

MAX_ROWS = 100


def history(
    points: Sequence[HistoryPoint],
    configs: Mapping[int, Described],
    run_link: Callable[[str], str],
    config_link: Callable[[str], str] | None = None,
    engine_titles: Mapping[str, str] = MappingProxyType({}),
    intervals: Mapping[tuple[str, str], tuple[float, float]] = MappingProxyType({}),
    roofs: Mapping[int, float] = MappingProxyType({}),
) -> Figure | None:
    """One series per configuration; those with the newest runs are drawn distinctly, the others in the background.

    `points` in order of time; `intervals` are the ends of the 95 % intervals to draw, by public id and metric; `roofs`
    are decode ceilings by configuration, in tok/s; `run_link` and `config_link` give the paths for a public id and a
    fingerprint. None when there is nothing to draw.
    """
    if not points:
        return None
    used = {point.config_id for point in points}
    titles = distinct_titles({key: each for key, each in configs.items() if key in used}, engine_titles)
    series = series_of(points, titles)
    marks = marks_of(points, configs, engine_titles)
    drawn = [
        (each, panel, [p for p in each.points if panel.value(p) is not None]) for each in series for panel in PANELS
    ]
    limits = shares([len(known) for _, _, known in drawn])
    traces = [
        trace(each, panel, known, limit, run_link, titles, intervals)
        for (each, panel, known), limit in zip(drawn, limits, strict=True)
        if known
    ]
    traces += roofs_of(series, roofs, pad(points))
    legend = tuple(
        Key(
            each.index,
            each.title,
            config_link(configs[each.points[0].config_id].snapshot.fingerprint)
            if config_link and each.index is not None
            else None,
            mode=mode(each),
        )
        for each in series
    )
    return Figure(
        data=traces,
        layout=layout_of(points, marks),
        summary=_summary(points, configs, roofs.get(points[-1].config_id)),
        table=_table(points, titles, run_link),
        legend=legend,
        marks=tuple(f"{_day(mark.at)}, {mark.text}" for mark in marks),
    )


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
