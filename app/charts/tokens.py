"""The tokens of one run: when they arrived, and the gaps between them."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from app.charts.base import MAX_POINTS, Figure, LegendEntry, Table, axis, downsample_minmax, hover_template
from app.core.i18n import _, joined
from app.core.samples import CountSource, Sample
from app.core.units import format_number, format_quantity, plural
from app.metrics import headline_metrics, is_usable, token_times
from app.metrics.summary import percentile

PERCENTILES = (50, 90, 99)


def typical_sample(samples: Sequence[Sample]) -> Sample | None:
    """Returns the usable sample whose decode speed is nearest to the median of them; without a usable one, the
    longest."""
    streamed = _streamed(samples)
    usable = [sample for sample in streamed if is_usable(sample)]
    if not usable:
        return max(streamed, key=lambda sample: len(sample.trace.events), default=None)
    speeds = [headline_metrics(sample)["decode_tokens_per_s"] or 0.0 for sample in usable]
    middle = median(speeds)
    return min(zip(usable, speeds, strict=True), key=lambda pair: abs(pair[1] - middle))[0]


def _streamed(samples: Sequence[Sample]) -> list[Sample]:
    """Returns the samples with a time to draw, without warm-ups. When some samples processed their prompts, those with
    the prompt in the cache are left out: their first token comes at quite another time."""
    streamed = [sample for sample in samples if len(sample.trace.token_events) > 1 and not sample.is_warmup]
    return [sample for sample in streamed if not sample.reuses_cache] or streamed


def timeline(samples: Sequence[Sample]) -> Figure | None:
    """Draws output tokens against time since the request was sent, one line per sample of one point, without warm-ups.

    The flat beginning is the prefill. None when no sample has two token events.
    """
    typical = typical_sample(samples)
    if typical is None:
        return None
    shown = _streamed(samples)
    limit = max(30, MAX_POINTS // len(shown))
    # the emphasised line last, so that it lies on top
    ordered = sorted(shown, key=lambda sample: sample is typical)
    traces = [_line(sample, 0 if sample is typical else None, limit) for sample in ordered]
    last = token_times.last_token_ms(typical.trace)
    assert last is not None
    tokens = _tokens_so_far(typical)[-1]
    ttft, is_median = _ttft(shown, typical)
    layout = {
        "xaxis": axis(_("Time since the request was sent, ms")),
        "yaxis": axis(_("Output tokens")),
        "hovermode": "closest",
        "shapes": [
            {"type": "rect", "xref": "x", "yref": "paper", "x0": 0, "x1": round(ttft, 3), "y0": 0, "y1": 1},
        ],
        "annotations": [
            {
                "x": round(ttft, 3),
                "y": 1,
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "top",
                "text": _("Median TTFT {ttft}", ttft=format_quantity(ttft, "ms"))
                if is_median
                else _("TTFT {ttft}", ttft=format_quantity(ttft, "ms")),
                "showarrow": False,
                "xshift": 4,
            }
        ],
    }
    n_others = len(shown) - 1
    legend = [LegendEntry(0, _title(typical, is_alone=not n_others), mode="lines")]
    if n_others:
        legend.append(LegendEntry(None, plural(n_others, "other sample"), mode="lines"))
    summary = _(
        "Sample {ordinal}: the first token came after {first}, all {tokens:,} were complete after {last}.",
        first=format_quantity(token_times.first_token_ms(typical.trace), "ms"),
        tokens=round(tokens),
        ordinal=typical.ordinal + 1,
        last=format_quantity(last, "ms"),
    )
    return Figure(traces, layout, summary, _milestones(typical), tuple(legend))


def _title(typical: Sample, is_alone: bool) -> str:
    ordinal = typical.ordinal + 1
    if is_alone:
        return _("Sample {ordinal}", ordinal=ordinal)
    if is_usable(typical):
        return _("Sample {ordinal}, a typical one", ordinal=ordinal)
    return _("Sample {ordinal}, left out of the figures", ordinal=ordinal)


def _ttft(shown: Sequence[Sample], typical: Sample) -> tuple[float, bool]:
    """Returns what the result states as TTFT, and whether it is the median of several usable samples."""
    ttfts = [
        ttft for sample in shown if is_usable(sample) and (ttft := headline_metrics(sample)["ttft_ms"]) is not None
    ]
    if len(ttfts) > 1:
        return median(ttfts), True
    first = token_times.first_token_ms(typical.trace)
    assert first is not None
    return first, False


def _milestones(sample: Sample) -> Table:
    """Returns the times of the first token, each tenth of the tokens, and the last one."""
    times = [event.at_ms for event in sample.trace.token_events]
    tokens = _tokens_so_far(sample)
    places = sorted({0, *(max(0, round(len(tokens) * tenth / 10) - 1) for tenth in range(1, 11))})
    return Table(
        columns=(_("Output tokens"), _("After ms")),
        rows=tuple((f"{tokens[i]:,.0f}", format_number(times[i])) for i in places),
        caption=_("Sample {ordinal}.", ordinal=sample.ordinal + 1),
    )


def _line(sample: Sample, series: int | None, limit: int) -> dict[str, Any]:
    times = [event.at_ms for event in sample.trace.token_events]
    tokens = _tokens_so_far(sample)
    indices = downsample_minmax(tokens, limit)
    name = _("Sample {ordinal}", ordinal=sample.ordinal + 1)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "meta": {"series": series},
        "x": [0.0, round(times[0], 3), *(round(times[i], 3) for i in indices)],
        "y": [0.0, 0.0, *(round(tokens[i], 2) for i in indices)],
        "hovertemplate": hover_template(name, _("%{y:,.0f} tokens after %{x:,.0f} ms")),
        "showlegend": False,
    }


def _tokens_so_far(sample: Sample) -> list[float]:
    """Returns the number of tokens so far at each token event. When the server does not state it, all tokens are
    divided evenly over the events."""
    events = sample.trace.token_events
    if all(event.tokens is not None for event in events):
        return [float(event.tokens or 0) for event in events]
    reported = sample.trace.output_tokens if sample.trace.count_source is not CountSource.EVENTS else None
    per_event = (reported or len(events)) / len(events)
    return [per_event * place for place in range(1, len(events) + 1)]


def gaps(sample: Sample) -> Figure | None:
    """Draws the gaps between a sample's token events with their percentiles; chunk gaps when events hold several
    tokens.

    None with fewer than two token events.
    """
    gap_times = token_times.gaps_ms(sample.trace)
    if not gap_times:
        return None
    is_chunks = "multi_token_chunks" in sample.flags
    what, unit = (_("Chunk gap"), _("Event")) if is_chunks else (_("Inter-token latency"), _("Token"))
    indices = downsample_minmax(gap_times, MAX_POINTS)
    marks = [(percent, percentile(gap_times, percent)) for percent in PERCENTILES]
    layout = {
        "xaxis": axis(_("{unit} of the answer", unit=unit), range=[0.5, len(gap_times) + 1.5]),
        "yaxis": axis(joined(what, "ms", by=", ")),
        "hovermode": "closest",
        "bargap": 0.25,
        "shapes": [
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": round(value, 3), "y1": round(value, 3)}
            for _, value in marks
        ],
        "annotations": _percentile_labels(marks, max(gap_times)),
    }
    trace = {
        "type": "bar",
        "name": what,
        "meta": {"series": 0},
        "x": [i + 2 for i in indices],
        "y": [round(gap_times[i], 3) for i in indices],
        "width": 0.75 * len(gap_times) / len(indices),
        "hovertext": [format_number(gap_times[i]) for i in indices],
        "hovertemplate": hover_template(joined(unit, _(" %{x}, after a gap of %{hovertext} ms"), by="")),
        "showlegend": False,
    }
    percentile_text = joined(*(f"p{percent} {format_number(value)} ms" for percent, value in marks), by=", ")
    named = [
        (_("shortest"), min(gap_times)),
        *((f"p{percent}", value) for percent, value in marks),
        (_("longest"), max(gap_times)),
    ]
    return Figure(
        data=[trace],
        layout=layout,
        summary=_(
            "{what} of sample {ordinal}: {percentiles}, longest {longest} ms.",
            what=what,
            ordinal=sample.ordinal + 1,
            percentiles=percentile_text,
            longest=format_number(max(gap_times)),
        ),
        table=Table((what, "ms"), tuple((name, format_number(value)) for name, value in named), texts=1),
    )


def _percentile_labels(marks: Sequence[tuple[int, float]], highest: float) -> list[dict[str, Any]]:
    """Returns labels beside the percentiles' lines; lines too close together for two labels share one."""
    groups: list[list[tuple[int, float]]] = []
    for mark in marks:
        if groups and mark[1] - groups[-1][-1][1] < 0.09 * highest:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return [
        {
            "xref": "paper",
            "x": 1,
            "y": round(group[-1][1], 3),
            "xanchor": "right",
            "yanchor": "bottom",
            "text": " · ".join(f"p{percent} {format_number(value)} ms" for percent, value in group),
            "showarrow": False,
        }
        for group in groups
    ]
