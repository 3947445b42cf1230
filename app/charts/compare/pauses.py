"""How the pauses between tokens are distributed."""

from app.charts.base import Figure, Table, axis, escape_plotly_html, hover_template
from app.charts.compare.letters import legend, lettered, series_of
from app.core.i18n import _, joined, separator
from app.core.units import format_number
from app.results.compare.result import Comparison

SHOWN_PERCENT = 99
"""Further out, single pauses stretch the axis: the table says how long the longest was."""


def pauses(comparison: Comparison) -> Figure | None:
    """How the pauses between tokens are distributed, one line per subject. None when nobody has any."""
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
            "name": escape_plotly_html(subject.title),
            "meta": {"series": series_of(place)},
            "x": list(gaps.quantiles_ms[: SHOWN_PERCENT + 1]),
            "y": list(range(SHOWN_PERCENT + 1)),
            "hovertemplate": hover_template(joined(subject.letter, _("%{y} % within %{x:,.3~r} ms"), by=": ")),
            "showlegend": False,
        }
        traces.append(lettered(trace, subject.letter, place, SHOWN_PERCENT // 2))
    middles = separator(", ").join(
        f"{subject.letter} {format_number(gaps.quantiles_ms[50])} ms" for _place, subject, gaps in measured
    )
    return Figure(
        data=traces,
        layout={
            "xaxis": axis(joined(what, "ms", by=", ")),
            "yaxis": axis(_("Pauses no longer than this, %"), range=[0, 100]),
            "hovermode": "closest",
        },
        summary=_("{what}, half of all pauses: {middles}. A steep line is an even stream.", what=what, middles=middles),
        table=Table(
            (_("Result"), "p50 ms", "p90 ms", "p99 ms", _("longest ms"), _("pauses")),
            tuple(
                (
                    f"{subject.letter} · {subject.title}",
                    *(format_number(gaps.quantiles_ms[percent]) for percent in (50, 90, 99, 100)),
                    f"{gaps.gaps:,}",
                )
                for _place, subject, gaps in measured
            ),
            texts=1,
        ),
        legend=legend(comparison, [place for place, _subject, _gaps in measured], "lines"),
    )
