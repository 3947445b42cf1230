"""When tokens arrived. Every timing metric starts from these functions."""

from itertools import pairwise

from app.samples import TOKEN_KINDS, Event, Kind, Trace


def token_events(trace: Trace) -> list[Event]:
    return [event for event in trace.events if event.kind in TOKEN_KINDS]


def first_token_ms(trace: Trace) -> float | None:
    return next((event.at_ms for event in trace.events if event.kind in TOKEN_KINDS), None)


def last_token_ms(trace: Trace) -> float | None:
    return next((event.at_ms for event in reversed(trace.events) if event.kind in TOKEN_KINDS), None)


def first_answer_ms(trace: Trace) -> float | None:
    return next((event.at_ms for event in trace.events if event.kind is Kind.ANSWER), None)


def gaps_ms(trace: Trace) -> list[float]:
    """Between consecutive token events; ITL where each event holds one token, else chunk gaps."""
    times = [event.at_ms for event in trace.events if event.kind in TOKEN_KINDS]
    return [later - earlier for earlier, later in pairwise(times)]


def span_ms(trace: Trace) -> float | None:
    first, last = first_token_ms(trace), last_token_ms(trace)
    return None if first is None or last is None else last - first


BURST_SHARE_OF_MEAN_GAP = 0.1
IMPOSSIBLE_GAP_MS = 0.05


def arrives_in_bursts(trace: Trace) -> bool:
    """Whether something between server and client held tokens back, so that their times mean nothing.

    Either the whole stream came faster than 20,000 events/s, or at least four events at a time in at most eight
    bursts. A server that emits a few tokens per step (speculation) makes many small bursts and is not meant.
    """
    gaps = gaps_ms(trace)
    events = len(gaps) + 1
    if events < 5:
        return False
    span = sum(gaps)
    if span < IMPOSSIBLE_GAP_MS * events:
        return True
    threshold = BURST_SHARE_OF_MEAN_GAP * span / len(gaps)
    bursts = 1 + len([gap for gap in gaps if gap >= threshold])
    return bursts <= 8 and events / bursts >= 4
