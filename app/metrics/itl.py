"""Inter-token latency: the gaps between token events. Where events hold several tokens, they are chunk gaps."""

from collections.abc import Callable, Sequence

from app.core.samples import Sample
from app.metrics import token_times
from app.metrics.base import Metric, Reading, Term, missing
from app.metrics.decode import UNTIMED, client_decode
from app.metrics.summary import percentile


def _reader(choose: Callable[[Sequence[float]], float]) -> Callable[[Sample], Sequence[Reading]]:
    def read(sample: Sample) -> Sequence[Reading]:
        if sample.trace.not_streamed:
            return [missing("client", "not_streamed")]
        gaps = token_times.gaps_ms(sample.trace)
        if not gaps:
            return [missing("client", "few_gaps")]
        decode = client_decode(sample)
        if isinstance(decode, str) and decode in UNTIMED:
            return [missing("client", decode)]
        return [Reading("client", choose(gaps))]

    return read


_TERM = Term(
    "itl",
    "ITL",
    "Inter-token latency: the gap between one token and the next, as a reader sees it. p50 is the median gap, one in "
    "ten is longer than p90, one in a hundred longer than p99. Where an event of the stream holds several tokens it "
    "is called chunk gap.",
    "gaps between token events that follow each other",
)


def _metric(statistic: str, order: int, choose: Callable[[Sequence[float]], float]) -> Metric:
    return Metric(
        key=f"itl_ms_{statistic}",
        title=f"ITL {statistic}",
        unit="ms",
        better="lower",
        explanation="Inter-token latency: the gap between one token and the next, as a reader sees it.",
        formula=_reader(choose),
        order=order,
        term=_TERM,
        formula_version=2,
    )


METRICS = (
    _metric("p50", 20, lambda gaps: percentile(gaps, 50)),
    _metric("p90", 21, lambda gaps: percentile(gaps, 90)),
    _metric("p99", 22, lambda gaps: percentile(gaps, 99)),
    _metric("max", 23, max),
)
