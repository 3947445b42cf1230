"""Metrics over the suite's points."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from app.charts.base import Figure, Table, axis, escape_plotly_html, hover_template
from app.charts.compare.letters import GAP, legend, lettered, series_of
from app.charts.stack import domain, y_axis, y_name
from app.core.i18n import N_, _, joined
from app.core.samples import Workload
from app.core.units import format_number, with_unit
from app.results.compare.result import Cell, Comparison, MetricRow, Subject

VARIED = (
    ("depth", N_("Tokens in the cache before the prompt")),
    ("concurrency", N_("Streams")),
    ("prompt_tokens", N_("Prompt tokens")),
)
"""What a suite may vary."""


def curves(comparison: Comparison) -> Figure | None:
    """Each metric over what the suite varies, where more than one subject was measured. None for a single point."""
    varied = _varied(comparison)
    if varied is None or comparison.main is None:
        return None
    name, title = varied
    rest = attrgetter("output_tokens", *(field for field, _title in VARIED if field != name))
    points = [rows for rows in comparison.shared_points if rest(rows.point) == rest(comparison.main)]
    points.sort(key=lambda rows: int(getattr(rows.point, name)))
    layout: dict[str, Any] = {"xaxis": axis(title), "hovermode": "closest"}
    traces, drawn = [], set()
    count = len(comparison.main_rows)
    for panel, row in enumerate(comparison.main_rows):
        y = y_name(panel)
        layout[y_axis(panel)] = axis(with_unit(row.title, row.unit), domain=domain(panel, count, GAP), nticks=5)
        layout["xaxis"]["anchor"] = y
        for place, subject in enumerate(comparison.subjects):
            cells = [(int(getattr(rows.point, name)), rows.rows[panel].cells[place]) for rows in points]
            measured = [(x, cell) for x, cell in cells if cell.value is not None]
            if measured:
                drawn.add(place)
                traces.append(_curve(subject, place, row, y, title, measured))
    return Figure(
        data=traces,
        layout=layout,
        summary=_("Medians with 95 % intervals over {points} points of the suite.", points=len(points)),
        table=_table(comparison, title, name, [rows.point for rows in points]),
        legend=legend(comparison, sorted(drawn), "lines+markers"),
    )


def _varied(comparison: Comparison) -> tuple[str, str] | None:
    points = [rows.point for rows in comparison.shared_points]
    for name, title in VARIED:
        if len({getattr(point, name) for point in points}) > 1:
            return name, _(title)
    return None


def _curve(
    subject: Subject, place: int, row: MetricRow, y: str, title: str, measured: Sequence[tuple[int, Cell]]
) -> dict[str, Any]:
    values = [cell.value or 0.0 for _x, cell in measured]
    above = [max(0.0, (cell.high or value) - value) for (_x, cell), value in zip(measured, values, strict=True)]
    below = [max(0.0, value - (cell.low or value)) for (_x, cell), value in zip(measured, values, strict=True)]
    curve = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape_plotly_html(subject.title),
        "meta": {"series": series_of(place)},
        "x": [x for x, _cell in measured],
        "y": [round(value, 3) for value in values],
        "yaxis": y,
        "error_y": {
            "symmetric": False,
            "array": [round(value, 3) for value in above],
            "arrayminus": [round(value, 3) for value in below],
        },
        "hovertemplate": hover_template(
            joined(subject.letter, _("{title} {value}", title=row.title, value=f"%{{y:,.3~r}} {row.unit}"), by=" · "),
            _("{title} {value}", title=title, value="%{x:,}"),
        ),
        "showlegend": False,
    }
    return lettered(curve, subject.letter, place, len(measured) - 1)


def _table(comparison: Comparison, title: str, name: str, points: Sequence[Workload]) -> Table:
    rows = {(at.point, row.metric): row for at in comparison.points for row in at.rows}
    heads = [
        joined(with_unit(row.title, row.unit), subject.letter, by=", ")
        for row in comparison.main_rows
        for subject in comparison.subjects
    ]
    return Table(
        (title, *heads),
        tuple(
            (
                f"{getattr(point, name):,}",
                *(format_number(cell.value) for row in comparison.main_rows for cell in rows[point, row.metric].cells),
            )
            for point in points
        ),
    )
