"""A model's quantizations on one machine: decode against context under each one's ceiling, and speed by build."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from app.charts.base import MAX_SERIES, Annotation, AnnotationList, Figure, LegendEntry, Table, axis, hover_template
from app.core.i18n import _, joined
from app.core.units import format_number, format_percent, with_unit
from app.metrics.base import Metric
from app.results.history.updates import Update
from app.results.model import ContextCurve, QuantizationSpeed

RunLink = Callable[[str], str]
"""Returns the address of a run."""


def contexts(curves: Sequence[ContextCurve], run_link: RunLink) -> Figure | None:
    """Draws the measured decode of each configuration against its context, under its dashed ceiling in the same colour.
    None without a measured point; of more than MAX_SERIES configurations the first are drawn."""
    drawn = [curve for curve in curves if curve.points][:MAX_SERIES]
    if not drawn:
        return None
    traces: list[dict[str, Any]] = []
    for series, curve in enumerate(drawn):
        if curve.ceiling:
            traces.append(_ceiling(series, curve))
        traces.append(_measured(series, curve, run_link(curve.public_id)))
    longest = max(
        [*(point.context for curve in drawn for point in curve.ceiling), *(curve.points[-1].context for curve in drawn)]
    )
    return Figure(
        data=traces,
        layout={
            "xaxis": axis(_("Tokens in the cache"), range=[0, longest]),
            "yaxis": axis(_("Decode tok/s")),
            "hovermode": "closest",
        },
        summary=_contexts_summary(drawn),
        table=Table(
            columns=(_("Configuration"), _("Tokens in the cache"), _("Decode tok/s"), _("Runs")),
            rows=tuple(
                (curve.title, f"{point.context:,}", format_number(point.tokens_per_s), f"{point.runs:,}")
                for curve in drawn
                for point in curve.points
            ),
            links=tuple(run_link(curve.public_id) for curve in drawn for _point in curve.points),
            texts=1,
        ),
        legend=tuple(LegendEntry(series, curve.title, run_link(curve.public_id)) for series, curve in enumerate(drawn)),
    )


def _ceiling(series: int, curve: ContextCurve) -> dict[str, Any]:
    name = _("Ceiling of {title}", title=curve.title)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": {"series": series, "role": "roof"},
        "x": [point.context for point in curve.ceiling],
        "y": [round(point.ceiling_tokens_per_s, 3) for point in curve.ceiling],
        "hovertemplate": hover_template(name, _("%{y:,.3~r} tok/s with %{x:,} tokens")),
        "showlegend": False,
    }


def _measured(series: int, curve: ContextCurve, link: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(curve.points) > 1 else "markers",
        "name": curve.title,
        "meta": {"series": series},
        "x": [point.context for point in curve.points],
        "y": [round(point.tokens_per_s, 3) for point in curve.points],
        "customdata": [link] * len(curve.points),
        "hovertemplate": hover_template(curve.title, _("%{y:,.3~r} tok/s with %{x:,} tokens")),
        "showlegend": False,
    }


def _contexts_summary(drawn: Sequence[ContextCurve]) -> str:
    long = next((curve for curve in drawn if len(curve.points) > 1), None)
    if long is None:
        sentence = _("Measured at one context only: the suite depth measures the others.")
    else:
        first, last = long.points[0], long.points[-1]
        sentence = _(
            "{title}: {first} tok/s with {few:,} tokens in the cache, {last} with {many:,} ({change}).",
            title=long.title,
            first=format_number(first.tokens_per_s),
            few=first.context,
            last=format_number(last.tokens_per_s),
            many=last.context,
            change=format_percent(last.tokens_per_s / first.tokens_per_s - 1),
        )
    dashed = _("Dashed: the ceiling of each.") if any(curve.ceiling for curve in drawn) else ""
    return joined(sentence, dashed)


def builds(
    speeds: Sequence[QuantizationSpeed],
    metric: Metric,
    updates: Sequence[Update],
    run_link: RunLink,
    update_mark: Callable[[Update], Annotation],
) -> Figure | None:
    """Draws the metric by version of the engine, in order of time, one line for each quantization. None where none was
    measured with two versions. `updates` are listed below it."""
    drawn = [speed for speed in speeds if len(speed.row.builds) > 1][:MAX_SERIES]
    if not drawn:
        return None
    versions = _in_order(drawn)
    title = with_unit(metric.title, metric.unit)
    marks = tuple(update_mark(update) for update in updates)
    return Figure(
        data=[_line(series, speed, metric, run_link) for series, speed in enumerate(drawn)],
        layout={
            "xaxis": {
                "type": "category",
                "categoryorder": "array",
                "categoryarray": versions,
                "autotickangles": [0, -45, -90],  # to the left, where there is room for the words of the last one
            },
            "yaxis": axis(title),
            "hovermode": "closest",
        },
        summary=_("Each mark is the median of the runs with one build, from the oldest build to the newest."),
        table=Table(
            columns=(_("Quantization"), _("Build"), title, _("Runs")),
            rows=tuple(
                (speed.title, build.version, format_number(build.value), f"{build.runs:,}")
                for speed in drawn
                for build in speed.row.builds
            ),
            links=tuple(run_link(build.public_id) for speed in drawn for build in speed.row.builds),
            texts=2,
        ),
        legend=tuple(LegendEntry(series, speed.title) for series, speed in enumerate(drawn)),
        marks=(AnnotationList(_("Certain changes"), marks),) if marks else (),
    )


def _line(series: int, speed: QuantizationSpeed, metric: Metric, run_link: RunLink) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": speed.title,
        "meta": {"series": series},
        "x": [build.version for build in speed.row.builds],
        "y": [round(build.value, 4) for build in speed.row.builds],
        "customdata": [run_link(build.public_id) for build in speed.row.builds],
        "hovertemplate": hover_template(speed.title, _("%{{y:,.3~r}} {unit} with %{{x}}", unit=metric.unit)),
        "showlegend": False,
    }


def _in_order(speeds: Sequence[QuantizationSpeed]) -> list[str]:
    """Returns all versions in the order in which they were first measured."""
    first: dict[str, datetime] = {}
    for speed in speeds:
        for build in speed.row.builds:
            first[build.version] = min(build.at, first.get(build.version, build.at))
    return sorted(first, key=lambda version: first[version])
