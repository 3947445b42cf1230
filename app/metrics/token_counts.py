"""How many tokens prompts and answers really had, as they were counted: what a ceiling is computed from."""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from app.core.samples import Sample, Status


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
