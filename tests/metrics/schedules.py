"""Answers of a known speed as proxies, servers and readers pass them on: what was made when, and what arrived when."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.core.samples import Event, Kind, Sample, Workload
from tests.traces import sample, trace

TOKEN_BYTES = (1, 2, 3, 4, 4, 5, 5, 6, 7, 8, 10)
Piece = tuple[float, int, int]
"""When it arrives, its bytes, and its tokens."""


@dataclass(frozen=True)
class Made:
    """The tokens of one answer as they were made."""

    at_ms: Sequence[float]
    sizes: Sequence[int]

    @property
    def tokens_per_s(self) -> float:
        return (len(self.at_ms) - 1) / (self.at_ms[-1] - self.at_ms[0]) * 1000

    def piece(self, begin: int, end: int, at_ms: float | None = None) -> Piece:
        """Sent when its last token is there, unless it is held until later."""
        return (self.at_ms[end - 1] if at_ms is None else at_ms, sum(self.sizes[begin:end]), end - begin)


def make(rng: random.Random) -> Made:
    n = rng.choice((32, 64, 128, 256, 512))
    step_ms = math.exp(rng.uniform(math.log(3), math.log(120)))
    jitter = rng.choice((0.0, 0.02, 0.05))
    now, at_ms = math.exp(rng.uniform(math.log(30), math.log(2000))), []
    for _ in range(n):
        at_ms.append(now)
        now += step_ms * max(0.1, rng.gauss(1, jitter))
    return Made(at_ms, [rng.choice(TOKEN_BYTES) for _ in range(n)])


def one_by_one(made: Made, _: random.Random) -> list[Piece]:
    return [made.piece(i, i + 1) for i in range(len(made.sizes))]


def so_many(made: Made, rng: random.Random) -> list[Piece]:
    most = rng.choice((2, 3, 4, 8, 16, 32, 64))
    ends = [*range(most, len(made.sizes), most), len(made.sizes)]
    return [made.piece(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]


def at_random(made: Made, rng: random.Random) -> list[Piece]:
    most, ends = rng.choice((2, 4, 8, 16, 32)), [0]
    while ends[-1] < len(made.sizes):
        ends.append(min(len(made.sizes), ends[-1] + rng.randint(1, 2 * most)))
    return [made.piece(begin, end) for begin, end in pairwise(ends)]


def by_size(made: Made, rng: random.Random) -> list[Piece]:
    """A proxy sends whenever its buffer is full, and the rest at the end."""
    full, begin, pieces = rng.choice((16, 64, 128, 256, 1024)), 0, []
    for end in range(1, len(made.sizes) + 1):
        if sum(made.sizes[begin:end]) >= full or end == len(made.sizes):
            pieces.append(made.piece(begin, end))
            begin = end
    return pieces


def by_time(made: Made, rng: random.Random) -> list[Piece]:
    """A proxy sends what it has at every tick; the rest at once, or at the next one."""
    tick_ms, is_prompt_at_end = rng.choice((20, 50, 100, 200, 500, 1000)), rng.random() < 0.5
    shift_ms, begin, pieces = rng.uniform(0, tick_ms), 0, []
    ticks = [math.ceil((at_ms - shift_ms) / tick_ms) for at_ms in made.at_ms]
    for end in range(1, len(ticks) + 1):
        if end == len(ticks) or ticks[end] != ticks[begin]:
            at_ms = shift_ms + tick_ms * ticks[begin]
            pieces.append(made.piece(begin, end, min(at_ms, made.at_ms[-1]) if is_prompt_at_end else at_ms))
            begin = end
    return pieces


def held_at_first(made: Made, rng: random.Random) -> list[Piece]:
    n_held = rng.randint(2, len(made.sizes) // 2)
    return [made.piece(0, n_held), *(made.piece(i, i + 1) for i in range(n_held, len(made.sizes)))]


def read_late(made: Made, rng: random.Random) -> list[Piece]:
    """The reader wakes up after some tokens came, each in an event of its own: all of them have the same time."""
    late = rng.randint(2, len(made.sizes) // 2)
    woke_ms = made.at_ms[late - 1] + rng.random() * (made.at_ms[late] - made.at_ms[late - 1])
    return [made.piece(i, i + 1, max(woke_ms, made.at_ms[i])) for i in range(len(made.sizes))]


def in_bursts(made: Made, rng: random.Random) -> list[Piece]:
    """Single tokens, several at a time."""
    size = rng.choice((2, 3, 4, 8, 16))
    last = len(made.sizes) - 1
    return [
        made.piece(i, i + 1, made.at_ms[min(last, i - i % size + size - 1)] + 0.02 * (i % size))
        for i in range(len(made.sizes))
    ]


def at_the_end(made: Made, rng: random.Random) -> list[Piece]:
    """A few large pieces one after another, when all is done."""
    count, gap_ms = rng.choice((1, 2, 3, 5, 8)), rng.choice((0, 0.02, 0.1, 1, 3))
    size = math.ceil(len(made.sizes) / count)
    return [
        made.piece(begin, min(begin + size, len(made.sizes)), made.at_ms[-1] + gap_ms * place)
        for place, begin in enumerate(range(0, len(made.sizes), size))
    ]


Schedule = Callable[[Made, random.Random], list[Piece]]
SCHEDULES: tuple[Schedule, ...] = (
    one_by_one,
    so_many,
    at_random,
    by_size,
    by_time,
    held_at_first,
    read_late,
    in_bursts,
    at_the_end,
)


def arrived(pieces: Sequence[Piece], is_stated: bool) -> Sample:
    """The sample of a request whose answer came so; `is_stated`: each event says how many tokens came so far."""
    events, so_far = [], 0
    for at_ms, size_bytes, tokens in pieces:
        so_far += tokens
        events.append(Event(at_ms, Kind.ANSWER, size_bytes, so_far if is_stated else None))
    return sample(trace(events, output_tokens=so_far), point=Workload(512, so_far))
