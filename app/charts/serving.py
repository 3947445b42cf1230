"""The figure of several streams: throughput and what each stream gets, with the limits that requests should keep."""

from collections.abc import Sequence
from typing import Any

from app.charts.base import Figure, LegendEntry, Table, axis, hover_template, stacked, y_name
from app.core.i18n import N_, _, joined
from app.core.units import format_number, plural
from app.metrics.serving import Served, largest_within
from app.metrics.throughput import Slo

PANELS = (N_("Throughput tok/s"), N_("TTFT ms"), N_("TPOT ms"))


def serving_figure(levels: Sequence[Served], slo: Slo) -> Figure | None:
    """Draws throughput, TTFT and TPOT against the number of streams, with the limits as dashed lines. None without
    several streams."""
    if not levels:
        return None
    streams = [level.streams for level in levels]
    ends = [streams[0], streams[-1]]
    traces = [
        _line(0, 0, _("Throughput"), "tok/s", streams, [level.throughput_tokens_per_s for level in levels]),
        _line(1, 0, _("Median TTFT"), "ms", streams, [level.ttft_p50_ms for level in levels]),
        _line(1, 1, _("99th percentile of TTFT"), "ms", streams, [level.ttft_p99_ms for level in levels]),
        _limit(1, slo.ttft_ms, ends),
        _line(2, 0, _("Median TPOT"), "ms", streams, [level.tpot_p50_ms for level in levels]),
        _line(2, 1, _("99th percentile of TPOT"), "ms", streams, [level.tpot_p99_ms for level in levels]),
        _limit(2, slo.tpot_ms, ends),
    ]
    return Figure(
        data=traces,
        layout={
            **stacked([_(title) for title in PANELS], axis(_("Streams at once"), tickvals=streams, type="log")),
            "hovermode": "closest",
        },
        summary=_summary(levels, slo),
        table=_table(levels),
        legend=(
            LegendEntry(0, _("Median")),
            LegendEntry(1, _("99th percentile")),
            LegendEntry(None, _("Limit"), mode="dashed"),
        ),
    )


def _summary(levels: Sequence[Served], slo: Slo) -> str:
    limits = _(
        "TTFT of {ttft_ms} ms and TPOT of {tpot_ms} ms",
        ttft_ms=format_number(slo.ttft_ms),
        tpot_ms=format_number(slo.tpot_ms),
    )
    most = largest_within(levels)
    if most is None:
        fewest = plural(levels[0].streams, "stream")
        limit_sentence = _(
            "With {streams} already, not every request kept within the limits: {limits}.", streams=fewest, limits=limits
        )
    else:
        streams = plural(most, "stream")
        limit_sentence = _(
            "Up to {streams} every request kept within the limits: {limits}.", streams=streams, limits=limits
        )
    best = max(levels, key=lambda level: level.goodput_requests_per_s or 0)
    if not best.goodput_requests_per_s:
        return limit_sentence
    good = _(
        "Goodput is highest with {streams}: {goodput} requests per second within them.",
        streams=plural(best.streams, "stream"),
        goodput=format_number(best.goodput_requests_per_s),
    )
    return joined(limit_sentence, good)


def _table(levels: Sequence[Served]) -> Table:
    return Table(
        columns=(
            _("Streams"),
            _("Requests"),
            _("Throughput tok/s"),
            _("TTFT median ms"),
            _("TTFT p99 ms"),
            _("TPOT median ms"),
            _("TPOT p99 ms"),
            _("Within the limits"),
            _("Goodput req/s"),
        ),
        rows=tuple(
            (
                str(level.streams),
                str(level.requests),
                format_number(level.throughput_tokens_per_s),
                format_number(level.ttft_p50_ms),
                format_number(level.ttft_p99_ms),
                format_number(level.tpot_p50_ms),
                format_number(level.tpot_p99_ms),
                f"{level.good_share * 100:.0f} %" if level.good_share is not None else format_number(None),
                format_number(level.goodput_requests_per_s),
            )
            for level in levels
        ),
    )


def _line(
    panel: int, series: int, name: str, unit: str, x: Sequence[int], values: Sequence[float | None]
) -> dict[str, Any]:
    pairs = [(streams, round(value, 3)) for streams, value in zip(x, values, strict=True) if value is not None]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "meta": {"series": series},
        "x": [streams for streams, _ in pairs],
        "y": [value for _, value in pairs],
        "yaxis": y_name(panel),
        "hovertemplate": hover_template(name, joined(f"%{{y:,.3~r}} {unit}", _(", streams: %{x}"), by="")),
        "showlegend": False,
    }


def _limit(panel: int, value: float, ends: Sequence[int]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _("Limit"),
        "meta": {"series": None, "role": "roof"},
        "x": list(ends),
        "y": [value, value],
        "yaxis": y_name(panel),
        "hovertemplate": hover_template(_("Limit {limit} ms", limit=format_number(value))),
        "showlegend": False,
    }
