"""What a metric is: a pure function from samples to numbers.

One metric (or one family of them) is one module of this package with its `Metric`s in a module-level tuple `METRICS`;
`app.metrics` finds it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from app.samples import Sample

Source = Literal["client", "server", "slope", "import"]


@dataclass(frozen=True)
class Reading:
    """One number of one sample, from one source; a `value` of None has a reason."""

    source: Source
    value: float | None
    null_reason: str | None = None


@dataclass(frozen=True)
class Metric:
    key: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    explanation: str
    """What it is, in one plain sentence for a page."""
    read: Callable[[Sample], Sequence[Reading]]
    """Every source's reading of one sample: at least one, a null with a reason where there is no number."""
    spoiled_by: frozenset[str] = frozenset()
    """Flags that make this metric, but not the whole sample, worthless."""
    formula_version: int = 1


NULL_REASONS = {
    "no_token": "No token arrived.",
    "one_token": "Decode needs at least two output tokens.",
    "no_answer_token": "No token of the answer arrived.",
    "buffered": "The tokens arrived in bursts, most likely through a buffering proxy: their times say nothing.",
    "not_streamed": "The server sent one piece of JSON instead of a stream.",
    "zero_span": "All tokens arrived at the same moment.",
    "possibly_cached": "Part of the prompt may have come from the server's cache, and the server does not say.",
    "cached": "Most of the prompt came from the server's cache.",
    "too_few_fresh_tokens": "Fewer than 32 prompt tokens were processed: too few for a speed.",
    "prompt_tokens_unknown": "The server does not say how many tokens the prompt had.",
    "no_usable_sample": "No sample was free of disqualifying flags.",
    "no_sample": "No sample was taken.",
    "exceeds_context": "The prompt and its output do not fit into the server's context.",
    "one_length": "A slope needs two prompt lengths in one run.",
    "no_slope": "TTFT did not grow with the prompt.",
    "no_duration": "The server states no duration.",
    "concurrent_streams": "Several streams ran at once.",
    "few_gaps": "Fewer than two tokens arrived, so there is no gap.",
}


def null(source: Source, reason: str) -> Reading:
    assert reason in NULL_REASONS, reason
    return Reading(source, None, reason)
