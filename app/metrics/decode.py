"""Decode speed and its inverse: the tokens after the first arrival over the time from the first arrival to the last.

When the times of the events do not give the speed within 10 %, there is none.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from app.core.samples import CountSource, Sample
from app.metrics import sanity_checks, token_times
from app.metrics.arrivals import UNCERTAINTY, Arrivals, arrivals_of, is_held_to_the_end, is_mostly_first
from app.metrics.base import Metric, Reading, Term, missing

LONGEST_TOKEN_BYTES = 16
"""Events with more bytes than this on average hold several tokens."""
DISAGREEMENT = 0.05
"""The relative difference between client and server above which one of them is wrong."""
UNTIMED = frozenset({"buffered", "zero_span", "too_few_events"})
"""Null reasons for which the time between tokens is unknown too."""


class Decode(NamedTuple):
    """The number of tokens after the first arrival, and the time they took."""

    steps: float
    span_ms: float

    @property
    def tokens_per_s(self) -> float:
        return self.steps / self.span_ms * 1000


def client_decode(sample: Sample) -> Decode | str:
    """Returns decode as the client timed it, or the reason why it is unknown."""
    decode = _timed(sample)
    if isinstance(decode, Decode) and (_began_late(sample) or _began_before(sample, decode)):
        return "late_start" if (difference_of_sides(sample) or 0) > DISAGREEMENT else decode
    return decode


def server_decode(sample: Sample) -> Decode | str | None:
    """Returns decode as the server states it, or the reason why it is unknown; None when the server states nothing."""
    server = sample.trace.server
    if server is None or server.output_tokens is None:
        return None
    if server.output_tokens < 2:
        return "one_token"
    return Decode(server.output_tokens - 1, server.decode_ms) if server.decode_ms else "no_duration"


def difference_of_sides(sample: Sample) -> float | None:
    """Returns the client's speed over the server's, minus one; None without both, or when the server's is
    implausible."""
    client, server = _timed(sample), server_decode(sample)
    if not isinstance(client, Decode) or not isinstance(server, Decode):
        return None
    if sanity_checks.is_unit_mismatch(sample) or sanity_checks.are_durations_absurd(sample):
        return None
    return client.tokens_per_s / server.tokens_per_s - 1


def is_in_one_piece(sample: Sample) -> bool:
    """Whether the answer, or most of it, was generated before any of it arrived."""
    arrivals = arrivals_of(sample.trace)
    if arrivals is None or sanity_checks.is_output_count_absurd(sample):
        return False
    return is_mostly_first(arrivals) or _is_held(sample, arrivals)


def _is_held(sample: Sample, arrivals: Arrivals) -> bool:
    return is_held_to_the_end(arrivals) or sanity_checks.is_held_back(sample, arrivals)


def _timed(sample: Sample) -> Decode | str:
    trace = sample.trace
    if trace.not_streamed:
        return "not_streamed"
    arrivals = arrivals_of(trace)
    if arrivals is None:
        return "no_token"
    if sanity_checks.is_output_count_absurd(sample):
        return "implausible"
    if arrivals.output_tokens < 2:
        return "one_token"
    if token_times.is_mostly_unseen(trace):
        return "hidden_tokens"
    if token_times.arrives_in_bursts(trace):
        return "buffered"
    if token_times.span_ms(trace) == 0:
        return "zero_span"
    if is_count_unknown(sample):
        return "tokens_unknown"
    if arrivals.relative_error > UNCERTAINTY:
        return "too_few_events"
    return "buffered" if _is_held(sample, arrivals) else Decode(arrivals.steps, arrivals.span_ms)


def is_count_unknown(sample: Sample) -> bool:
    """Whether the events were counted as tokens although they hold several each.

    Two signs give this away: their length, or an answer that stopped at the requested length with fewer events than
    that.
    """
    trace, events = sample.trace, len(sample.trace.token_events)
    if trace.count_source is not CountSource.EVENTS:
        return False
    is_cut_at_length = trace.finish_reason == "length" and events < (1 - UNCERTAINTY) * sample.point.output_tokens
    return is_cut_at_length or token_times.visible_bytes(trace) > LONGEST_TOKEN_BYTES * events


def _began_late(sample: Sample) -> bool:
    """Whether the first tokens were delayed by the reader or on their way."""
    arrivals = arrivals_of(sample.trace)
    return sanity_checks.is_reader_late(sample) or (arrivals is not None and arrivals.first_events > 1)


def _began_before(sample: Sample, decode: Decode) -> bool:
    """Whether the server states a longer decode than was seen, and decode can have begun before the first event."""
    server, last_ms = sample.trace.server, token_times.last_token_ms(sample.trace)
    if server is None or not server.prompt_ms or not server.decode_ms or last_ms is None:
        return False
    return decode.span_ms * (1 + UNCERTAINTY) < server.decode_ms <= last_ms - server.prompt_ms


def _read(sample: Sample, figure: Callable[[Decode], float]) -> Sequence[Reading]:
    client, server = client_decode(sample), server_decode(sample)
    readings = [missing("client", client) if isinstance(client, str) else Reading("client", figure(client))]
    if server is not None:
        readings.append(missing("server", server) if isinstance(server, str) else Reading("server", figure(server)))
    return readings


def read_decode(sample: Sample) -> Sequence[Reading]:
    return _read(sample, lambda decode: decode.tokens_per_s)


def read_tpot(sample: Sample) -> Sequence[Reading]:
    return _read(sample, lambda decode: decode.span_ms / decode.steps)


METRICS = (
    Metric(
        key="decode_tokens_per_s",
        title="Decode",
        unit="tok/s",
        better="higher",
        explanation="Generation speed of one stream: the tokens after its first event over the time they took.",
        formula=read_decode,
        alias="decode",
        term=Term(
            "decode",
            "Decode",
            "Writing the answer, one token after the other. Each token needs all active weights and the KV cache read "
            "from memory once, so it is mostly limited by memory bandwidth.",
            "(n - 1) / (last token - first token)",
        ),
        assumed_run_deviation=0.02,
        formula_version=3,
    ),
    Metric(
        key="tpot_ms",
        title="TPOT",
        unit="ms",
        better="lower",
        explanation="Time per output token after the first: the inverse of decode speed.",
        formula=read_tpot,
        order=10,
        term=Term(
            "tpot",
            "TPOT",
            "Time per output token after the first: the inverse of decode speed.",
            "(last token - first token) / (n - 1)",
        ),
        assumed_run_deviation=0.02,
        formula_version=3,
    ),
)
