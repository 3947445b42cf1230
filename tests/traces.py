"""Samples made by hand, for everything that turns samples into numbers."""

from collections.abc import Sequence
from typing import Any

from app.core.samples import CacheDefeat, CountSource, Event, Kind, Sample, ServerFigures, Status, Trace, Workload

POINT = Workload(prompt_tokens=512, output_tokens=11)


def stream(first_ms: float = 800, gap_ms: float = 25, tokens: int = 11, size_bytes: int = 5) -> tuple[Event, ...]:
    """A role chunk, evenly spaced answer tokens, and a finish."""
    times = [first_ms + gap_ms * index for index in range(tokens)]
    return (
        Event(5, Kind.ROLE),
        *(Event(at, Kind.ANSWER, size_bytes) for at in times),
        Event((times or [first_ms])[-1] + 1, Kind.FINISH),
    )


def trace(events: Sequence[Event] | None = None, **changes: Any) -> Trace:
    """A clean answer of 11 tokens to 512 prompt tokens, unless changed."""
    values: dict[str, Any] = {
        "status": Status.OK,
        "events": tuple(stream() if events is None else events),
        "prompt_tokens": 512,
        "cached_tokens": 0,
        "output_tokens": 11,
        "count_source": CountSource.USAGE,
        "finish_reason": "length",
    }
    return Trace(**{**values, **changes})


def sample(made: Trace | None = None, **changes: Any) -> Sample:
    values: dict[str, Any] = {
        "ordinal": 0,
        "point": POINT,
        "is_warmup": False,
        "cache_defeat": CacheDefeat.SWITCH,
        "trace": made or trace(),
    }
    return Sample(**{**values, **changes})


def figures(**changes: Any) -> ServerFigures:
    values = {"prompt_tokens": 512, "prompt_ms": 790.0, "output_tokens": 11, "decode_ms": 250.0}
    return ServerFigures(**{**values, **changes})
