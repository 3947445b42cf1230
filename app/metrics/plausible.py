"""What cannot be: figures of a server that contradict what was asked for, or our own clock.

The bounds are wide. A server's prefill may be a good deal faster than ours, since TTFT holds the network and the queue,
and its decode may be longer than what was seen of it, since tokens can be hidden.
"""

from app.metrics import clock
from app.samples import Sample

UNIT = 1000
"""Between seconds, milliseconds and microseconds."""

MANY_TIMES = 10
TOO_FEW = 1.5
MISCOUNT_TOKENS = 4
"""What a server may cut into several events, such as the name of a tool."""
LONGEST_TEMPLATE_TOKENS = 4096
SHORTEST_MS = 0.001
TOO_LONG = 2.0
PREFILL_TOO_SHORT = 50
DECODE_TOO_SHORT = 5
JITTER_MS = 50.0
# below it, TTFT is mostly network and set-up on a fast server
LONG_PROMPT_TOKENS = 256


def is_output_count_absurd(sample: Sample) -> bool:
    """Many times what was asked for and what was seen, or far less than was seen: an event holds a token or more."""
    n, events = sample.trace.output_tokens, len(sample.trace.token_events)
    if n is None:
        return False
    is_too_many = n > MANY_TIMES * max(sample.point.output_tokens, events) + MANY_TIMES
    return is_too_many or events > TOO_FEW * n + MISCOUNT_TOKENS


def is_prompt_count_absurd(sample: Sample) -> bool:
    """Many times what was sent, beyond any chat template."""
    server = sample.trace.server
    stated = max(sample.trace.prompt_tokens or 0, (server.prompt_tokens or 0) if server else 0)
    sent = max(sample.point.prompt_tokens, sample.expected_prompt_tokens or 0)
    return stated > MANY_TIMES * sent + LONGEST_TEMPLATE_TOKENS


def is_unit_mismatch(sample: Sample) -> bool:
    """A duration of the server, or all of them together, about a thousand times too long or too short for our clock."""
    stated_ms, seen_ms = _stated_ms(sample), _seen_ms(sample)
    if stated_ms and seen_ms and not 3 / UNIT <= stated_ms / seen_ms <= UNIT / 3:
        return True
    return any(_is_other_unit(stated_ms / seen_ms) for stated_ms, seen_ms in _beside_our_clock(sample))


def are_durations_absurd(sample: Sample) -> bool:
    """The server's durations cannot be those of this very answer, in whatever unit."""
    server = sample.trace.server
    if server is None or is_unit_mismatch(sample):
        return False
    if any(ms is not None and ms < SHORTEST_MS for ms in (server.prompt_ms, server.decode_ms)):
        return True
    seen_ms, first_ms = _seen_ms(sample), clock.first_token_ms(sample.trace)
    if seen_ms is not None and _stated_ms(sample) > TOO_LONG * seen_ms + JITTER_MS:
        return True
    before_ms = max(ms or 0 for ms in (server.prompt_ms, server.load_ms, server.queue_ms))
    if first_ms is not None and before_ms > TOO_LONG * first_ms + JITTER_MS:
        return True
    prefill, decode = _prefill(sample), _decode(sample)
    return bool(prefill and prefill[0] * PREFILL_TOO_SHORT < prefill[1]) or bool(
        decode and decode[0] * DECODE_TOO_SHORT < decode[1]
    )


def _is_other_unit(ratio: float) -> bool:
    """Off by about a thousand, or by a thousand thousands.

    >>> [_is_other_unit(ratio) for ratio in (0.001, 800.0, 1_500_000.0, 1.0, 100.0)]
    [True, True, True, False, False]
    """
    return any(1 / 3 < ratio / UNIT**power < 3 for power in (-2, -1, 1, 2))


def _beside_our_clock(sample: Sample) -> list[tuple[float, float]]:
    """The server's durations and ours of the same, where the two can be told apart from network and queue."""
    server, first_ms = sample.trace.server, clock.first_token_ms(sample.trace)
    if server is None:
        return []
    pairs = [pair for pair in (_prefill(sample), _decode(sample)) if pair is not None]
    # what came before the first token cannot have lasted longer than the wait for it, but much shorter
    before = (server.prompt_ms, server.load_ms, server.queue_ms)
    return pairs + [(ms, first_ms) for ms in before if ms is not None and first_ms and ms > first_ms]


def _prefill(sample: Sample) -> tuple[float, float] | None:
    """Of a long prompt: the server's time for it, and our wait without its load and queue."""
    server, first_ms = sample.trace.server, clock.first_token_ms(sample.trace)
    if server is None or server.prompt_ms is None or first_ms is None:
        return None
    is_alone = sample.point.concurrency == 1 and not sample.sensors.get("server_was_busy")
    if server.queue_ms is None and not is_alone:  # then most of the wait may be a queue
        return None
    waited_ms = first_ms - (server.load_ms or 0) - (server.queue_ms or 0)
    return (
        (server.prompt_ms, waited_ms) if (server.prompt_tokens or 0) >= LONG_PROMPT_TOKENS and waited_ms > 0 else None
    )


def _decode(sample: Sample) -> tuple[float, float] | None:
    server, span_ms = sample.trace.server, clock.span_ms(sample.trace)
    if server is None or server.decode_ms is None or span_ms is None or clock.arrives_in_bursts(sample.trace):
        return None
    return (server.decode_ms, span_ms) if span_ms > JITTER_MS else None


def _stated_ms(sample: Sample) -> float:
    server = sample.trace.server
    return 0.0 if server is None else (server.prompt_ms or 0) + (server.decode_ms or 0)


def _seen_ms(sample: Sample) -> float | None:
    last_ms = clock.last_token_ms(sample.trace)
    return sample.trace.end_ms if last_ms is None else last_ms
