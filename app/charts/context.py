"""How decode falls with context: measured curves of several configurations, each under its ceiling."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.charts.base import MAX_SERIES, Figure, LegendEntry, Table, axis, escape_plotly_html, hover_template
from app.core.i18n import _, joined
from app.core.units import format_number, format_percent
from app.results.context_curves import ContextCurve, falls_most


def context_figure(
    curves: Sequence[ContextCurve], link: Callable[[ContextCurve], str], series_of: Mapping[int, int] | None = None
) -> Figure | None:
    """Draws each curve with its ceiling, dashed, in the same look; None without curves. `link` gives the address of
    the run behind a curve. Of more than MAX_SERIES curves the one that falls most, which the verdict names, and those
    measured last are drawn; the table has all.

    `series_of` gives each configuration the look that it has in a chart beside this one, a number below MAX_SERIES."""
    if not curves:
        return None
    most = falls_most(curves)
    chosen = sorted(curves, key=lambda curve: (curve is most, curve.started_at))[-MAX_SERIES:]
    drawn = [curve for curve in curves if curve in chosen]
    looks = [series_of[curve.config_id] if series_of else place for place, curve in enumerate(drawn)]
    traces = [
        trace for series, curve in zip(looks, drawn, strict=True) for trace in _traces(series, curve, link(curve))
    ]
    longest = max(curve.points[-1].context for curve in drawn)
    return Figure(
        data=traces,
        layout={
            "xaxis": axis(_("Tokens in the cache"), range=[0, round(longest * 1.1)]),
            "yaxis": axis(_("Decode tok/s")),
            "hovermode": "closest",
        },
        summary=joined(
            _("With marks: measured, one run each. Thin and dashed: its ceiling, which falls as the KV cache grows."),
            *(
                [
                    _(
                        "Drawn are {drawn} of {all}: the one that falls most and those measured last.",
                        drawn=len(drawn),
                        all=len(curves),
                    )
                ]
                if len(drawn) < len(curves)
                else []
            ),
        ),
        table=_table(curves, link),
        legend=tuple(LegendEntry(series, curve.title, link(curve)) for series, curve in zip(looks, drawn, strict=True)),
    )


def _traces(series: int, curve: ContextCurve, path: str) -> list[dict[str, Any]]:
    name = escape_plotly_html(curve.title)
    measured = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "meta": {"series": series},
        "x": [point.context for point in curve.points],
        "y": [round(point.tokens_per_s, 3) for point in curve.points],
        "customdata": [path] * len(curve.points),
        "hovertemplate": hover_template(name, _("%{y:,.3~r} tok/s with %{x:,} tokens")),
        "showlegend": False,
    }
    if not curve.ceiling:
        return [measured]
    ceiling = {
        "type": "scatter",
        "mode": "lines",
        "name": _("Ceiling of {title}", title=name),
        "meta": {"series": series, "role": "roof"},
        "x": [point.context for point in curve.ceiling],
        "y": [round(point.ceiling_tokens_per_s, 3) for point in curve.ceiling],
        "hovertemplate": hover_template(_("Ceiling of {title}", title=name), _("%{y:,.3~r} tok/s with %{x:,} tokens")),
        "showlegend": False,
    }
    return [ceiling, measured]


def _table(curves: Sequence[ContextCurve], link: Callable[[ContextCurve], str]) -> Table:
    rows = [(curve, point) for curve in curves for point in curve.points]
    return Table(
        columns=(
            _("Configuration"), _("Tokens in the cache"), _("Decode tok/s"), _("Change"), _("Ceiling tok/s"),
            _("% of the ceiling"),
        ),
        rows=tuple(
            (
                curve.title,
                f"{point.context:,}",
                format_number(point.tokens_per_s),
                format_percent(point.tokens_per_s / curve.points[0].tokens_per_s - 1),
                format_number(point.ceiling_tokens_per_s),
                format_number(
                    100 * point.tokens_per_s / point.ceiling_tokens_per_s if point.ceiling_tokens_per_s else None
                ),
            )
            for curve, point in rows
        ),
        links=tuple(link(curve) for curve, _point in rows),
        texts=1,
    )  # fmt: skip
