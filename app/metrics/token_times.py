"""Arrival times of tokens, which every timing metric starts from, and the token counts of prompts and answers."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple, TypeVar

from app.core.samples import Kind, Sample, Status, Trace

T = TypeVar("T")


def once_per_trace(function: Callable[[Trace], T]) -> Callable[[Trace], T]:
    """Caches a function's result with the trace, as `token_events` are: dozens of metrics and flags of a page start
    from the same."""
    key = f"{function.__module__}.{function.__name__}"

    @wraps(function)
    def cached(trace: Trace) -> T:
        values = vars(trace)
        if key not in values:
            values[key] = function(trace)
        result: T = values[key]
        return result

    return cached


def first_token_ms(trace: Trace) -> float | None:
    return trace.token_events[0].at_ms if trace.token_events else None


def last_token_ms(trace: Trace) -> float | None:
    return trace.token_events[-1].at_ms if trace.token_events else None


@once_per_trace
def unseen_reasoning(trace: Trace) -> int:
    """Returns the output tokens that came before the first one seen: reasoning that the server counts but does not
    send."""
    tokens, events = trace.reasoning_tokens or 0, trace.token_events
    is_seen = tokens == 0 or any(event.kind in (Kind.REASONING, Kind.HIDDEN) for event in events)
    # where reasoning comes as plain text, there are more events than the answer alone can have
    return 0 if is_seen or len(events) > (trace.output_tokens or 0) - tokens else tokens


FEWEST_BYTES_PER_TOKEN = 1.3
"""The minimum mean bytes per token of a whole text; only rare characters have more tokens."""


@once_per_trace
def visible_bytes(trace: Trace) -> int:
    return sum(event.size_bytes for event in trace.token_events)


def is_mostly_unseen(trace: Trace) -> bool:
    """Whether most of the tokens left no trace in the stream, not even their time."""
    n, events = trace.output_tokens or 0, trace.token_events
    if not 0 < 2 * len(events) < n or visible_bytes(trace) >= FEWEST_BYTES_PER_TOKEN * n:
        return False
    return not (events[0].tokens or unseen_reasoning(trace) or any(event.kind is Kind.HIDDEN for event in events))


@once_per_trace
def gaps_ms(trace: Trace) -> list[float]:
    """Returns the gaps between consecutive token events; ITL when each event holds one token, else chunk gaps."""
    return [later.at_ms - earlier.at_ms for earlier, later in pairwise(trace.token_events)]


def span_ms(trace: Trace) -> float | None:
    first, last = first_token_ms(trace), last_token_ms(trace)
    return None if first is None or last is None else last - first


BURST_SHARE_OF_MEAN_GAP = 0.1
AT_ONCE_MS = 5.0
"""Events closer together than both of these came at the same moment."""
IMPOSSIBLE_GAP_MS = 0.05
PAUSE_MS = 20.0
"""A busy machine may repeatedly delay its own reader by less than this."""


def at_once_ms(times: Sequence[float]) -> float:
    """Returns the gap in ms below which two of the events at these times came at the same moment."""
    gaps = len(times) - 1
    return min(BURST_SHARE_OF_MEAN_GAP * (times[-1] - times[0]) / gaps, AT_ONCE_MS) if gaps > 0 else 0.0


@once_per_trace
def arrives_in_bursts(trace: Trace) -> bool:
    """Whether something between server and client held tokens back, so that their times mean nothing.

    Either the whole stream came faster than 20,000 events/s, or at least four events at a time in at most eight
    bursts, or at least eight at a time with a real pause between them. A server that emits a few tokens per step makes
    many small bursts and is not meant, nor one that says that it speculates, however many tokens it guesses.
    """
    gaps = gaps_ms(trace)
    events = len(gaps) + 1
    if events < 5:
        return False
    span = sum(gaps)
    if span < IMPOSSIBLE_GAP_MS * events:
        return True
    # a single long stall makes the mean long, but no tokens come at once
    threshold = at_once_ms([event.at_ms for event in trace.token_events])
    bursts = 1 + len([gap for gap in gaps if gap >= threshold])
    if bursts <= 8:
        return events / bursts >= 4
    speculates = trace.server is not None and bool(trace.server.draft_tokens)
    return events / bursts >= 8 and span / bursts >= PAUSE_MS and not speculates


class TokenCounts(NamedTuple):
    """Mean token counts over the samples of one workload; None when nobody counted."""

    prompt_tokens: float | None = None
    """All prompt tokens, cached ones included."""
    cached_tokens: float | None = None
    output_tokens: float | None = None


def token_counts_of(samples: Sequence[Sample]) -> TokenCounts:
    """Returns the mean counts over whole answers; warm-ups and samples that reuse the cache are left out."""
    traces = [
        sample.trace
        for sample in samples
        if sample.trace.status is Status.OK and not sample.is_warmup and not sample.reuses_cache
    ]
    return TokenCounts(
        _mean(trace.prompt_tokens for trace in traces),
        _mean(trace.cached_tokens for trace in traces),
        _mean(trace.output_tokens for trace in traces),
    )


def _mean(counts: Iterable[int | None]) -> float | None:
    numbers = [count for count in counts if count is not None]
    return fmean(numbers) if numbers else None
