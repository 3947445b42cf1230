"""Checks for figures of a server that contradict the request or the client's clock.

The bounds are wide. A server's prefill may be a good deal faster than the client's, since TTFT includes the network and
the queue, and its decode may be longer than what was seen of it, since tokens can be hidden.
"""

from app.core.samples import CacheDefeat, Sample
from app.metrics import token_times
from app.metrics.arrivals import FEWEST_HELD, Arrivals

UNIT = 1000
"""The factor between seconds, milliseconds and microseconds."""

MANY_TIMES = 10
TOO_FEW = 1.5
MISCOUNT_SHARE = 0.05
MISCOUNT_TOKENS = 4
"""The number of tokens that a server may spread over several events each, such as the name of a tool."""
LONGEST_TEMPLATE_TOKENS = 4096
MISCOUNT_PROMPT_TOKENS = 256
SHORTEST_MS = 0.001
TOO_LONG = 2.0
PREFILL_TOO_SHORT = 50
DECODE_TOO_SHORT = 5
JITTER_MS = 50.0
MAX_PREFILL_TOKENS_PER_S = 200_000
"""No hardware processes the prompt of a single request faster than this."""
FAR_PROMPT = 1.3
FAR_TOKENS = 64
"""A prompt with FAR_PROMPT times the estimated tokens, and at least this many more, includes a text of the server's
own."""
FAR_PROMPT_COUNTED = 1.1
"""As `FAR_PROMPT`, for a count of the server's own tokenizer."""
HELD_BACK_TIMES = 10
HELD_BACK_TIMES_BUNDLED = 3
"""An answer that arrives this many times as fast as its prompt was read was generated before it arrived. The factor is
larger when each token has its own event: all of a lone request's wait except the prompt's time may be a queue or a
model being loaded."""
QUEUED_MS = 100.0
QUEUED_MS_PER_TOKEN = 0.1
QUEUED_SHARE = 0.1
"""A lone request that waited in the server's queue for longer than this, and for this share of TTFT, waited for others.
Ollama's figure also holds what its template, its tokenizer and saving the prompt before take."""
LAG_MS = 2.0
"""A reader whose mean delay exceeds this is late..."""
LAG_SHARE = 0.1
"""... when the delay also exceeds this share of the mean gap between events, or of TTFT."""
# below it, TTFT is mostly network and set-up on a fast server
LONG_PROMPT_TOKENS = 256


def is_output_count_absurd(sample: Sample) -> bool:
    """Whether the count is many times what was requested and seen, or far less than was seen: an event holds at least
    one token."""
    n, events = sample.trace.output_tokens, len(sample.trace.token_events)
    if n is None:
        return False
    is_too_many = n > MANY_TIMES * max(sample.point.output_tokens, events) + MANY_TIMES
    return is_too_many or events > TOO_FEW * n + MISCOUNT_TOKENS


def is_prompt_count_absurd(sample: Sample) -> bool:
    """Whether the count is many times what was sent, beyond any chat template; or far from the count of the server's
    own tokenizer."""
    stated = _stated_prompt_tokens(sample)
    if sample.expected_prompt_tokens:
        return stated > 2 * sample.expected_prompt_tokens + MISCOUNT_PROMPT_TOKENS
    return stated > MANY_TIMES * sample.point.prompt_tokens + LONGEST_TEMPLATE_TOKENS


def may_hold_cached_prompt(sample: Sample, *, is_stated_fresh: bool = False) -> bool:
    """Whether cached tokens may be among the prompt's without being reported.

    A nonce protects only what follows it, not a system prompt that the server puts before it. Such a prompt shows by
    its count, and a cached one by a speed that no hardware reaches. `is_stated_fresh`: whether the server reports these
    tokens as processed ones.
    """
    if sample.trace.cached_tokens is not None:
        return False
    if sample.cache_defeat is CacheDefeat.NONE and not is_stated_fresh:
        return True
    return is_prompt_far_from_sent(sample) or is_prefill_absurd(sample)


def is_prompt_far_from_sent(sample: Sample) -> bool:
    times, sent = FAR_PROMPT_COUNTED, sample.expected_prompt_tokens
    if sent is None:
        times, sent = FAR_PROMPT, sample.point.prompt_tokens + sample.point.depth
    sent += sample.trace.own_system_tokens
    return _stated_prompt_tokens(sample) > times * sent + FAR_TOKENS


def is_prefill_absurd(sample: Sample) -> bool:
    """Whether prefill is faster than any hardware, by the server's own time or already by TTFT, which includes more
    than the prompt."""
    server, first_ms = sample.trace.server, token_times.first_token_ms(sample.trace)
    speeds = []
    if server is not None and server.prompt_tokens and server.prompt_ms and not is_unit_mismatch(sample):
        speeds.append(server.prompt_tokens / server.prompt_ms)
    if first_ms and sample.trace.prompt_tokens:
        speeds.append((sample.trace.prompt_tokens - (sample.trace.cached_tokens or 0)) / first_ms)
    return any(speed * 1000 > MAX_PREFILL_TOKENS_PER_S for speed in speeds)


def waited_in_queue(sample: Sample) -> bool:
    """Whether the server says that a lone request waited, which it does behind those of others."""
    server, first_ms = sample.trace.server, token_times.first_token_ms(sample.trace)
    if server is None or server.queue_ms is None or first_ms is None or sample.point.concurrency > 1:
        return False
    tokens = (sample.trace.prompt_tokens or 0) + (sample.trace.output_tokens or 0)
    return server.queue_ms > max(QUEUED_MS + QUEUED_MS_PER_TOKEN * tokens, QUEUED_SHARE * first_ms)


def is_reader_late(sample: Sample) -> bool:
    """Whether the client's reader was late by a good part of TTFT or of the mean gap between events."""
    lag_ms, gaps, first_ms = (
        sample.trace.sched_delay_ms,
        token_times.gaps_ms(sample.trace),
        token_times.first_token_ms(sample.trace),
    )
    if lag_ms is None or lag_ms <= LAG_MS:
        return False
    is_late_first = first_ms is not None and lag_ms > LAG_SHARE * first_ms
    return is_late_first or (bool(gaps) and lag_ms > LAG_SHARE * sum(gaps) / len(gaps))


def is_held_back(sample: Sample, arrivals: Arrivals) -> bool:
    """Whether the answer came many times as fast as its prompt was read, which no server can do."""
    trace, first_ms, speed = sample.trace, token_times.first_token_ms(sample.trace), arrivals.tokens_per_s
    fresh = (trace.prompt_tokens or sample.point.prompt_tokens) - (trace.cached_tokens or 0)
    is_alone = sample.point.concurrency == 1 and not sample.sensors.get("server_was_busy")
    if not first_ms or speed is None or not is_alone or arrivals.unseen or arrivals.output_tokens < FEWEST_HELD:
        return False
    fresh = max(fresh, LONG_PROMPT_TOKENS)  # a shorter one may take as long
    server = trace.server
    waited_ms = first_ms - ((server.load_ms or 0) + (server.queue_ms or 0) if server else 0)
    times = HELD_BACK_TIMES_BUNDLED if arrivals.is_bundled else HELD_BACK_TIMES
    return waited_ms > 0 and speed > times * fresh / waited_ms * 1000


def is_unit_mismatch(sample: Sample) -> bool:
    """Whether a duration of the server, or all of them together, is about a thousand times too long or too short for
    the client's clock."""
    stated_ms, seen_ms = _stated_ms(sample), _seen_ms(sample)
    if stated_ms and seen_ms and not 3 / UNIT <= stated_ms / seen_ms <= UNIT / 3:
        return True
    return any(_is_other_unit(stated_ms / seen_ms) for stated_ms, seen_ms in _beside_our_clock(sample))


def are_durations_absurd(sample: Sample) -> bool:
    """Whether the server's durations cannot be those of this answer, in whatever unit."""
    server = sample.trace.server
    if server is None or is_unit_mismatch(sample):
        return False
    if any(ms is not None and ms < SHORTEST_MS for ms in (server.prompt_ms, server.decode_ms)):
        return True
    seen_ms, first_ms = _seen_ms(sample), token_times.first_token_ms(sample.trace)
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
    """Whether two durations differ by about a factor of a thousand or a million.

    >>> [_is_other_unit(ratio) for ratio in (0.001, 800.0, 1_500_000.0, 1.0, 100.0, 0.0)]
    [True, True, True, False, False, False]
    """
    if not ratio:
        return False
    times = ratio if ratio > 1 else 1 / ratio
    return UNIT / 3 < times < 3 * UNIT or UNIT**2 / 3 < times < 3 * UNIT**2


def _beside_our_clock(sample: Sample) -> list[tuple[float, float]]:
    """Returns pairs of durations, the server's and the client's, for phases that can be separated from network and
    queue."""
    server, first_ms = sample.trace.server, token_times.first_token_ms(sample.trace)
    if server is None:
        return []
    pairs = [pair for pair in (_prefill(sample), _decode(sample)) if pair is not None]
    # the time before the first token is at most the wait for it, and may be much shorter
    before = (server.prompt_ms, server.load_ms, server.queue_ms)
    return pairs + [(ms, first_ms) for ms in before if ms is not None and first_ms and ms > first_ms]


def _prefill(sample: Sample) -> tuple[float, float] | None:
    """Returns, for a long prompt, the server's prefill time and the client's wait without the server's load and queue
    times."""
    server, first_ms = sample.trace.server, token_times.first_token_ms(sample.trace)
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
    server, span_ms = sample.trace.server, token_times.span_ms(sample.trace)
    if server is None or server.decode_ms is None or span_ms is None or token_times.arrives_in_bursts(sample.trace):
        return None
    return (server.decode_ms, span_ms) if span_ms > JITTER_MS else None


def _stated_prompt_tokens(sample: Sample) -> int:
    server = sample.trace.server
    return max(sample.trace.prompt_tokens or 0, (server.prompt_tokens or 0) if server else 0)


def _stated_ms(sample: Sample) -> float:
    server = sample.trace.server
    return 0.0 if server is None else (server.prompt_ms or 0) + (server.decode_ms or 0)


def _seen_ms(sample: Sample) -> float | None:
    last_ms = token_times.last_token_ms(sample.trace)
    return sample.trace.end_ms if last_ms is None else last_ms
