"""Several streams at once: throughput and what each stream still gets, with the limits that requests should keep."""

from collections.abc import Sequence
from typing import Any

from app.charts.base import Figure, LegendEntry, Table, axis, hover_template
from app.charts.stack import stacked, y_name
from app.core.i18n import N_, _, joined
from app.core.units import format_number, plural
from app.metrics.serving import Served, largest_within
from app.metrics.throughput import Slo

PANELS = (N_("Throughput tok/s"), N_("TTFT ms"), N_("TPOT ms"))


def serving_figure(found: Sequence[Served], slo: Slo) -> Figure | None:
    """Throughput, TTFT and TPOT against the number of streams; dashed: the limits. None without several streams."""
    if not found:
        return None
    streams = [each.streams for each in found]
    ends = [streams[0], streams[-1]]
    traces = [
        _line(0, 0, _("Throughput"), "tok/s", streams, [each.throughput_tokens_per_s for each in found]),
        _line(1, 0, _("Median TTFT"), "ms", streams, [each.ttft_p50_ms for each in found]),
        _line(1, 1, _("99th percentile of TTFT"), "ms", streams, [each.ttft_p99_ms for each in found]),
        _limit(1, slo.ttft_ms, ends),
        _line(2, 0, _("Median TPOT"), "ms", streams, [each.tpot_p50_ms for each in found]),
        _line(2, 1, _("99th percentile of TPOT"), "ms", streams, [each.tpot_p99_ms for each in found]),
        _limit(2, slo.tpot_ms, ends),
    ]
    return Figure(
        data=traces,
        layout={
            **stacked([_(title) for title in PANELS], axis(_("Streams at once"), tickvals=streams, type="log")),
            "hovermode": "closest",
        },
        summary=_summary(found, slo),
        table=_table(found),
        legend=(
            LegendEntry(0, _("Median")),
            LegendEntry(1, _("99th percentile")),
            LegendEntry(None, _("Limit"), mode="dashed"),
        ),
    )


def _summary(found: Sequence[Served], slo: Slo) -> str:
    limits = _(
        "TTFT of {ttft_ms} ms and TPOT of {tpot_ms} ms",
        ttft_ms=format_number(slo.ttft_ms),
        tpot_ms=format_number(slo.tpot_ms),
    )
    most = largest_within(found)
    if most is None:
        fewest = plural(found[0].streams, "stream")
        said = _(
            "With {streams} already, not every request kept within the limits: {limits}.", streams=fewest, limits=limits
        )
    else:
        streams = plural(most, "stream")
        said = _("Up to {streams} every request kept within the limits: {limits}.", streams=streams, limits=limits)
    best = max(found, key=lambda each: each.goodput_requests_per_s or 0)
    if not best.goodput_requests_per_s:
        return said
    good = _(
        "Goodput is highest with {streams}: {goodput} requests per second within them.",
        streams=plural(best.streams, "stream"),
        goodput=format_number(best.goodput_requests_per_s),
    )
    return joined(said, good)


def _table(found: Sequence[Served]) -> Table:
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
                str(each.streams),
                str(each.requests),
                format_number(each.throughput_tokens_per_s),
                format_number(each.ttft_p50_ms),
                format_number(each.ttft_p99_ms),
                format_number(each.tpot_p50_ms),
                format_number(each.tpot_p99_ms),
                f"{each.good_share * 100:.0f} %" if each.good_share is not None else format_number(None),
                format_number(each.goodput_requests_per_s),
            )
            for each in found
        ),
    )


def _line(
    panel: int, series: int, name: str, unit: str, x: Sequence[int], values: Sequence[float | None]
) -> dict[str, Any]:
    known = [(streams, round(value, 3)) for streams, value in zip(x, values, strict=True) if value is not None]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "meta": {"series": series},
        "x": [streams for streams, _ in known],
        "y": [value for _, value in known],
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
