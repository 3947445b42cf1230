"""A comparison's figures: ratios with their intervals, pauses between tokens, and curves over the suite's points."""

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

from app.charts.base import MAX_SERIES, Figure, Key, Table, axis, plain
from app.charts.stack import domain, y_axis, y_name
from app.compare.result import Cell, Comparison, Row, Subject
from app.compare.statistics import SAME_WITHIN
from app.i18n import _, marked, pause
from app.samples import Point
from app.units import change_interval, number, percent

GAP = 0.12
"""Between panels, as a share of the figure."""
SHOWN_PERCENT = 99
"""Further out, single pauses stretch the axis: the table says how long the longest was."""
VARIED = (
    ("depth", marked("Tokens in the cache before the prompt")),
    ("concurrency", marked("Streams")),
    ("prompt_tokens", marked("Prompt tokens")),
)
"""What a suite may vary."""
CLOSEST_TICKS = 0.09
"""As a share of the axis: on a phone, closer labels run into each other."""
LADDERS = (
    *([round(1 + step * place, 4) for place in range(-12, 13)] for step in (0.01, 0.02, 0.05)),
    [0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.5, 2, 3, 5, 10],
    [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10],
    [0.1, 0.2, 0.5, 1, 2, 5, 10],
)
"""Ever coarser ticks around 1."""


def series_of(place: int) -> int | None:
    """Of more subjects than there are looks, the last ones stay in the background."""
    return place if place < MAX_SERIES else None


def _lettered(trace: dict[str, Any], letter: str, place: int, at: int) -> dict[str, Any]:
    """In the background all look alike: there each says at one of its points which it is."""
    if series_of(place) is not None:
        return trace
    text = [letter if index == at else "" for index in range(len(trace["x"]))]
    return trace | {"mode": f"{trace['mode']}+text", "text": text, "textposition": "middle right"}


def forest(found: Comparison) -> Figure | None:
    """Each metric's ratio over the first subject with its interval, at the main point. None when there is none."""
    rows = [row for row in found.main_rows if any(cell.ratio and cell.ratio.value for cell in row.cells)]
    if not rows:
        return None
    base = found.subjects[0]
    traces, layout = [], _forest_layout(rows, len(found.subjects) - 1)
    ends = [1 - SAME_WITHIN, 1 + SAME_WITHIN]
    for panel, row in enumerate(rows):
        wish = _("less is better") if row.better == "lower" else _("more is better")
        layout[y_axis(panel)] |= {
            "title": {"text": pause(": ").join((row.title, wish))},
            "domain": domain(panel, len(rows), GAP),
        }
        for place, (subject, cell) in enumerate(zip(found.subjects, row.cells, strict=True)):
            if cell.ratio is not None and cell.ratio.value is not None:
                traces.append(_mark(subject, place, cell, row, y_name(panel), len(found.subjects) - 1 - place))
                ends += [cell.ratio.low or cell.ratio.value, cell.ratio.high or cell.ratio.value]
    layout["xaxis"] = {"title": {"text": _("Ratio to {letter}", letter=base.letter)}} | _ratio_axis(
        min(ends), max(ends), y_name(len(rows) - 1)
    )
    return Figure(
        data=traces,
        layout=layout,
        summary=_(
            "Each over {letter}, with its 95 % interval. Shaded: within 3 %, which counts as the same.",
            letter=base.letter,
        ),
        table=_forest_table(found, rows),
        legend=tuple(
            Key(series_of(place), f"{subject.letter} · {subject.title}", mode="markers")
            for place, subject in enumerate(found.subjects)
            if place and any(row.cells[place].ratio for row in rows)
        ),
    )


def _forest_layout(rows: Sequence[Row], lines: int) -> dict[str, Any]:
    quiet = {"range": [-0.7, lines - 0.3], "showticklabels": False, "showgrid": False, "zeroline": False}
    axes = map(y_axis, range(len(rows)))
    band = {"type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1}
    return {
        "xaxis": {},
        **{axis_name: dict(quiet) for axis_name in axes},
        "hovermode": "closest",
        "shapes": [
            {**band, "x0": round(1 / (1 + SAME_WITHIN), 6), "x1": 1 + SAME_WITHIN},
            {**band, "type": "line", "x0": 1, "x1": 1},
        ],
    }


def _mark(subject: Subject, place: int, cell: Cell, row: Row, y: str, line: int) -> dict[str, Any]:
    ratio = cell.ratio
    assert ratio is not None
    assert ratio.value is not None
    bars = {}
    if ratio.low is not None and ratio.high is not None:
        bars = {
            "error_x": {
                "symmetric": False,
                "array": [round(ratio.high - ratio.value, 6)],
                "arrayminus": [round(ratio.value - ratio.low, 6)],
            }
        }
    interval = f"<br>{change_interval(ratio.low, ratio.high)}" if ratio.low and ratio.high else ""
    said = f"{row.title} {percent(ratio.value - 1)}{interval}<br>{_(ratio.verdict or 'no verdict')}"
    mark = {
        "type": "scatter",
        "mode": "markers",
        "name": plain(subject.title),
        "meta": {"series": series_of(place)},
        "x": [round(ratio.value, 6)],
        "y": [line],
        "yaxis": y,
        **bars,
        "hovertemplate": f"{subject.letter} · {plain(subject.title)}<br>{said}<extra></extra>",
        "showlegend": False,
    }
    return _lettered(mark, subject.letter, place, 0)


def _ratio_axis(lowest: float, highest: float, anchor: str) -> dict[str, Any]:
    """Half as much is as far from 1 as twice as much; ticks at round numbers."""
    low, high = math.log10(lowest), math.log10(highest)
    pad = max(0.05 * (high - low), 0.004)
    closest = CLOSEST_TICKS * (high - low + 2 * pad)
    ticks = next((each for each in LADDERS if _are_apart([t for t in each if lowest <= t <= highest], closest)), None)
    return {
        "type": "log",
        "range": [round(low - pad, 4), round(high + pad, 4)],
        **({"tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]} if ticks else {"dtick": 1}),
        "anchor": anchor,
    }


def _are_apart(ticks: Sequence[float], closest: float) -> bool:
    return all(math.log10(after / before) >= closest for before, after in pairwise(ticks))


def _forest_table(found: Comparison, rows: Sequence[Row]) -> Table:
    lines = []
    for row in rows:
        for subject, cell in zip(found.subjects[1:], row.cells[1:], strict=True):
            ratio = cell.ratio
            if ratio is None:
                lines.append((row.title, subject.letter, number(None), number(None), number(None), cell.refusal))
            else:
                bounds = (number(ratio.low), number(ratio.high))
                verdict = _(ratio.verdict) if ratio.verdict else ratio.remark
                lines.append((row.title, subject.letter, number(ratio.value), *bounds, verdict))
    return Table((_("Metric"), _("Result"), _("Ratio"), _("Lowest"), _("Highest"), _("Verdict")), tuple(lines), texts=2)


# --- pauses between tokens -------------------------------------------------------------------------------------------


def pauses(found: Comparison) -> Figure | None:
    """How the pauses between tokens are distributed, one line per subject. None when nobody has any."""
    known = [(place, each) for place, each in enumerate(found.distributions) if each.quantiles_ms]
    if not known:
        return None
    is_chunks = any(each.is_chunks for _, each in known)
    what = _("Chunk gap") if is_chunks else _("Inter-token latency")
    traces = []
    for place, each in known:
        subject = found.subjects[place]
        trace = {
            "type": "scatter",
            "mode": "lines",
            "name": plain(subject.title),
            "meta": {"series": series_of(place)},
            "x": list(each.quantiles_ms[: SHOWN_PERCENT + 1]),
            "y": list(range(SHOWN_PERCENT + 1)),
            "hovertemplate": f"{subject.letter}: {_('%{y} % within %{x:,.3~r} ms')}<extra></extra>",
            "showlegend": False,
        }
        traces.append(_lettered(trace, subject.letter, place, SHOWN_PERCENT // 2))
    middles = pause(", ").join(
        f"{found.subjects[place].letter} {number(each.quantiles_ms[50])} ms" for place, each in known
    )
    return Figure(
        data=traces,
        layout={
            "xaxis": axis(pause(", ").join((what, "ms"))),
            "yaxis": axis(_("Pauses no longer than this, %"), range=[0, 100]),
            "hovermode": "closest",
        },
        summary=_("{what}, half of all pauses: {middles}. A steep line is an even stream.", what=what, middles=middles),
        table=Table(
            (_("Result"), "p50 ms", "p90 ms", "p99 ms", _("longest ms"), _("pauses")),
            tuple(
                (
                    f"{found.subjects[place].letter} · {found.subjects[place].title}",
                    *(number(each.quantiles_ms[percent]) for percent in (50, 90, 99, 100)),
                    f"{each.gaps:,}",
                )
                for place, each in known
            ),
            texts=1,
        ),
        legend=_legend(found, [place for place, _ in known], "lines"),
    )


# --- over the points of a suite --------------------------------------------------------------------------------------


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
        layout[y_axis(panel)] = axis(f"{row.title} {row.unit}", domain=domain(panel, count, GAP), nticks=5)
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
        table=_curve_table(found, title, name, [each.point for each in points]),
        legend=_legend(found, sorted(drawn), "lines+markers"),
    )


def _varied(found: Comparison) -> tuple[str, str] | None:
    points = [each.point for each in found.shared_points]
    varied = next((each for each in VARIED if len({getattr(point, each[0]) for point in points}) > 1), None)
    return (varied[0], _(varied[1])) if varied else None


def _curve(
    subject: Subject, place: int, row: Row, y: str, title: str, known: Sequence[tuple[int, Cell]]
) -> dict[str, Any]:
    values = [cell.value or 0.0 for _, cell in known]
    above = [max(0.0, (cell.high or value) - value) for (_, cell), value in zip(known, values, strict=True)]
    below = [max(0.0, value - (cell.low or value)) for (_, cell), value in zip(known, values, strict=True)]
    curve = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(subject.title),
        "meta": {"series": series_of(place)},
        "x": [x for x, _ in known],
        "y": [round(value, 3) for value in values],
        "yaxis": y,
        "error_y": {
            "symmetric": False,
            "array": [round(value, 3) for value in above],
            "arrayminus": [round(value, 3) for value in below],
        },
        "hovertemplate": f"{subject.letter} · {row.title} %{{y:,.3~r}} {row.unit}<br>{title} %{{x:,}}<extra></extra>",
        "showlegend": False,
    }
    return _lettered(curve, subject.letter, place, len(known) - 1)


def _curve_table(found: Comparison, title: str, name: str, points: Sequence[Point]) -> Table:
    rows = {(each.point, row.metric): row for each in found.points for row in each.rows}
    heads = [f"{row.title} {row.unit}, {subject.letter}" for row in found.main_rows for subject in found.subjects]
    return Table(
        (title, *heads),
        tuple(
            (
                f"{getattr(point, name):,}",
                *(number(cell.value) for row in found.main_rows for cell in rows[point, row.metric].cells),
            )
            for point in points
        ),
    )


def _legend(found: Comparison, places: Sequence[int], mode: str) -> tuple[Key, ...]:
    return tuple(
        Key(series_of(place), f"{found.subjects[place].letter} · {found.subjects[place].title}", mode=mode)
        for place in places
    )
