"""Prefill speed: fresh prompt tokens / prefill time. The source says whose tokens and whose time."""

from collections.abc import Sequence

from app.core.samples import Sample
from app.metrics import sanity_checks, token_times
from app.metrics.arrivals import arrivals_of
from app.metrics.base import Metric, Reading, Term, missing
from app.metrics.decode import is_in_one_piece
from app.metrics.load import is_cold

MIN_FRESH_TOKENS = 32
MOST_DECODE_SHARE = 0.25
"""The largest share of TTFT that may be decode of further tokens that came with the first one."""


def fresh_prompt_tokens(sample: Sample) -> int | None:
    """Returns the prompt tokens that had to be processed; None when that cannot be known."""
    trace = sample.trace
    if sanity_checks.is_prompt_count_absurd(sample):
        return None
    is_stated_fresh = trace.server is not None and trace.server.prompt_tokens
    if sanity_checks.may_hold_cached_prompt(sample, is_stated_fresh=bool(is_stated_fresh)):
        return None
    if trace.server is not None and trace.server.prompt_tokens:
        return trace.server.prompt_tokens
    total = trace.prompt_tokens if trace.prompt_tokens is not None else sample.expected_prompt_tokens
    return None if total is None else max(0, total - (trace.cached_tokens or 0))


def read_prefill(sample: Sample) -> Sequence[Reading]:
    readings = [_client(sample)]
    server = sample.trace.server
    if server is not None and server.prompt_tokens:
        readings.insert(0, _server(sample, server.prompt_tokens, server.prompt_ms))
    return readings


def _server(sample: Sample, tokens: int, duration_ms: float | None) -> Reading:
    if reason := _too_few(sample, tokens):
        return missing("server", reason)
    if sample.point.concurrency > 1 and sample.prefill_overlaps is not False:
        return missing("server", "overlapping_prefill")
    if not duration_ms:
        return missing("server", "no_duration")
    if sanity_checks.may_hold_cached_prompt(sample, is_stated_fresh=True):
        return missing("server", "cache_state_unknown")
    speed = tokens / duration_ms * 1000
    if speed > sanity_checks.MAX_PREFILL_TOKENS_PER_S:
        return missing("server", "implausible")
    return Reading("server", speed)


def _client(sample: Sample) -> Reading:
    """Reads fresh tokens / TTFT: a lower bound, since TTFT includes HTTP, queue, template and the first decode step."""
    trace = sample.trace
    if trace.not_streamed:
        return missing("client", "not_streamed")
    if sample.point.concurrency > 1:
        return missing("client", "concurrent_streams")  # TTFT is then mostly waiting
    ttft_ms = token_times.first_token_ms(trace)
    if not ttft_ms:
        return missing("client", "no_token")
    if sanity_checks.is_prompt_count_absurd(sample):
        return missing("client", "implausible")
    if is_cold(sample):
        return missing("client", "model_load")
    if reason := _unlike_prompt(sample, ttft_ms):
        return missing("client", reason)
    fresh = fresh_prompt_tokens(sample)
    if fresh is None:
        is_count_known = trace.prompt_tokens is not None or sample.expected_prompt_tokens is not None
        return missing("client", "cache_state_unknown" if is_count_known else "prompt_tokens_unknown")
    if reason := _too_few(sample, fresh):
        return missing("client", reason)
    speed = fresh / ttft_ms * 1000
    if speed > sanity_checks.MAX_PREFILL_TOKENS_PER_S:
        return missing("client", "implausible")
    return Reading("client", speed)


def _unlike_prompt(sample: Sample, ttft_ms: float) -> str | None:
    """Returns the reason why TTFT is not mostly the time of the prompt, if there is one."""
    if is_in_one_piece(sample):
        return "one_piece"
    if token_times.unseen_reasoning(sample.trace):
        return "unseen_reasoning"
    arrivals = arrivals_of(sample.trace)
    if arrivals is None or not arrivals.tokens_per_s:
        return None
    made_before_ms = (arrivals.first_tokens - 1) / arrivals.tokens_per_s * 1000
    return "bundled_start" if made_before_ms > MOST_DECODE_SHARE * ttft_ms else None


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
        explanation="Prompt processing speed: how many prompt tokens the server processes per second.",
        formula=read_prefill,
        alias="prefill",
        term=Term(
            "prefill",
            "Prefill",
            "Processing the prompt before the first token of the answer. All tokens of the prompt are computed "
            "together, so it is mostly limited by how much the hardware can compute. Where the server does not state "
            "its own timing, the speed over TTFT is a lower bound.",
            "fresh prompt tokens / prefill time",
        ),
        assumed_run_deviation=0.03,
        formula_version=6,
    ),
)
