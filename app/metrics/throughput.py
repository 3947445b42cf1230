"""The output of a server over all streams of a round together, and how much of it meets the limits."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.samples import Sample
from app.metrics import sanity_checks
from app.metrics.base import Metric, Reading, Term, missing
from app.metrics.decode import is_count_unknown, read_tpot
from app.metrics.e2e import read_e2e
from app.metrics.flags import is_unanswered
from app.metrics.ttft import read_ttft


@dataclass(frozen=True)
class Slo:
    """The limits that a request must keep to be good (service level objectives)."""

    ttft_ms: float = 500.0
    tpot_ms: float = 50.0

    def is_met(self, sample: Sample) -> bool | None:
        """Whether the request meets the limits; None when that is unknown."""
        ttft, tpot = _latencies(sample)
        is_within = (
            None if reading.value is None else reading.value <= limit_ms
            for reading, limit_ms in ((ttft, self.ttft_ms), (tpot, self.tpot_ms))
        )
        verdicts = set(is_within)
        return False if False in verdicts else None if None in verdicts else True


USUAL_SLO = Slo()


def _latencies(sample: Sample) -> tuple[Reading, Reading]:
    """Returns TTFT and TPOT as the client timed them."""
    return read_ttft(sample)[0], next(reading for reading in read_tpot(sample) if reading.source == "client")


def wall_ms(streams: Sequence[Sample]) -> float | None:
    """Returns the time from the first t0 of a round to its last token, or to the end of a request without a whole
    answer; None when an answered stream has no token."""
    ends = [_unanswered_ms(sample) if is_unanswered(sample) else read_e2e(sample)[0].value for sample in streams]
    if None in ends:
        return None
    return max(sample.sent_at_ms + (end or 0) for sample, end in zip(streams, ends, strict=True))


def _unanswered_ms(sample: Sample) -> float:
    """Returns the shortest time that a request without an answer was waited for: until reading stopped, or its last
    event."""
    return max(sample.trace.end_ms or 0.0, *(event.at_ms for event in sample.trace.events[-1:]), 0.0)


def read_throughput(streams: Sequence[Sample]) -> Sequence[Reading]:
    """Reads all output tokens of the round / its wall time; a request without a whole answer gave none."""
    answered = [sample for sample in streams if not is_unanswered(sample)]
    if any(sanity_checks.is_output_count_absurd(sample) for sample in answered):
        return [missing("client", "implausible")]
    if any(map(is_count_unknown, answered)):
        return [missing("client", "tokens_unknown")]
    wall = wall_ms(streams)
    tokens = [sample.trace.output_tokens for sample in answered]
    if not wall or not all(tokens):
        return [missing("client", _why_no_wall(answered))]
    return [Reading("client", sum(n or 0 for n in tokens) / wall * 1000)]


def _why_no_wall(answered: Sequence[Sample]) -> str:
    return "not_streamed" if any(sample.trace.not_streamed for sample in answered) else "no_token"


def read_goodput(streams: Sequence[Sample], slo: Slo) -> Sequence[Reading]:
    """Reads requests of the round that meet the limits / its wall time; one without a whole answer meets none."""
    met = [False if is_unanswered(sample) else slo.is_met(sample) for sample in streams]
    wall = wall_ms(streams)
    if not wall:
        return [missing("client", _why_no_wall([sample for sample in streams if not is_unanswered(sample)]))]
    if None in met:
        reasons = (reading.null_reason for reading in _latencies(streams[met.index(None)]))
        return [missing("client", next(filter(None, reasons)))]
    return [Reading("client", sum(map(bool, met)) / wall * 1000)]


def read_usual_goodput(streams: Sequence[Sample]) -> Sequence[Reading]:
    """Reads goodput with the usual limits; there is no reading of a lone stream, which says nothing about serving."""
    return read_goodput(streams, USUAL_SLO) if streams[0].point.concurrency > 1 else []


METRICS = (
    Metric(
        key="output_tokens_per_s",
        title="Throughput",
        unit="tok/s",
        better="higher",
        explanation="Output tokens of all streams over the whole time, prefill included. A failed request has none.",
        round_formula=read_throughput,
        order=50,
        term=Term(
            "throughput",
            "Throughput",
            "All output tokens over the whole time, prefill included. With several streams at once it counts the "
            "tokens of all of them, so it rises while each single stream gets slower.",
            "output tokens / time",
        ),
        assumed_run_deviation=0.03,
        counts_failures=True,
        invalidated_by=frozenset({"cached", "model_load"}),
        formula_version=2,
    ),
    Metric(
        key="goodput_requests_per_s",
        title="Goodput",
        unit="req/s",
        better="higher",
        explanation="Requests per second that keep within limits: TTFT of 500 ms and TPOT of 50 ms.",
        round_formula=read_usual_goodput,
        order=60,
        term=Term(
            "goodput",
            "Goodput",
            "Requests per second that met every limit, such as TTFT below 500 ms and TPOT below 50 ms. Requests that "
            "are too slow for a reader do not count.",
            "requests within all limits / time",
        ),
        counts_failures=True,
        invalidated_by=frozenset({"cached", "model_load"}),
        formula_version=2,
    ),
)
