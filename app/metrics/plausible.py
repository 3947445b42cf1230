"""What cannot be: figures of a server that contradict what was asked for, or our own clock.

The bounds are wide. A server's prefill may be a good deal faster than ours, since TTFT holds the network and the queue,
and its decode may be longer than what was seen of it, since tokens can be hidden.
"""

from app.metrics import clock
from app.samples import Sample

UNIT = 1000
"""Between seconds, milliseconds and microseconds."""

MANY_TIMES = 10
LONGEST_TEMPLATE_TOKENS = 4096
TOO_LONG = 2.0
PREFILL_TOO_SHORT = 50
DECODE_TOO_SHORT = 5
JITTER_MS = 50.0
# below it, TTFT is mostly network and set-up on a fast server
LONG_PROMPT_TOKENS = 256


def is_output_count_absurd(sample: Sample) -> bool:
    """Many times what was asked for and what was seen."""
    n, events = sample.trace.output_tokens or 0, len(clock.token_events(sample.trace))
    return n > MANY_TIMES * max(sample.point.output_tokens, events) + MANY_TIMES


def is_prompt_count_absurd(sample: Sample) -> bool:
    """Many times what was sent, beyond any chat template."""
    server = sample.trace.server
    stated = max(sample.trace.prompt_tokens or 0, (server.prompt_tokens or 0) if server else 0)
    sent = max(sample.point.prompt_tokens, sample.expected_prompt_tokens or 0)
    return stated > MANY_TIMES * sent + LONGEST_TEMPLATE_TOKENS


def is_unit_mismatch(sample: Sample) -> bool:
    """The server's durations against our own clock: about a thousand times too long or too short."""
    stated_ms, seen_ms = _stated_ms(sample), _seen_ms(sample)
    if not stated_ms or not seen_ms:
        return False
    ratio = stated_ms / seen_ms
    return ratio > UNIT / 3 or ratio < 3 / UNIT


def are_durations_absurd(sample: Sample) -> bool:
    """The server's durations cannot be those of this very answer, in whatever unit."""
    server = sample.trace.server
    if server is None or is_unit_mismatch(sample):
        return False
    seen_ms = _seen_ms(sample)
    if seen_ms is not None and _stated_ms(sample) > TOO_LONG * seen_ms + JITTER_MS:
        return True
    first_ms, span_ms = clock.first_token_ms(sample.trace), clock.span_ms(sample.trace)
    if server.prompt_ms is not None and first_ms is not None:
        waited_ms = first_ms - (server.load_ms or 0) - (server.queue_ms or 0)
        is_long = (server.prompt_tokens or 0) >= LONG_PROMPT_TOKENS
        if is_long and server.prompt_ms * PREFILL_TOO_SHORT < waited_ms:
            return True
        if server.prompt_ms > TOO_LONG * first_ms + JITTER_MS:
            return True
    if server.decode_ms is None or span_ms is None or clock.arrives_in_bursts(sample.trace):
        return False
    return span_ms > JITTER_MS and server.decode_ms * DECODE_TOO_SHORT < span_ms


def _stated_ms(sample: Sample) -> float:
    server = sample.trace.server
    return 0.0 if server is None else (server.prompt_ms or 0) + (server.decode_ms or 0)


def _seen_ms(sample: Sample) -> float | None:
    last_ms = clock.last_token_ms(sample.trace)
    return sample.trace.end_ms if last_ms is None else last_ms
