"""The panel "What the server counted": each figure beside what Roofmark timed of the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.i18n import N_, _, enumerated
from app.core.samples import Sample
from app.core.server_metrics import ServerMetric
from app.core.units import format_number, format_percent
from app.metrics import NULL_REASONS, metrics
from app.metrics.server_vs_client import ServerClientComparison, compare_with_client

_TITLES = {
    "itl_ms": N_("ITL"),
    "queue_ms": N_("Queue"),
    "prefill_ms": N_("Prefill time"),
    "decode_ms": N_("Decode time"),
    "requests": N_("Requests"),
    "prompt_tokens": N_("Prompt tokens"),
    "fresh_prompt_tokens": N_("Fresh prompt tokens"),
    "cached_tokens": N_("Cached prompt tokens"),
    "output_tokens": N_("Output tokens"),
    "preemptions": N_("Preemptions"),
    "cache_hit_rate": N_("Prefix cache hits"),
    "kv_cache_use": N_("KV cache in use"),
    "requests_running": N_("Requests running"),
    "requests_waiting": N_("Requests waiting"),
    "gpu_share": N_("Model in GPU memory"),
    "context": N_("Context"),
}
_STATISTICS = {
    "mean": N_("mean"),
    "p50": N_("median"),
    "p99": N_("99th percentile"),
    "max": N_("highest"),
    "total": N_("total"),
    "now": N_("after the run"),
}


@dataclass(frozen=True)
class Line:
    """One thing that was counted."""

    name: str
    title: str
    unit: str
    statistic: str
    """Of `server`, `client` and `difference`; the others are `quantiles`."""
    server: str
    unknown: str
    """Why the server's figure is none; empty where it is one."""
    client: str
    """Empty where only the server can tell."""
    difference: str
    """Empty where there is nothing to compare."""
    is_warning: bool
    quantiles: tuple[str, ...]
    how: str


@dataclass(frozen=True)
class Panel:
    lines: tuple[Line, ...]
    causes: tuple[tuple[str, str], ...]
    """Likely causes of differences worth a warning, each with what differs."""


def counted_panel(kept: Sequence[Mapping[str, Any]], samples: Sequence[Sample]) -> Panel | None:
    """`kept`: `Run.evidence["server"]`; None where the server counted nothing."""
    by_name: dict[str, list[ServerClientComparison]] = {}
    for each in compare_with_client([ServerMetric.from_json(figure) for figure in kept], samples):
        by_name.setdefault(each.counted.name, []).append(each)
    causes: dict[str, list[str]] = {}
    for name, found in by_name.items():
        if found[0].cause:
            causes.setdefault(found[0].cause, []).append(_title(name))
    lines = tuple(_line(name, found) for name, found in by_name.items())
    return Panel(lines, tuple((enumerated(titles), cause) for cause, titles in causes.items())) if lines else None


def _line(name: str, found: Sequence[ServerClientComparison]) -> Line:
    first, *others = found
    counted = first.counted
    return Line(
        name=name,
        title=_title(name),
        unit="%" if counted.unit == "share" else counted.unit,
        statistic=_(_STATISTICS[counted.statistic]),
        server=_server(first),
        unknown=_(NULL_REASONS[first.null_reason]) if first.null_reason else "",
        client="" if first.client is None else _said(counted, first.client),
        difference="" if first.difference is None else format_percent(first.difference),
        is_warning=bool(first.cause),
        quantiles=tuple(_quantile(each.counted) for each in others),
        how=counted.how,
    )


def _title(name: str) -> str:
    known = metrics().get(name)
    return known.title if known else _(_TITLES.get(name, name.replace("_", " ")))


def _quantile(counted: ServerMetric) -> str:
    return f"{_(_STATISTICS[counted.statistic])} {_figure(counted)}"


def _server(pair: ServerClientComparison) -> str:
    return "" if pair.null_reason else _figure(pair.counted)


def _figure(counted: ServerMetric) -> str:
    """A range as `1,000-2,500`: where in it the figure lies, a histogram does not tell."""
    if not counted.is_range:
        return _said(counted, counted.value)
    low, high = (_said(counted, bound) for bound in (counted.low, counted.high))
    return _("above {low}", low=low) if counted.high is None else f"{low}-{high}"


def _said(counted: ServerMetric, value: float | None) -> str:
    if value is not None and counted.unit in ("", "tokens") and value == int(value):
        return f"{value:,.0f}"
    return format_number(value * 100 if counted.unit == "share" and value is not None else value)
