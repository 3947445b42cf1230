"""Decode speed and its inverse. The first token ends the prefill, so n tokens take n - 1 intervals.

Where the client knows that its first event held more tokens, or that reasoning came before which a server keeps to
itself, it counts only those that came after.
"""

from collections.abc import Sequence

from app.metrics import clock, plausible
from app.metrics.base import Metric, Reading, Source, null
from app.samples import Sample


def intervals(sample: Sample) -> list[tuple[Source, int, float] | Reading]:
    """Per source: decode intervals and the milliseconds they took, or why there are none."""
    found = [_client(sample)]
    server = sample.trace.server
    if server is not None and server.output_tokens is not None:
        if server.output_tokens < 2:
            found.append(null("server", "one_token"))
        elif not server.decode_ms:
            found.append(null("server", "no_duration"))
        else:
            found.append(("server", server.output_tokens - 1, server.decode_ms))
    return found


def _client(sample: Sample) -> tuple[Source, int, float] | Reading:
    trace = sample.trace
    if trace.not_streamed:
        return null("client", "not_streamed")
    span, steps = clock.span_ms(trace), clock.decode_steps(trace)
    if span is None or steps is None:
        return null("client", "no_token")
    if plausible.is_output_count_absurd(sample):
        return null("client", "implausible")
    if steps < 1:
        return null("client", "one_token")
    if clock.is_mostly_unseen(trace):
        return null("client", "hidden_tokens")
    if clock.arrives_in_bursts(trace):
        return null("client", "buffered")
    return ("client", steps, span) if span > 0 else null("client", "zero_span")


def read_decode(sample: Sample) -> Sequence[Reading]:
    return [
        each if isinstance(each, Reading) else Reading(each[0], each[1] / each[2] * 1000) for each in intervals(sample)
    ]


def read_tpot(sample: Sample) -> Sequence[Reading]:
    return [each if isinstance(each, Reading) else Reading(each[0], each[2] / each[1]) for each in intervals(sample)]


METRICS = (
    Metric(
        key="decode_tokens_per_s",
        title="Decode",
        unit="tok/s",
        better="higher",
        explanation="Generation speed of one stream after its first token: (n - 1) tokens over the time they took.",
        formula=read_decode,
        assumed_run_deviation=0.02,
        formula_version=2,
    ),
    Metric(
        key="tpot_ms",
        title="TPOT",
        unit="ms",
        better="lower",
        explanation="Time per output token after the first: the inverse of decode speed.",
        formula=read_tpot,
        assumed_run_deviation=0.02,
        formula_version=2,
    ),
)
