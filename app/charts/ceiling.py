"""Ceilings: decode against context, and the roofline."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from app.ceiling.decode import CurvePoint, Device
from app.charts.base import Figure, LegendEntry, Table, axis, hover_template
from app.core.i18n import _, joined
from app.core.units import GIGA, TERA, format_number, format_percent
from app.results.ceiling import DecodeAnalysis, Placement, PointCeiling


class MeasuredSpeed(NamedTuple):
    """A measured speed at its mean context."""

    context: int
    tokens_per_s: float


def against_context(curve: Sequence[CurvePoint], measured: Sequence[MeasuredSpeed] = ()) -> Figure | None:
    """Draws the decode ceiling as it falls with context, the band of most good results, and the measured points."""
    if not curve:
        return None
    contexts = [point.context for point in curve]
    traces = [
        _line(_("60 % of the ceiling"), contexts, [point.low_tokens_per_s for point in curve], "edge"),
        _line(_("85 % of the ceiling"), contexts, [point.high_tokens_per_s for point in curve], "band"),
        _line(_("Ceiling"), contexts, [point.ceiling_tokens_per_s for point in curve], "roof"),
    ]
    if measured:
        traces.append(_measured(measured))
    return Figure(
        data=traces,
        layout={
            "xaxis": axis(_("Tokens in the cache"), range=[0, contexts[-1]]),
            "yaxis": axis(_("Decode tok/s")),
            "hovermode": "closest",
        },
        summary=_summary(curve),
        table=Table(
            columns=(_("Tokens in the cache"), _("Ceiling tok/s"), "60 %", "85 %", _("KV cache, % of the bytes")),
            rows=tuple(
                (
                    f"{point.context:,}",
                    format_number(point.ceiling_tokens_per_s),
                    format_number(point.low_tokens_per_s),
                    format_number(point.high_tokens_per_s),
                    format_number(point.kv_share * 100),
                )
                for point in curve
            ),
        ),
        legend=(LegendEntry(0, _("This run")),) if measured else (),
    )


def without_ceiling(measured: Sequence[MeasuredSpeed]) -> Figure | None:
    """Draws the measured points alone; None where they are all of one context."""
    ordered = sorted(measured)
    if len({point.context for point in ordered}) < 2:
        return None
    first, last = ordered[0], ordered[-1]
    return Figure(
        data=[_measured(ordered)],
        layout={
            "xaxis": axis(_("Tokens in the cache")),
            "yaxis": axis(_("Decode tok/s")),
            "hovermode": "closest",
        },
        summary=_(
            "{first} tok/s with {few:,} tokens in the cache on average, {last} with {many:,}: {change}.",
            first=format_number(first.tokens_per_s),
            few=first.context,
            last=format_number(last.tokens_per_s),
            many=last.context,
            change=format_percent(last.tokens_per_s / first.tokens_per_s - 1),
        ),
        table=Table(
            columns=(_("Tokens in the cache"), _("Decode tok/s")),
            rows=tuple((f"{point.context:,}", format_number(point.tokens_per_s)) for point in ordered),
        ),
    )


def measured_speeds(analysis: DecodeAnalysis) -> list[MeasuredSpeed]:
    """Returns the measured points of a run that belong on its curve."""
    return [
        MeasuredSpeed(point.context, point.decode_tokens_per_s)
        for point in analysis.measured_points
        if point.decode_tokens_per_s is not None
    ]


class PhaseWork(NamedTuple):
    """The intensity and the speed of one phase of a run."""

    title: str
    flops_per_byte: float
    flops_per_s: float


def run_roofline(placement: Placement, point_ceiling: PointCeiling) -> Figure | None:
    """Draws decode and prefill of a point; attention, which decode hardly feels, is left out of its operations."""
    params_active, device = placement.geometry.params_active, placement.device
    work = []
    if params_active and point_ceiling.steps_per_s:
        tokens_per_pass = 1 + (
            point_ceiling.drafts.drafted_per_pass if point_ceiling.drafts else 0
        )  # tokens computed with each reading
        flops = 2 * params_active * point_ceiling.step.batch * tokens_per_pass
        work.append(
            PhaseWork(
                _("Decode"),
                flops / point_ceiling.step.n_bytes,
                2 * params_active * tokens_per_pass * point_ceiling.steps_per_s,
            )
        )
    if point_ceiling.prefill and point_ceiling.prefill_tokens_per_s:
        per_s = point_ceiling.prefill.flops / point_ceiling.prefill.tokens * point_ceiling.prefill_tokens_per_s
        work.append(PhaseWork(_("Prefill"), point_ceiling.prefill.flops / point_ceiling.prefill.n_bytes, per_s))
    return roofline(device, work) if device else None


def roofline(device: Device, work: Sequence[PhaseWork]) -> Figure | None:
    """Draws the roofline (Williams et al. 2009): what compute and memory bandwidth allow at each arithmetic intensity,
    and what was reached; both axes in powers of ten. None when the device's peak is unknown."""
    peak, ridge = device.peak_flops, device.critical_intensity
    if peak is None or ridge is None or not work:
        return None
    low = 10 ** math.floor(math.log10(min(0.5, *(phase.flops_per_byte for phase in work))))
    high = 10 ** math.ceil(math.log10(max(4 * ridge, *(phase.flops_per_byte for phase in work))))
    allowed_flops_per_s = [low * device.bandwidth_bytes_per_s, peak, peak]
    traces = [
        _line(_("What the device allows"), [low, ridge, high], [value / TERA for value in allowed_flops_per_s], "roof")
    ]
    reading = _("%{y:,.3~r} TFLOP/s with %{x:,.3~r} FLOP/byte")
    traces[0]["hovertemplate"] = hover_template(reading)
    lowest = min(allowed_flops_per_s[0], *(phase.flops_per_s for phase in work)) / TERA
    for series, phase in enumerate(work):
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": phase.title,
                "meta": {"series": series},
                "x": [round(phase.flops_per_byte, 4)],
                "y": [round(phase.flops_per_s / TERA, 6)],
                "hovertemplate": hover_template(phase.title, reading),
                "showlegend": False,
            }
        )
    return Figure(
        data=traces,
        layout={
            "xaxis": _powers(_("FLOP for each byte read"), low, high),
            "yaxis": _powers("TFLOP/s", 10 ** math.floor(math.log10(lowest)), 10 ** math.ceil(math.log10(peak / TERA))),
            "hovermode": "closest",
        },
        summary=(
            _(
                "Below {ridge} FLOP per byte memory bandwidth is the limit, above it compute: {peak} TFLOP/s / "
                "{bandwidth} GB/s.",
                ridge=format_number(ridge),
                peak=format_number(peak / TERA),
                bandwidth=format_number(device.bandwidth_bytes_per_s / GIGA),
            )
        ),
        table=Table(
            columns=(_("Phase"), "FLOP/byte", _("TFLOP/s reached"), _("TFLOP/s allowed")),
            rows=tuple(
                (
                    phase.title,
                    format_number(phase.flops_per_byte),
                    format_number(phase.flops_per_s / TERA),
                    format_number(min(peak, phase.flops_per_byte * device.bandwidth_bytes_per_s) / TERA),
                )
                for phase in work
            ),
        ),
        legend=tuple(LegendEntry(series, phase.title) for series, phase in enumerate(work)),
    )


def _powers(title: str, low: float, high: float) -> dict[str, Any]:
    ends = [round(math.log10(low), 3), round(math.log10(high) + 0.1, 3)]
    return {"title": {"text": title}, "type": "log", "range": ends, "dtick": 1, "tickformat": ",~g"}


def _line(name: str, x: Sequence[float], y: Sequence[float], role: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": {"series": None, "role": role},
        "x": list(x),
        "y": [round(value, 4) for value in y],
        "hovertemplate": hover_template(name, _("%{y:,.3~r} tok/s with %{x:,} tokens")),
        "showlegend": False,
    }


def _measured(measured: Sequence[MeasuredSpeed]) -> dict[str, Any]:
    ordered = sorted(measured)
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(ordered) > 1 else "markers",
        "name": _("This run"),
        "meta": {"series": 0},
        "x": [point.context for point in ordered],
        "y": [round(point.tokens_per_s, 3) for point in ordered],
        "hovertemplate": hover_template(_("This run"), _("%{y:,.3~r} tok/s with %{x:,} tokens")),
        "showlegend": False,
    }


def _summary(curve: Sequence[CurvePoint]) -> str:
    first, last = curve[0], curve[-1]
    if last.kv_share:
        sentence = _(
            "The ceiling is {empty} tok/s with an empty cache and {full} with {context:,} tokens, where the KV cache "
            "is {share} % of what a token reads.",
            empty=format_number(first.ceiling_tokens_per_s),
            full=format_number(last.ceiling_tokens_per_s),
            context=last.context,
            share=format_number(last.kv_share * 100),
        )
    else:
        sentence = _(
            "The ceiling is {empty} tok/s with an empty cache; the size of the KV cache is unknown, so it does not "
            "fall with context.",
            empty=format_number(first.ceiling_tokens_per_s),
        )
    return joined(sentence, _("Dashed: the ceiling; shaded: 60 to 85 % of it, the range of most good results."))
