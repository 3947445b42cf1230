"""Sections of a run page: server-side metrics with the client's values, and the figure of several streams."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import QueryParams

from app import charts
from app.core.errors import BadInput
from app.core.i18n import N_, _, enumerated
from app.core.server_metrics import ServerMetric
from app.core.units import format_number, format_percent, read_number
from app.metrics import NULL_REASONS, metrics
from app.metrics.server_vs_client import ServerClientComparison
from app.metrics.throughput import USUAL_SLO, Slo
from app.results.load_run import RunResult
from app.web.forms import format_input
from app.web.run_page.sections import Section

_TITLES = {
    "itl_ms": N_("ITL"),
    "queue_ms": N_("Queue"),
    "overhead_ms": N_("Overhead: template and tokenizer"),
    "prefill_ms": N_("Prefill time"),
    "decode_ms": N_("Decode time"),
    "requests": N_("Requests"),
    "prompt_tokens": N_("Prompt tokens"),
    "fresh_prompt_tokens": N_("Fresh prompt tokens"),
    "cached_tokens": N_("Cached prompt tokens"),
    "output_tokens": N_("Output tokens"),
    "preemptions": N_("Preemptions"),
    "aborted_requests": N_("Aborted requests"),
    "tokens_per_step": N_("Tokens per step"),
    "cache_hit_rate": N_("Prefix cache hits"),
    "kv_cache_use": N_("KV cache in use"),
    "requests_running": N_("Requests running"),
    "requests_waiting": N_("Requests waiting"),
    "gpu_share": N_("Model in GPU memory"),
    "expert_reads_from_ram": N_("Experts read from system memory"),
    "expert_reads_from_files": N_("Experts read from files"),
    "expert_file_reads": N_("Read from files"),
    "gpu_power": N_("GPU power"),
    "gpu_temperature": N_("GPU temperature"),
    "gpu_use": N_("GPU use"),
    "gpu_memory": N_("GPU memory in use"),
    "system_memory": N_("System memory in use"),
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
    """One server-side metric."""

    name: str
    title: str
    unit: str
    statistic: str
    """The statistic of `server`, `client` and `difference`; the others are in `quantiles`."""
    server: str
    unknown: str
    """Why the server has no value; empty when it has one."""
    client: str
    """The client's value; empty when only the server has one."""
    difference: str
    """The difference of the two; empty when there is nothing to compare."""
    is_warning: bool
    quantiles: tuple[str, ...]
    provenance: str
    """The source of the server's value."""


@dataclass(frozen=True)
class ServerMetrics(Section):
    template = "_run_server_metrics.html"
    contents = ("counted-title", N_("Server-side metrics"))

    lines: tuple[Line, ...]
    causes: tuple[tuple[str, str], ...]
    """The likely causes of differences worth a warning, each with what differs."""


def server_metrics_section(result: RunResult) -> ServerMetrics | None:
    """Returns the section; None when the server reported no metric."""
    by_name: dict[str, list[ServerClientComparison]] = {}
    for comparison in result.server_comparisons:
        by_name.setdefault(comparison.server_metric.name, []).append(comparison)
    causes: dict[str, list[str]] = {}
    for name, comparisons in by_name.items():
        if comparisons[0].cause:
            causes.setdefault(comparisons[0].cause, []).append(_title(name))
    lines = tuple(_line(name, comparisons) for name, comparisons in by_name.items())
    if not lines:
        return None
    return ServerMetrics(lines, tuple((enumerated(titles), cause) for cause, titles in causes.items()))


def _line(name: str, comparisons: Sequence[ServerClientComparison]) -> Line:
    """Returns one line: the first metric is the statistic that is compared, the others are quantiles of the same."""
    first, *others = comparisons
    metric = first.server_metric
    return Line(
        name=name,
        title=_title(name),
        unit="%" if metric.unit == "share" else metric.unit,
        statistic=_(_STATISTICS[metric.statistic]),
        server="" if first.null_reason else _value(metric),
        unknown=_(NULL_REASONS[first.null_reason]) if first.null_reason else "",
        client="" if first.client is None else _number(metric, first.client),
        difference="" if first.difference is None else format_percent(first.difference),
        is_warning=bool(first.cause),
        quantiles=tuple(_quantile(comparison.server_metric) for comparison in others),
        provenance=metric.provenance,
    )


def _title(name: str) -> str:
    metric = metrics().get(name)
    return metric.title if metric else _(_TITLES.get(name, name.replace("_", " ")))


def _quantile(metric: ServerMetric) -> str:
    return f"{_(_STATISTICS[metric.statistic])} {_value(metric)}"


def _value(metric: ServerMetric) -> str:
    """Returns a value in words; a range as `1,000-2,500`, since a histogram does not say where in it the value is."""
    if not metric.is_range:
        return _number(metric, metric.value)
    low, high = (_number(metric, bound) for bound in (metric.low, metric.high))
    return _("above {low}", low=low) if metric.high is None else f"{low}-{high}"


def _number(metric: ServerMetric, value: float | None) -> str:
    if value is not None and metric.unit in ("", "tokens") and value == int(value):
        return f"{value:,.0f}"
    return format_number(value * 100 if metric.unit == "share" and value is not None else value)


LARGEST_MS = 1e7


@dataclass(frozen=True)
class Serving(Section):
    template = "_run_serving.html"
    contents = ("serving-title", N_("Streams"))

    public_id: str
    figure: charts.Figure
    ttft_ms: str
    """The limits as shown in the form."""
    tpot_ms: str


def serving_section(result: RunResult, query: QueryParams) -> Serving | None:
    """Returns the section; None for a run without several streams. Raises BadInput for invalid limits."""
    slo = Slo(
        ttft_ms=_limit(query.get("slo_ttft_ms", ""), "TTFT", USUAL_SLO.ttft_ms),
        tpot_ms=_limit(query.get("slo_tpot_ms", ""), "TPOT", USUAL_SLO.tpot_ms),
    )
    figure = charts.serving_figure(result.serving(slo), slo)
    if figure is None:
        return None
    return Serving(result.run.public_id, figure, format_input(slo.ttft_ms, 1), format_input(slo.tpot_ms, 1))


def _limit(text: str, name: str, usual: float) -> float:
    if not text.strip():
        return usual
    try:
        value = read_number(text)
    except ValueError as error:
        raise BadInput(
            _("The limit of {name} must be a number of milliseconds, not {text!r}.", name=name, text=text[:40])
        ) from error
    if not 0 < value <= LARGEST_MS:
        raise BadInput(
            _(
                "The limit of {name} must be above 0 and at most {largest_ms} ms.",
                name=name,
                largest_ms=format_number(LARGEST_MS),
            )
        )
    return value
