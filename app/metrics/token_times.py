"""When tokens arrived, which every timing metric starts from, and how many tokens prompts and answers had."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple, TypeVar

from app.core.samples import Kind, Sample, Status, Trace

T = TypeVar("T")


def once_per_trace(function: Callable[[Trace], T]) -> Callable[[Trace], T]:
    """Kept with the trace, as its `token_events` are: dozens of metrics and flags of a page start from the same."""
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
    """Output tokens that came before the first one seen: reasoning that the server counts, but keeps to itself."""
    tokens, events = trace.reasoning_tokens or 0, trace.token_events
    is_seen = tokens == 0 or any(event.kind in (Kind.REASONING, Kind.HIDDEN) for event in events)
    # where reasoning comes as plain text, there are more events than the answer alone can have
    return 0 if is_seen or len(events) > (trace.output_tokens or 0) - tokens else tokens


FEWEST_BYTES_PER_TOKEN = 1.3
"""Of a text as a whole: only rare characters have more tokens."""


@once_per_trace
def visible_bytes(trace: Trace) -> int:
    return sum(event.size_bytes for event in trace.token_events)


def is_mostly_unseen(trace: Trace) -> bool:
    """Whether most of the tokens left no trace in the stream, not even one that tells when they came."""
    n, events = trace.output_tokens or 0, trace.token_events
    if not 0 < 2 * len(events) < n or visible_bytes(trace) >= FEWEST_BYTES_PER_TOKEN * n:
        return False
    return not (events[0].tokens or unseen_reasoning(trace) or any(event.kind is Kind.HIDDEN for event in events))


@once_per_trace
def gaps_ms(trace: Trace) -> list[float]:
    """Between consecutive token events; ITL where each event holds one token, else chunk gaps."""
    return [later.at_ms - earlier.at_ms for earlier, later in pairwise(trace.token_events)]


def span_ms(trace: Trace) -> float | None:
    first, last = first_token_ms(trace), last_token_ms(trace)
    return None if first is None or last is None else last - first


BURST_SHARE_OF_MEAN_GAP = 0.1
AT_ONCE_MS = 5.0
"""Events closer than both came at the same moment."""
IMPOSSIBLE_GAP_MS = 0.05
PAUSE_MS = 20.0
"""Less than that a busy machine may keep its own reader waiting, time and again."""


def at_once_ms(times: Sequence[float]) -> float:
    """Of events at these times: the gap below which two of them came at the same moment."""
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
    """Means over the samples of one point; None where nobody counted."""

    prompt_tokens: float | None = None
    """Cached ones included."""
    cached_tokens: float | None = None
    output_tokens: float | None = None


def token_counts_of(samples: Sequence[Sample]) -> TokenCounts:
    """Over whole answers; warm-ups, and samples that were to find their prompt in the cache, are left out."""
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
