"""Prefill speed: fresh prompt tokens / prefill time. The source says whose tokens and whose time."""

from collections.abc import Sequence

from app.metrics import clock, plausible
from app.metrics.base import Metric, Reading, null
from app.samples import CacheDefeat, Sample

MIN_FRESH_TOKENS = 32


def fresh_prompt_tokens(sample: Sample) -> int | None:
    """Prompt tokens that had to be processed; None where that cannot be known."""
    trace = sample.trace
    if plausible.is_prompt_count_absurd(sample):
        return None
    if trace.server is not None and trace.server.prompt_tokens:
        return trace.server.prompt_tokens
    total = trace.prompt_tokens if trace.prompt_tokens is not None else sample.expected_prompt_tokens
    if total is None or (trace.cached_tokens is None and sample.cache_defeat is CacheDefeat.NONE):
        return None
    return max(0, total - (trace.cached_tokens or 0))


def read_prefill(sample: Sample) -> Sequence[Reading]:
    readings = [_client(sample)]
    server = sample.trace.server
    if server is not None and server.prompt_tokens:
        if reason := _too_few(sample, server.prompt_tokens):
            readings.insert(0, null("server", reason))
        elif sample.point.concurrency > 1 and sample.prefill_overlaps is not False:
            readings.insert(0, null("server", "overlapping_prefill"))
        elif not server.prompt_ms:
            readings.insert(0, null("server", "no_duration"))
        else:
            readings.insert(0, Reading("server", server.prompt_tokens / server.prompt_ms * 1000))
    return readings


def _client(sample: Sample) -> Reading:
    """Fresh tokens / TTFT: holds HTTP, queue, template and the first decode step, hence a lower bound."""
    trace = sample.trace
    if trace.not_streamed:
        return null("client", "not_streamed")
    if sample.point.concurrency > 1:
        return null("client", "concurrent_streams")  # TTFT is then mostly waiting
    ttft = clock.first_token_ms(trace)
    if not ttft:
        return null("client", "no_token")
    if plausible.is_prompt_count_absurd(sample):
        return null("client", "implausible")
    if clock.unseen_reasoning(trace):
        return null("client", "unseen_reasoning")
    fresh = fresh_prompt_tokens(sample)
    if fresh is None:
        known = trace.prompt_tokens is not None or sample.expected_prompt_tokens is not None
        return null("client", "possibly_cached" if known else "prompt_tokens_unknown")
    if reason := _too_few(sample, fresh):
        return null("client", reason)
    return Reading("client", fresh / ttft * 1000)


def _too_few(sample: Sample, fresh: int) -> str | None:
    if fresh >= MIN_FRESH_TOKENS:
        return None
    return "cached" if sample.trace.cached_tokens else "too_few_fresh_tokens"


METRICS = (
    Metric(
        key="prefill_tokens_per_s",
        title="Prefill",
        unit="tok/s",
        better="higher",
        explanation="Prompt processing speed: how many prompt tokens the server works through per second.",
        formula=read_prefill,
        assumed_run_deviation=0.03,
        formula_version=3,
    ),
)
