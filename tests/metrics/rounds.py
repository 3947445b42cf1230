"""Rounds of several streams, and what sensors saw of them."""

from collections.abc import Sequence
from typing import Any

from app.core.samples import Sample, Workload
from tests.traces import sample, stream, trace


def one_round(
    streams: int, number: int = 0, first_ms: float = 800, gap_ms: float = 25, later_ms: float = 0, **changes: Any
) -> list[Sample]:
    """`streams` answers of 11 tokens; each begins `later_ms` after the one before."""
    made = trace(stream(first_ms, gap_ms))
    point = Workload(512, 11, streams)
    return [
        sample(made, point=point, round=number, stream=n, ordinal=n, sent_at_ms=n * later_ms, **changes)
        for n in range(streams)
    ]


def sensed(**values: Sequence[float | None]) -> dict[str, Any]:
    """Readings at 0, 500, ... ms."""
    count = len(next(iter(values.values())))
    return {"at_ms": [500 * n for n in range(count)], "values": {k.replace("__", "."): v for k, v in values.items()}}


LONG = trace(stream(first_ms=400, gap_ms=100, tokens=11))  # decode from 400 to 1400 ms
