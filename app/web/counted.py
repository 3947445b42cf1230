"""The panel "What the server counted": each figure beside what Roofmark timed of the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.counted import Counted
from app.metrics import metrics
from app.metrics.beside import Beside, beside
from app.samples import Sample
from app.units import number, percent

_TITLES = {
    "itl_ms": "ITL",
    "queue_ms": "Queue",
    "prefill_ms": "Prefill time",
    "decode_ms": "Decode time",
    "requests": "Requests",
    "prompt_tokens": "Prompt tokens",
    "cached_tokens": "Cached prompt tokens",
    "output_tokens": "Output tokens",
    "preemptions": "Preemptions",
    "cache_hit_rate": "Prefix cache hits",
    "kv_cache_use": "KV cache in use",
    "requests_running": "Requests running",
    "requests_waiting": "Requests waiting",
    "gpu_share": "Model in GPU memory",
    "context": "Context",
}
_STATISTICS = {"mean": "mean", "p50": "median", "p99": "99th percentile", "total": "total", "now": "after the run"}


@dataclass(frozen=True)
class Line:
    name: str
    title: str
    statistic: str
    unit: str
    server: str
    bounds: str
    """Of a histogram's bucket; empty for an exact figure."""
    client: str
    difference: str
    """Empty where there is nothing to compare."""
    is_warning: bool
    cause: str
    how: str


def counted_lines(kept: Sequence[Mapping[str, Any]], samples: Sequence[Sample]) -> list[Line]:
    """`kept`: `Run.evidence["server"]`."""
    return [_line(each) for each in beside([Counted(**each) for each in kept], samples)]


def _line(found: Beside) -> Line:
    counted, known = found.counted, metrics().get(found.counted.name)
    is_share = counted.unit == "share"

    def said(value: float | None) -> str:
        return number(value * 100 if is_share and value is not None else value)

    has_bounds = counted.low is not None and counted.high is not None
    return Line(
        name=counted.name,
        title=known.title if known else _TITLES.get(counted.name, counted.name.replace("_", " ")),
        statistic=_STATISTICS[counted.statistic],
        unit="%" if is_share else counted.unit,
        server=said(counted.value),
        bounds=f"{said(counted.low)} to {said(counted.high)}" if has_bounds else "",
        client=said(found.client) if found.client is not None else "",
        difference="" if found.difference is None else percent(found.difference),
        is_warning=bool(found.cause),
        cause=found.cause,
        how=counted.how,
    )
