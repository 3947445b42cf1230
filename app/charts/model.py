"""A model's quantizations on one machine by build of the engine."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from app.charts.base import MAX_SERIES, Annotation, AnnotationList, Figure, LegendEntry, Table, axis, hover_template
from app.core.i18n import _
from app.core.units import format_number, with_unit
from app.metrics.base import Metric
from app.results.history.updates import Update
from app.results.model import QuantizationSpeed

RunLink = Callable[[str], str]
"""Returns the address of a run."""


def builds(
    speeds: Sequence[QuantizationSpeed],
    metric: Metric,
    updates: Sequence[Update],
    run_link: RunLink,
    update_mark: Callable[[Update], Annotation],
) -> Figure | None:
    """Draws the metric by version of the engine, in order of time, one line for each quantization. None where none was
    measured with two versions. `updates` are listed below it."""
    looks = {series: speed for series, speed in enumerate(speeds[:MAX_SERIES]) if len(speed.row.builds) > 1}
    drawn = list(looks.values())
    if not drawn:
        return None
    versions = _in_order(drawn)
    title = with_unit(metric.title, metric.unit)
    marks = tuple(update_mark(update) for update in updates)
    return Figure(
        data=[_line(series, speed, metric, run_link) for series, speed in looks.items()],
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
        legend=tuple(LegendEntry(series, speed.title) for series, speed in looks.items()),
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
