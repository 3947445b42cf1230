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


def curves(found: Comparison) -> Figure | None:
    """Each metric over what the suite varies, where more than one subject was measured. None for a single point."""
    varied = _varied(found)
    if varied is None or found.main is None:
        return None
    name, title = varied
    rest = attrgetter("output_tokens", *(other for other, _ in VARIED if other != name))
    points = [each for each in found.shared_points if rest(each.point) == rest(found.main)]
    points.sort(key=lambda each: int(getattr(each.point, name)))
    layout: dict[str, Any] = {"xaxis": axis(title), "hovermode": "closest"}
    traces, drawn = [], set()
    count = len(found.main_rows)
    for panel, row in enumerate(found.main_rows):
        y = y_name(panel)
        layout[y_axis(panel)] = axis(with_unit(row.title, row.unit), domain=domain(panel, count, GAP), nticks=5)
        layout["xaxis"]["anchor"] = y
        for place, subject in enumerate(found.subjects):
            cells = [(int(getattr(each.point, name)), each.rows[panel].cells[place]) for each in points]
            known = [(x, cell) for x, cell in cells if cell.value is not None]
            if known:
                drawn.add(place)
                traces.append(_curve(subject, place, row, y, title, known))
    return Figure(
        data=traces,
        layout=layout,
        summary=_("Medians with 95 % intervals over {points} points of the suite.", points=len(points)),
        table=_table(found, title, name, [each.point for each in points]),
        legend=legend(found, sorted(drawn), "lines+markers"),
    )


def _varied(found: Comparison) -> tuple[str, str] | None:
    points = [each.point for each in found.shared_points]
    varied = next((each for each in VARIED if len({getattr(point, each[0]) for point in points}) > 1), None)
    return (varied[0], _(varied[1])) if varied else None


def _curve(
    subject: Subject, place: int, row: MetricRow, y: str, title: str, known: Sequence[tuple[int, Cell]]
) -> dict[str, Any]:
    values = [cell.value or 0.0 for _, cell in known]
    above = [max(0.0, (cell.high or value) - value) for (_, cell), value in zip(known, values, strict=True)]
    below = [max(0.0, value - (cell.low or value)) for (_, cell), value in zip(known, values, strict=True)]
    curve = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": escape_plotly_html(subject.title),
        "meta": {"series": series_of(place)},
        "x": [x for x, _ in known],
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
    return lettered(curve, subject.letter, place, len(known) - 1)


def _table(found: Comparison, title: str, name: str, points: Sequence[Workload]) -> Table:
    rows = {(each.point, row.metric): row for each in found.points for row in each.rows}
    heads = [
        joined(with_unit(row.title, row.unit), subject.letter, by=", ")
        for row in found.main_rows
        for subject in found.subjects
    ]
    return Table(
        (title, *heads),
        tuple(
            (
                f"{getattr(point, name):,}",
                *(format_number(cell.value) for row in found.main_rows for cell in rows[point, row.metric].cells),
            )
            for point in points
        ),
    )
