"""Ratios with their intervals."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from app.charts.base import Figure, LegendEntry, Table, escape_plotly_html, hover_template
from app.charts.compare.letters import GAP, lettered, series_of
from app.charts.stack import domain, y_axis, y_name
from app.core.i18n import _, joined
from app.core.units import change_interval, format_number, format_percent
from app.results.compare.result import Cell, Comparison, MetricRow, Subject

CLOSEST_TICKS = 0.09
"""As a share of the axis: on a phone, closer labels run into each other."""
LADDERS = (
    *([round(1 + step * place, 4) for place in range(-12, 13)] for step in (0.01, 0.02, 0.05)),
    [0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3, 5, 10],
    [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10],
    [0.1, 0.2, 0.5, 1, 2, 5, 10],
)
"""Ever coarser ticks around 1."""


def forest(comparison: Comparison) -> Figure | None:
    """Each metric's ratio over the first subject with its interval, at the main point. None when there is none."""
    rows = [row for row in comparison.main_rows if any(cell.ratio for cell in row.cells)]
    if not rows:
        return None
    base = comparison.subjects[0]
    traces, layout = [], _layout(rows, len(comparison.subjects) - 1, comparison.same_within)
    ends = [1 - comparison.same_within, 1 + comparison.same_within]
    for panel, row in enumerate(rows):
        wish = _("lower is better") if row.better == "lower" else _("higher is better")
        layout[y_axis(panel)] |= {
            "title": {"text": joined(row.title, wish, by=": ")},
            "domain": domain(panel, len(rows), GAP),
        }
        for place, (subject, cell) in enumerate(zip(comparison.subjects, row.cells, strict=True)):
            if cell.ratio is not None:
                traces.append(_mark(subject, place, cell, row, y_name(panel), len(comparison.subjects) - 1 - place))
                ends += [cell.ratio.low, cell.ratio.high]
    layout["xaxis"] = {"title": {"text": _("Ratio to {letter}", letter=base.letter)}} | _ratio_axis(
        min(ends), max(ends), y_name(len(rows) - 1)
    )
    return Figure(
        data=traces,
        layout=layout,
        summary=_(
            "Each over {letter}, with its 95 % interval. Shaded: within {percent} %, which counts as the same.",
            letter=base.letter,
            percent=f"{100 * comparison.same_within:g}",
        ),
        table=_table(comparison, rows),
        legend=tuple(
            LegendEntry(series_of(place), f"{subject.letter} · {subject.title}", mode="markers")
            for place, subject in enumerate(comparison.subjects)
            if place and any(row.cells[place].ratio for row in rows)
        ),
    )


def _layout(rows: Sequence[MetricRow], lines: int, same_within: float) -> dict[str, Any]:
    quiet = {"range": [-0.7, lines - 0.3], "showticklabels": False, "showgrid": False, "zeroline": False}
    axes = map(y_axis, range(len(rows)))
    band = {"type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1}
    return {
        "xaxis": {},
        **{axis_name: dict(quiet) for axis_name in axes},
        "hovermode": "closest",
        "shapes": [
            {**band, "x0": round(1 / (1 + same_within), 6), "x1": 1 + same_within},
            {**band, "type": "line", "x0": 1, "x1": 1},
        ],
    }


def _mark(subject: Subject, place: int, cell: Cell, row: MetricRow, y: str, line: int) -> dict[str, Any]:
    ratio = cell.ratio
    assert ratio is not None
    bars = {
        "symmetric": False,
        "array": [round(ratio.high - ratio.value, 6)],
        "arrayminus": [round(ratio.value - ratio.low, 6)],
    }
    interval = change_interval(ratio.low, ratio.high)
    change = _("{title} {value}", title=row.title, value=format_percent(ratio.value - 1))
    mark = {
        "type": "scatter",
        "mode": "markers",
        "name": escape_plotly_html(subject.title),
        "meta": {"series": series_of(place)},
        "x": [round(ratio.value, 6)],
        "y": [line],
        "yaxis": y,
        "error_x": bars,
        "hovertemplate": hover_template(
            f"{subject.letter} · {escape_plotly_html(subject.title)}", change, interval, _(ratio.verdict)
        ),
        "showlegend": False,
    }
    return lettered(mark, subject.letter, place, 0)


def _ratio_axis(lowest: float, highest: float, anchor: str) -> dict[str, Any]:
    """Half as much is as far from 1 as twice as much; ticks at round numbers."""
    low, high = math.log10(lowest), math.log10(highest)
    pad = max(0.05 * (high - low), 0.004)
    closest = CLOSEST_TICKS * (high - low + 2 * pad)
    ticks = next(
        (ladder for ladder in LADDERS if _are_apart([t for t in ladder if lowest <= t <= highest], closest)), None
    )
    return {
        "type": "log",
        "range": [round(low - pad, 4), round(high + pad, 4)],
        **({"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]} if ticks else {"dtick": 1}),
        "anchor": anchor,
    }


def _are_apart(ticks: Sequence[float], closest: float) -> bool:
    return all(math.log10(after / before) >= closest for before, after in pairwise(ticks))


def _table(comparison: Comparison, rows: Sequence[MetricRow]) -> Table:
    lines = []
    for row in rows:
        for subject, cell in zip(comparison.subjects[1:], row.cells[1:], strict=True):
            ratio = cell.ratio
            if ratio is None:
                lines.append(
                    (
                        row.title,
                        subject.letter,
                        format_number(None),
                        format_number(None),
                        format_number(None),
                        cell.reason_not_comparable,
                    )
                )
            else:
                bounds = (format_number(ratio.low), format_number(ratio.high))
                verdict = _(ratio.verdict)
                lines.append((row.title, subject.letter, format_number(ratio.value), *bounds, verdict))
    return Table((_("Metric"), _("Result"), _("Ratio"), _("Lowest"), _("Highest"), _("Verdict")), tuple(lines), texts=2)
