"""Metrics over time: small multiples on one x axis."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from app.charts.base import Figure, LegendEntry, Table, allocate_points
from app.charts.history import marks, traces
from app.charts.history.panels import Panel, layout_of, pad, panels_of
from app.charts.history.traces import CONFIGURATION, Series, series_of
from app.core.i18n import _, enumerated, joined, lower_first
from app.core.units import format_date, format_number, plural
from app.core.unknown_settings import has_unknown_settings
from app.db.configs import ConfigDescription
from app.metrics import HEADLINE_METRICS
from app.metrics.base import Metric
from app.results.hardware import HardwareChange
from app.results.history.level_shifts import SeriesDrift, Shift
from app.results.history.table import HistoryTable
from app.results.naming import distinct_titles

MAX_ROWS = 100


def history(
    points: HistoryTable,
    configs: Mapping[int, ConfigDescription],
    metrics: Sequence[Metric],
    run_link: Callable[[str], str],
    *,
    by: str = CONFIGURATION,
    series_link: Callable[[str], str] | None = None,
    engine_titles: Mapping[str, str] = MappingProxyType({}),
    roofs: Mapping[int, float] = MappingProxyType({}),
    shifts: Sequence[Shift] = (),
    drifts: Sequence[SeriesDrift] = (),
    hardware: Mapping[int, Sequence[HardwareChange]] = MappingProxyType({}),
) -> Figure | None:
    """One panel per metric, one colour per configuration, or per value of the configuration's field `by`.

    The series with the newest runs are drawn distinctly, the others in the background. `points` are in order of time
    with readings of `metrics`; `roofs` are decode ceilings by configuration, in tok/s; `run_link` gives the path for a
    public id, `series_link` for a fingerprint or a value of the field. None when there is nothing to draw.
    """
    if not points.has_values:
        return None
    used = points.used_configs
    titles = distinct_titles({key: config for key, config in configs.items() if key in used}, engine_titles)
    panels = panels_of(metrics)
    all_series = series_of(points, configs, titles, by, engine_titles, hardware)
    server_changes = marks.changes_of(points, configs, engine_titles, hardware)
    changed = {shift.config_id for shift in shifts} | {drift.config_id for drift in drifts}
    known = {config_id for config_id in changed if not has_unknown_settings(configs[config_id].snapshot)}
    lists = (
        marks.shift_list(shifts, metrics, titles, run_link, known),
        marks.drift_list(drifts, metrics, titles, run_link, known),
        marks.change_list(server_changes),
    )
    return Figure(
        data=_traces(points, all_series, panels, run_link, titles, roofs, shifts),
        layout=layout_of(points, panels, marks.mark_layout(server_changes, shifts, drifts, panels)),
        summary=_summary(points, configs, panels, shifts, drifts, roofs.get(points[-1].config_id)),
        table=_table(points, panels, titles, run_link),
        legend=tuple(_key(series, series_link) for series in all_series),
        marks=tuple(annotations for annotations in lists if annotations),
    )


def _key(series: Series, link: Callable[[str], str] | None) -> LegendEntry:
    leads = link(series.key) if link and series.index is not None else None
    return LegendEntry(series.index, series.title, leads, mode=series.mode)


def _traces(
    points: HistoryTable,
    all_series: Sequence[Series],
    panels: Sequence[Panel],
    run_link: Callable[[str], str],
    titles: Mapping[int, str],
    roofs: Mapping[int, float],
    shifts: Sequence[Shift],
) -> list[dict[str, object]]:
    """Returns the traces with the bands first, so that they are under every line."""
    drawn = [
        (series, panel, segments)
        for series in all_series
        for panel in panels
        if (segments := traces.segments_with_values(points, series, panel))
    ]
    limits = allocate_points([sum(map(len, segments)) for _, _, segments in drawn])
    turning = points.with_public_ids(public_id for shift in shifts for public_id in (shift.before, shift.after))
    bands = [traces.band(points, series, panel, segments) for series, panel, segments in drawn]
    lines = [
        traces.line(points, series, panel, segments, limit, run_link, titles, turning)
        for (series, panel, segments), limit in zip(drawn, limits, strict=True)
    ]
    above = [
        traces.roofs(points, series, panel, roofs, pad(points))
        for panel in panels
        if panel.metric.key == HEADLINE_METRICS[2]
        for series in all_series
    ]
    return [trace for trace in [*bands, *lines, *above] if trace]


def _table(
    points: HistoryTable, panels: Sequence[Panel], titles: Mapping[int, str], run_link: Callable[[str], str]
) -> Table:
    newest = [points[place] for place in reversed(range(max(0, len(points) - MAX_ROWS), len(points)))]
    rest = len(points) - len(newest)
    return Table(
        texts=2,
        columns=(_("Started, UTC"), _("Configuration"), *(panel.title for panel in panels)),
        rows=tuple(
            (
                f"{point.started_at:%Y-%m-%d %H:%M}",
                titles[point.config_id],
                *(format_number(point.value(panel.place)) for panel in panels),
            )
            for point in newest
        ),
        links=tuple(run_link(point.public_id) for point in newest),
        caption=_("The newest {newest} of {points:,} runs.", newest=len(newest), points=len(points)) if rest else "",
    )


def _summary(
    points: HistoryTable,
    configs: Mapping[int, ConfigDescription],
    panels: Sequence[Panel],
    shifts: Sequence[Shift],
    drifts: Sequence[SeriesDrift],
    roof: float | None,
) -> str:
    runs = _(
        "{runs} of {configurations}",
        runs=plural(len(points), "run"),
        configurations=plural(len(points.used_configs), "configuration"),
    )
    first, last = points[0].started_at, points[-1].started_at
    period = (
        _("on {day}", day=format_date(first))
        if format_date(first) == format_date(last)
        else _("from {first} to {last}", first=format_date(first), last=format_date(last))
    )
    newest = points[-1]
    values = joined(
        *(
            f"{lower_first(panel.metric.title)} {format_number(value)} {panel.metric.unit}"
            for panel in panels
            if (value := newest.value(panel.place)) is not None
        ),
        by=", ",
    )
    model = configs[newest.config_id].snapshot.model_title
    is_roof_shown = roof and any(panel.metric.key == HEADLINE_METRICS[2] for panel in panels)
    ceiling = _("; its decode ceiling, dashed, is {roof} tok/s", roof=format_number(roof)) if is_roof_shown else ""
    developments = [plural(len(shifts), "level shift")] if shifts else []
    developments += [plural(len(drifts), "slow drift")] if drifts else []
    level_shifts = _("; {shifts} within a configuration", shifts=enumerated(developments)) if developments else ""
    return _(
        "{runs} {period}; the newest, {model}, has {values}{ceiling}{shifts}.",
        runs=runs,
        period=period,
        model=model,
        values=values or _("no figures"),
        ceiling=ceiling,
        shifts=level_shifts,
    )
