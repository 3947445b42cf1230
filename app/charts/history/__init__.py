"""Metrics over time: small multiples on one x axis."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from app.charts.base import MAX_POINTS, MAX_SERIES, Figure, Table, allocate_points
from app.charts.history import marks, traces
from app.charts.history.lines import CONFIGURATION, SERIES, Line, lines_of
from app.charts.history.marks import Event
from app.charts.history.panels import Panel, Span, layout_of, panels_of
from app.core.arrays import np
from app.core.i18n import _, enumerated, joined, lower_first, ngettext
from app.core.units import format_date, format_number, plural
from app.core.unknown_settings import has_unknown_settings
from app.db.configs import ConfigDescription
from app.metrics import HEADLINE_METRICS
from app.metrics.base import Metric
from app.results.hardware import HardwareChange
from app.results.history.level_shifts import SeriesDrift, Shift
from app.results.history.table import HistoryTable
from app.results.naming import distinct_titles
from app.results.series import SeriesIndex

MAX_ROWS = 100
ROOF_REACH = 1.25
"""Ceilings up to this many times the highest value are drawn unasked: a higher one would squeeze the lines."""


@dataclass(frozen=True)
class HistoryLook:
    """How a history is drawn."""

    by: str = CONFIGURATION
    """What its lines are made by: SERIES, CONFIGURATION or a field of the configuration."""
    is_from_zero: bool = True
    """Whether value axes begin at zero, or else fit the data."""
    has_roofs: bool = False
    """Whether all decode ceilings are drawn; else only those near the lines of a few series."""
    span: Span | None = None
    """The time to show; None: that of the runs."""
    max_points: int = MAX_POINTS
    max_rows: int = MAX_ROWS


def history(
    points: HistoryTable,
    configs: Mapping[int, ConfigDescription],
    metrics: Sequence[Metric],
    run_link: Callable[[str], str],
    *,
    look: HistoryLook | None = None,
    index: SeriesIndex | None = None,
    line_link: Callable[[str], str] | None = None,
    engine_titles: Mapping[str, str] = MappingProxyType({}),
    roofs: Mapping[int, float] = MappingProxyType({}),
    events: Sequence[Event] = (),
    shifts: Sequence[Shift] = (),
    drifts: Sequence[SeriesDrift] = (),
    hardware: Mapping[int, Sequence[HardwareChange]] = MappingProxyType({}),
) -> Figure | None:
    """One panel per metric, one line per series, configuration, or value of a field.

    `points` are in order of time with readings of `metrics`; `index` is needed for lines of series; `roofs` are decode
    ceilings by configuration, in tok/s; `run_link` gives the path for a public id, `line_link` for the key of a line.
    None when there is nothing to draw.
    """
    if not points.has_values:
        return None
    look = look or HistoryLook()
    titles = _titles(points, configs, look, index, engine_titles)
    panels = panels_of(metrics, look.is_from_zero)
    lines = lines_of(points, configs, titles, look.by, engine_titles, hardware, index)
    span = look.span or Span.of(points)
    drawn_roofs = roofs if look.has_roofs else _near_roofs(points, panels, lines, roofs)
    changed = {shift.config_id for shift in shifts} | {drift.config_id for drift in drifts}
    known_config_ids = {config_id for config_id in changed if not has_unknown_settings(configs[config_id].snapshot)}
    lists = (
        marks.shift_list(shifts, metrics, titles, run_link, known_config_ids),
        marks.drift_list(drifts, metrics, titles, run_link, known_config_ids),
    )
    return Figure(
        data=_traces(points, lines, panels, run_link, titles, drawn_roofs, shifts, look, span),
        layout=layout_of(span, panels, marks.mark_layout(events, shifts, drifts, panels)),
        summary=_summary(points, configs, panels, lines, shifts, drifts, drawn_roofs.get(points[-1].config_id)),
        table=_table(points, panels, titles, run_link, look.max_rows),
        legend=tuple(line.legend_entry(line_link) for line in lines),
        marks=tuple(annotations for annotations in lists if annotations),
    )


def _titles(
    points: HistoryTable,
    configs: Mapping[int, ConfigDescription],
    look: HistoryLook,
    index: SeriesIndex | None,
    engine_titles: Mapping[str, str],
) -> dict[int, str]:
    """Returns a title for each configuration: that of its series with the version, or one that is distinct."""
    used = points.used_configs
    if look.by != SERIES or index is None:
        return distinct_titles({key: config for key, config in configs.items() if key in used}, engine_titles)
    series_titles = index.titles({index.by_config[config_id].id for config_id in used}, engine_titles)
    return {
        config_id: " · ".join(filter(None, [series_titles[index.by_config[config_id].id], index.version(config_id)]))
        for config_id in used
    }


def _near_roofs(
    points: HistoryTable, panels: Sequence[Panel], lines: Sequence[Line], roofs: Mapping[int, float]
) -> Mapping[int, float]:
    """Returns the ceilings that are drawn unasked."""
    places = [panel.place for panel in panels if panel.metric.key == HEADLINE_METRICS[2]]
    if not places or len(lines) > MAX_SERIES or not points.is_known(places[0]).any():
        return {}
    limit = ROOF_REACH * float(np.nanmax(points.values(places[0])))
    return {config_id: roof for config_id, roof in roofs.items() if roof <= limit}


def _traces(
    points: HistoryTable,
    lines: Sequence[Line],
    panels: Sequence[Panel],
    run_link: Callable[[str], str],
    titles: Mapping[int, str],
    roofs: Mapping[int, float],
    shifts: Sequence[Shift],
    look: HistoryLook,
    span: Span,
) -> list[dict[str, object]]:
    """Returns the traces with the bands first, so that they are under every line."""
    drawn = [
        (line, panel, segments)
        for line in lines
        for panel in panels
        if (segments := traces.segments_with_values(points, line, panel))
    ]
    limits = allocate_points([sum(map(len, segments)) for _, _, segments in drawn], look.max_points)
    turning = points.with_public_ids(public_id for shift in shifts for public_id in (shift.before, shift.after))
    # of many lines the bands would only cover each other
    banded = drawn if len(lines) <= MAX_SERIES else []
    bands = [traces.band(points, line, panel, segments) for line, panel, segments in banded]
    values = [
        traces.values(points, line, panel, segments, limit, run_link, titles, turning)
        for (line, panel, segments), limit in zip(drawn, limits, strict=True)
    ]
    above = [
        traces.roofs(points, line, panel, roofs, span.pad)
        for panel in panels
        if panel.metric.key == HEADLINE_METRICS[2]
        for line in lines
    ]
    return [trace for trace in [*bands, *values, *above] if trace]


def _table(
    points: HistoryTable,
    panels: Sequence[Panel],
    titles: Mapping[int, str],
    run_link: Callable[[str], str],
    max_rows: int,
) -> Table:
    newest = [points[place] for place in reversed(range(max(0, len(points) - max_rows), len(points)))]
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
    lines: Sequence[Line],
    shifts: Sequence[Shift],
    drifts: Sequence[SeriesDrift],
    roof: float | None,
) -> str:
    is_of_series = bool(lines[0].group)
    runs = _(
        "{runs} of {configurations}",
        runs=plural(len(points), "run"),
        configurations=ngettext("{n} series", "{n} series", len(lines))
        if is_of_series
        else plural(len(points.used_configs), "configuration"),
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
