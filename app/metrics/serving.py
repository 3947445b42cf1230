"""Several streams at once: the results for each number of them, and how many can be served within limits.

This belongs to a whole run, not to one workload; the limits are the reader's, so nothing of it is stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from statistics import median

from app.core.samples import Sample, Workload
from app.metrics import is_usable, metrics, values_of
from app.metrics.base import Metric
from app.metrics.flags import is_unanswered
from app.metrics.summary import percentile
from app.metrics.throughput import Slo, read_goodput


@dataclass(frozen=True)
class Served:
    """The results with one number of streams."""

    streams: int
    requests: int
    """The number of usable requests, which TTFT and TPOT are computed from."""
    throughput_tokens_per_s: float | None
    """The throughput of whole rounds, as for goodput: a request without a whole answer takes time in them and gives no
    tokens."""
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    tpot_p50_ms: float | None
    tpot_p99_ms: float | None
    good_share: float | None
    """The share of requests within the limits; a request without a whole answer counts as outside of them."""
    goodput_requests_per_s: float | None


def serving(samples: Sequence[Sample], slo: Slo) -> list[Served]:
    """Returns the results by number of streams, ascending; empty for a run that never had more than one."""
    by_streams: dict[int, list[Sample]] = {}
    for sample in samples:
        if not sample.is_warmup and not sample.reuses_cache:
            by_streams.setdefault(sample.point.concurrency, []).append(sample)
    served = [_served(streams, by_streams[streams], slo) for streams in sorted(by_streams)]
    served = [of_streams for of_streams in served if of_streams.requests or of_streams.good_share is not None]
    return served if served and served[-1].streams > 1 else []


def largest_within(served: Sequence[Served]) -> int | None:
    """Returns the largest number of streams up to which every request was within the limits; None when not even the
    smallest number was.

    A number above one that failed does not count: it was lucky.
    """
    within = takewhile(lambda of_streams: of_streams.good_share == 1, served)
    return max((of_streams.streams for of_streams in within), default=None)


def _served(streams: int, samples: Sequence[Sample], slo: Slo) -> Served:
    usable = [sample for sample in samples if is_usable(sample)]
    unanswered = sum(is_unanswered(sample) for sample in samples)
    ttft_ms, tpot_ms = (_values(usable, key) for key in ("ttft_ms", "tpot_ms"))
    met = [is_met for sample in usable if (is_met := slo.is_met(sample)) is not None]
    goodput = replace(metrics()["goodput_requests_per_s"], round_formula=partial(read_goodput, slo=slo))
    return Served(
        streams=streams,
        requests=len(usable),
        throughput_tokens_per_s=_of_rounds(metrics()["output_tokens_per_s"], samples),
        ttft_p50_ms=median(ttft_ms) if ttft_ms else None,
        ttft_p99_ms=percentile(ttft_ms, 99) if ttft_ms else None,
        tpot_p50_ms=median(tpot_ms) if tpot_ms else None,
        tpot_p99_ms=percentile(tpot_ms, 99) if tpot_ms else None,
        good_share=sum(met) / (len(met) + unanswered) if met or unanswered else None,
        goodput_requests_per_s=_of_rounds(goodput, samples),
    )


def _of_rounds(metric: Metric, samples: Sequence[Sample]) -> float | None:
    """Returns the median of the rounds of all workloads."""
    by_point: dict[Workload, list[Sample]] = {}
    for sample in samples:
        by_point.setdefault(sample.point, []).append(sample)
    values = [v for of_point in by_point.values() for v in values_of(metric, of_point).by_source.get("client", ())]
    return median(values) if values else None


def _values(samples: Sequence[Sample], key: str) -> list[float]:
    readings = [reading for sample in samples for reading in metrics()[key].read([sample])]
    return [reading.value for reading in readings if reading.source == "client" and reading.value is not None]
