"""The number of tokens that arrived at each moment, and whether a decode speed follows from it.

A token counts as arrived when its event arrives, even if the event holds many. Tokens that arrive at the same moment,
because a server makes several tokens in one step, a proxy holds them back or the reader is late, are one arrival. Of n
tokens, n - m were made between the first arrival and the last; m is the number of tokens in the first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from app.core.samples import Event, Kind, Trace
from app.metrics import token_times

SINGLE_SHARE = 0.05
"""The share by which tokens may outnumber events when each event is taken to hold one token."""
STATED_SHARE = 0.05
"""The largest relative difference between the last running total and the number of output tokens."""
UNCERTAINTY = 0.1
"""The largest relative error with which a decode speed counts as known."""
FEWEST = 4
"""The minimum number of arrivals when they hold several tokens each."""
FEWEST_HELD = 8
"""The minimum number of tokens that are held back: fewer may come at once when several are made in one step."""
FEWEST_IN_ONE_PIECE = 16
"""The minimum number of tokens in an answer that came in one piece: a shorter answer ends so soon after its start that
its end gives the start's time."""
LONGEST_RELEASE_MS = 50.0
RELEASE_SHARE = 0.2
"""Events too few to time that come within both of these are one answer cut into pieces; the share is of the wait for
them."""
TOKEN_LENGTH_VARIATION = 0.55
"""Standard deviation of a token's bytes, relative to their mean."""
BLUR_MS = 3.0
"""By how much network, proxy and reader may move an arrival of several tokens."""


class Arrival(NamedTuple):
    """The events that came at the same moment."""

    at_ms: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Arrivals:
    moments: tuple[Arrival, ...]
    output_tokens: int
    unplaced: float
    """Tokens that may or may not belong to the first arrival: nothing states it, and they have no event of their
    own."""
    is_bundled: bool
    """Whether events hold several tokens each, so that some tokens may have waited for others."""
    first_events: int
    """The number of events in the first arrival."""
    unseen: int
    """The number of tokens of the first arrival that had no event."""

    @property
    def first_tokens(self) -> float:
        """The number of tokens of the first arrival that had an event."""
        return self.moments[0].tokens - self.unseen

    @property
    def tokens_per_s(self) -> float | None:
        return self.steps / self.span_ms * 1000 if self.span_ms > 0 else None

    @property
    def steps(self) -> float:
        """The number of output tokens after the first arrival."""
        return self.output_tokens - self.moments[0].tokens

    @property
    def span_ms(self) -> float:
        return self.moments[-1].at_ms - self.moments[0].at_ms

    @property
    def relative_error(self) -> float:
        """The largest relative error of `steps` / `span_ms`."""
        if self.steps < 1 or self.span_ms <= 0 or (self.is_bundled and len(self.moments) < FEWEST):
            return math.inf
        # in tokens' times: the last of several events at once may have waited for nearly one, and where arrivals hold
        # several tokens each, the last token of the first may have waited for longer than that of the last, or less
        holds_several = self.steps > (1 + SINGLE_SHARE) * (len(self.moments) - 1)
        waited = 1.0 if self.first_events > 1 else 0.5 if holds_several else 0.0
        of_first = (waited + self.unplaced) / self.steps
        if not self.is_bundled:
            return of_first
        return of_first + self._of_ends + BLUR_MS / self.span_ms

    @property
    def _of_ends(self) -> float:
        """Returns the error from the ends: the tokens of the first and the last arrival may have waited longer."""
        first, second, before_last, last = *self.moments[:2], *self.moments[-2:]
        speed = self.steps / self.span_ms
        without_first = (self.steps - second.tokens) / (last.at_ms - second.at_ms)
        without_last = (self.steps - last.tokens) / (before_last.at_ms - first.at_ms)
        return max(abs(estimate / speed - 1) for estimate in (without_first, without_last))


@token_times.once_per_trace
def arrivals_of(trace: Trace) -> Arrivals | None:
    """Returns the arrivals of a trace; None without a token event or a count of output tokens."""
    token_events, n = trace.token_events, trace.output_tokens
    if not token_events or not n:
        return None
    groups = _at_once(token_events)
    unseen = token_times.unseen_reasoning(trace)
    stated = _stated(groups, n)
    unplaced = 0.0
    if stated is not None:
        tokens = stated
    elif n - unseen <= (1 + SINGLE_SHARE) * len(token_events):
        tokens = [float(len(group)) for group in groups]
    else:
        tokens = _by_bytes(groups, n - unseen)
        share = tokens[0] / (n - unseen)
        spread = TOKEN_LENGTH_VARIATION * math.sqrt((n - unseen) * share * (1 - share))
        unplaced = min(2 * spread, float(n - unseen - len(token_events)))
    if stated is None:
        tokens[0] += unseen
    # a first event without text is a single token: any others came after it
    is_first_single = token_events[0].kind is Kind.HIDDEN
    is_bundled = n - unseen > (1 + SINGLE_SHARE) * len(groups) and not is_first_single
    moments = tuple(Arrival(group[-1].at_ms, count) for group, count in zip(groups, tokens, strict=True))
    return Arrivals(moments, n, 0.0 if is_first_single else unplaced, is_bundled, len(groups[0]), unseen)


def _at_once(events: Sequence[Event]) -> list[list[Event]]:
    longest_ms = token_times.at_once_ms([event.at_ms for event in events])
    groups = [[events[0]]]
    for event in events[1:]:
        if event.at_ms - groups[-1][-1].at_ms <= longest_ms:
            groups[-1].append(event)
        else:
            groups.append([event])
    return groups


def _stated(groups: Sequence[Sequence[Event]], n: int) -> list[float] | None:
    """Returns the tokens of each arrival by the running totals in its events; None when there are no consistent
    ones."""
    if groups[0][-1].tokens is None:
        return None
    totals = [group[-1].tokens or 0 for group in groups]
    if not 0 < totals[0] < totals[-1] or abs(totals[-1] - n) > max(1.0, STATED_SHARE * n):
        return None
    running = list(accumulate(totals, max))
    return [float(running[0]), *(float(later - earlier) for earlier, later in pairwise(running))]


def _by_bytes(groups: Sequence[Sequence[Event]], n: int) -> list[float]:
    """Returns the tokens of each arrival by its share of the text; an event without text is one token."""
    hidden = [sum(event.kind is Kind.HIDDEN for event in group) for group in groups]
    sizes = [sum(event.size_bytes for event in group) for group in groups]
    whole, spread = sum(sizes), max(0, n - sum(hidden))
    return [count + (spread * size / whole if whole else 0.0) for count, size in zip(hidden, sizes, strict=True)]


def is_held_to_the_end(arrivals: Arrivals) -> bool:
    """Whether the whole answer was generated before any of it arrived."""
    visible = arrivals.output_tokens - arrivals.unseen
    if visible < FEWEST_IN_ONE_PIECE:
        return False
    if arrivals.span_ms < token_times.IMPOSSIBLE_GAP_MS * visible:
        return True
    release_ms = min(LONGEST_RELEASE_MS, RELEASE_SHARE * arrivals.moments[0].at_ms)
    return arrivals.is_bundled and arrivals.relative_error > UNCERTAINTY and arrivals.span_ms < release_ms


def is_mostly_first(arrivals: Arrivals) -> bool:
    """Whether most of the answer came in the first arrival."""
    visible = arrivals.output_tokens - arrivals.unseen
    return arrivals.is_bundled and visible >= FEWEST_IN_ONE_PIECE and arrivals.first_tokens > visible / 2
