"""Inter-token latency: the gaps between token events. Where events hold several tokens, they are chunk gaps."""

from collections.abc import Callable, Sequence

from app.core.samples import Sample
from app.metrics import token_times
from app.metrics.base import Metric, Reading, missing
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


def _metric(suffix: str, title: str, choose: Callable[[Sequence[float]], float]) -> Metric:
    return Metric(
        key=f"itl_ms_{suffix}",
        title=f"ITL {title}",
        unit="ms",
        better="lower",
        explanation="Inter-token latency: the pause between one token and the next, as a reader sees it.",
        formula=_reader(choose),
        formula_version=2,
    )


METRICS = (
    _metric("p50", "p50", lambda gaps: percentile(gaps, 50)),
    _metric("p90", "p90", lambda gaps: percentile(gaps, 90)),
    _metric("p99", "p99", lambda gaps: percentile(gaps, 99)),
    _metric("max", "max", max),
)
