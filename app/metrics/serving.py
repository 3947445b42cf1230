"""Several streams at once: what each number of them got, and how many can be served within limits.

Not a metric of one point but of a whole run; the limits are the reader's, so nothing of it is stored.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import median

from app.metrics import is_usable, measure, metrics, rounds_of
from app.metrics.summary import percentile
from app.metrics.throughput import Slo, read_goodput
from app.samples import Sample, Status


@dataclass(frozen=True)
class Served:
    """One number of streams."""

    streams: int
    requests: int
    """Usable ones; all that follows is theirs."""
    throughput_tokens_per_s: float | None
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    tpot_p50_ms: float | None
    tpot_p99_ms: float | None
    good_share: float | None
    """Those within the limits, of the requests and of those that got no whole answer, which are not within any."""
    goodput_requests_per_s: float | None


def serving(samples: Sequence[Sample], slo: Slo) -> list[Served]:
    """By number of streams, ascending; empty for a run that never had more than one."""
    by_streams: dict[int, list[Sample]] = {}
    broken: Counter[int] = Counter()
    for sample in samples:
        if is_usable(sample) and not sample.reuses_cache:
            by_streams.setdefault(sample.point.concurrency, []).append(sample)
        elif sample.trace.status is not Status.OK and not sample.is_warmup:
            broken[sample.point.concurrency] += 1
    if not by_streams or max(by_streams) == 1:
        return []
    return [_served(streams, by_streams[streams], broken[streams], slo) for streams in sorted(by_streams)]


def largest_within(found: Sequence[Served]) -> int | None:
    """The largest number of streams up to which every request was within the limits; None where not even the fewest.

    A number above one that failed does not count: it was lucky.
    """
    within = takewhile(lambda each: each.good_share == 1, found)
    return max((each.streams for each in within), default=None)


def _served(streams: int, taken: Sequence[Sample], broken: int, slo: Slo) -> Served:
    ttft_ms, tpot_ms = (_values(taken, key) for key in ("ttft_ms", "tpot_ms"))
    met = [slo.is_met(sample) for sample in taken]
    known = [each for each in met if each is not None]
    whole = [each for each in rounds_of(taken) if len(each) == streams]
    goodput = [reading.value for each in whole for reading in read_goodput(each, slo) if reading.value is not None]
    throughput = [each.value for each in measure(taken) if each.metric == "output_tokens_per_s"]
    return Served(
        streams=streams,
        requests=len(taken),
        throughput_tokens_per_s=throughput[0] if throughput else None,
        ttft_p50_ms=median(ttft_ms) if ttft_ms else None,
        ttft_p99_ms=percentile(ttft_ms, 99) if ttft_ms else None,
        tpot_p50_ms=median(tpot_ms) if tpot_ms else None,
        tpot_p99_ms=percentile(tpot_ms, 99) if tpot_ms else None,
        good_share=sum(known) / (len(known) + broken) if known else None,
        goodput_requests_per_s=median(goodput) if goodput else None,
    )


def _values(taken: Sequence[Sample], key: str) -> list[float]:
    readings = [reading for sample in taken for reading in metrics()[key].read([sample])]
    return [reading.value for reading in readings if reading.source == "client" and reading.value is not None]
