"""The figures of a comparison: ratios with their intervals, inter-token gaps, and curves over the suite's points."""

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

from app.charts.base import (
    MAX_SERIES,
    Figure,
    LegendEntry,
    Table,
    axis,
    domain,
    escape_plotly_html,
    hover_template,
    y_axis,
    y_name,
)
from app.core.i18n import N_, _, joined, separator
from app.core.samples import Workload
from app.core.units import change_interval, format_number, with_unit
from app.results.compare.result import Cell, Comparison, MetricRow, Subject
from app.results.compare.words import ratio_words

GAP = 0.12
"""The gap between panels, as a share of the figure."""


def series_of(place: int) -> int | None:
    """Returns the look of a subject; when there are more subjects than looks, the last ones stay in the background."""
    return place if place < MAX_SERIES else None


def lettered(trace: dict[str, Any], letter: str, place: int, at: int) -> dict[str, Any]:
    """Returns letters for the series in the background, which look alike: each is labelled at one of its points."""
    if series_of(place) is not None:
        return trace
    text = [letter if index == at else "" for index in range(len(trace["x"]))]
    return trace | {"mode": f"{trace['mode']}+text", "text": text, "textposition": "middle right"}


def legend(comparison: Comparison, places: Sequence[int], mode: str) -> tuple[LegendEntry, ...]:
    return tuple(
        LegendEntry(
            series_of(place), f"{comparison.subjects[place].letter} · {comparison.subjects[place].name}", mode=mode
        )
        for place in places
    )


CLOSEST_TICKS = 0.09
"""The smallest distance of ticks as a share of the axis: on a phone, closer labels overlap."""
LADDERS = (
    *([round(1 + step * place, 4) for place in range(-12, 13)] for step in (0.01, 0.02, 0.05)),
    [0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3, 5, 10],
    [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10],
    [0.1, 0.2, 0.5, 1, 2, 5, 10],
)
"""Ever coarser ticks around 1."""


def forest(comparison: Comparison) -> Figure | None:
    """Draws each metric's ratio to the first subject with its interval, at the main point. None without ratios."""
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
    layout["xaxis"] = {"title": {"text": _("Ratio to the base")}} | _ratio_axis(
        min(ends), max(ends), y_name(len(rows) - 1)
    )
    return Figure(
        data=traces,
        layout=layout,
        summary=_(
            "Each over {name}, with its 95 % interval. Shaded: within {percent} %, which counts as the same.",
            name=base.name,
            percent=f"{100 * comparison.same_within:g}",
        ),
        table=_ratio_table(comparison, rows),
        legend=tuple(
            LegendEntry(series_of(place), f"{subject.letter} · {subject.name}", mode="markers")
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
    change = joined(row.title, ratio_words(row.metric, ratio))
    mark = {
        "type": "scatter",
        "mode": "markers",
        "name": escape_plotly_html(subject.name),
        "meta": {"series": series_of(place)},
        "x": [round(ratio.value, 6)],
        "y": [line],
        "yaxis": y,
        "error_x": bars,
        "hovertemplate": hover_template(f"{subject.letter} · {escape_plotly_html(subject.name)}", change, interval),
        "showlegend": False,
    }
    return lettered(mark, subject.letter, place, 0)


def _ratio_axis(lowest: float, highest: float, anchor: str) -> dict[str, Any]:
    """Returns the axis of ratios: half is as far from 1 as double; ticks are at round numbers."""
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


def _ratio_table(comparison: Comparison, rows: Sequence[MetricRow]) -> Table:
    lines = []
    for row in rows:
        for subject, cell in zip(comparison.subjects[1:], row.cells[1:], strict=True):
            ratio = cell.ratio
            if ratio is None:
                lines.append(
                    (
                        row.title,
                        subject.name,
                        format_number(None),
                        format_number(None),
                        format_number(None),
                        cell.reason_not_comparable,
                    )
                )
            else:
                bounds = (format_number(ratio.low), format_number(ratio.high))
                verdict = ratio_words(row.metric, ratio)
                lines.append((row.title, subject.name, format_number(ratio.value), *bounds, verdict))
    return Table((_("Metric"), _("Result"), _("Ratio"), _("Lowest"), _("Highest"), _("Verdict")), tuple(lines), texts=2)


SHOWN_PERCENT = 99
"""The percentile at which the axis ends: single longer gaps would stretch it, and the table states the longest."""


def pauses(comparison: Comparison) -> Figure | None:
    """Draws the distribution of the gaps between tokens, one line per subject. None without any."""
    results = enumerate(zip(comparison.subjects, comparison.distributions, strict=True))
    measured = [(place, subject, gaps) for place, (subject, gaps) in results if gaps.quantiles_ms]
    if not measured:
        return None
    is_chunks = any(gaps.is_chunks for _place, _subject, gaps in measured)
    what = _("Chunk gap") if is_chunks else _("Inter-token latency")
    traces = []
    for place, subject, gaps in measured:
        trace = {
            "type": "scatter",
            "mode": "lines",
            "name": escape_plotly_html(subject.name),
            "meta": {"series": series_of(place)},
            "x": list(gaps.quantiles_ms[: SHOWN_PERCENT + 1]),
            "y": list(range(SHOWN_PERCENT + 1)),
            "hovertemplate": hover_template(
                joined(escape_plotly_html(subject.name), _("%{y} % within %{x:,.3~r} ms"), by=": ")
            ),
            "showlegend": False,
        }
        traces.append(lettered(trace, subject.letter, place, SHOWN_PERCENT // 2))
    middles = separator(", ").join(
        f"{subject.name} {format_number(gaps.quantiles_ms[50])} ms" for _place, subject, gaps in measured
    )
    return Figure(
        data=traces,
        layout={
            "xaxis": axis(joined(what, "ms", by=", ")),
            "yaxis": axis(_("Gaps no longer than this, %"), range=[0, 100]),
            "hovermode": "closest",
        },
        summary=_("{what}, median: {medians}. A steep line means an even stream.", what=what, medians=middles),
        table=Table(
            (_("Result"), "p50 ms", "p90 ms", "p99 ms", _("longest ms"), _("gaps")),
            tuple(
                (
                    f"{subject.letter} · {subject.name}",
                    *(format_number(gaps.quantiles_ms[percent]) for percent in (50, 90, 99, 100)),
                    f"{gaps.gaps:,}",
                )
                for _place, subject, gaps in measured
            ),
            texts=1,
        ),
        legend=legend(comparison, [place for place, _subject, _gaps in measured], "lines"),
    )


VARIED = (
    ("depth", N_("Tokens in the cache before the prompt")),
    ("concurrency", N_("Streams")),
    ("prompt_tokens", N_("Prompt tokens")),
)
"""The quantities that a suite may vary."""


def curves(comparison: Comparison) -> Figure | None:
    """Draws each metric over the quantity that the suite varies, when more than one subject was measured. None for a
    single point."""
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
        table=_curves_table(comparison, title, name, [rows.point for rows in points]),
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
        "name": escape_plotly_html(subject.name),
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
            joined(
                escape_plotly_html(subject.name),
                _("{title} {value}", title=row.title, value=f"%{{y:,.3~r}} {row.unit}"),
                by=" · ",
            ),
            _("{title} {value}", title=title, value="%{x:,}"),
        ),
        "showlegend": False,
    }
    return lettered(curve, subject.letter, place, len(measured) - 1)


def _curves_table(comparison: Comparison, title: str, name: str, points: Sequence[Workload]) -> Table:
    rows = {(at.point, row.metric): row for at in comparison.points for row in at.rows}
    heads = [
        joined(with_unit(row.title, row.unit), subject.name, by=", ")
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
