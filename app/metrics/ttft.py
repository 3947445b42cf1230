from collections.abc import Sequence

from app.core.samples import Event, Kind, Sample, Trace
from app.metrics import token_times
from app.metrics.arrivals import FEWEST_IN_ONE_PIECE
from app.metrics.base import Metric, Reading, Term, missing
from app.metrics.decode import is_in_one_piece


def read_ttft(sample: Sample) -> Sequence[Reading]:
    """Reads t_first - t0, which only the client knows: no server sees its own queue and network."""
    first_ms = token_times.first_token_ms(sample.trace)
    if sample.trace.not_streamed:
        return [missing("client", "not_streamed")]
    if first_ms is None:
        return [missing("client", "no_token")]
    return [missing("client", "one_piece") if is_in_one_piece(sample) else Reading("client", first_ms)]


def read_ttfa(sample: Sample) -> Sequence[Reading]:
    """Reads the first event with answer text - t0; it differs from TTFT when a model reasons first."""
    trace = sample.trace
    if trace.not_streamed:
        return [missing("client", "not_streamed")]
    answer = [event for event in trace.events if event.kind is Kind.ANSWER]
    if not answer:
        return [missing("client", "no_answer_token")]
    if not any(event.kind in (Kind.REASONING, Kind.TOOL) for event in trace.events):
        return read_ttft(sample)  # an invisible first token that belongs to the answer started it
    if is_in_one_piece(sample) or _is_whole(answer, trace):
        return [missing("client", "one_piece")]
    return [Reading("client", answer[0].at_ms)]


def _is_whole(answer: Sequence[Event], trace: Trace) -> bool:
    """Whether the answer came at one moment although it has several tokens, judged by its share of the text."""
    share = sum(event.size_bytes for event in answer) / (token_times.visible_bytes(trace) or 1)
    return answer[0].at_ms == answer[-1].at_ms and share * (trace.output_tokens or 0) >= FEWEST_IN_ONE_PIECE


def read_reused(sample: Sample) -> Sequence[Reading]:
    """Reads TTFT of a request whose prompt is in the server's cache. A run's first request puts it there."""
    if sample.trace.cached_tokens is None and sample.round == 0 and not sample.is_warmup:
        return [missing("client", "filled_cache")]
    if sample.trace.cached_tokens == 0:
        return [missing("client", "not_reused")]
    return read_ttft(sample)


METRICS = (
    Metric(
        key="ttft_ms",
        title="TTFT",
        unit="ms",
        better="lower",
        explanation="Time to first token: from sending the request until the first token of any kind arrives.",
        formula=read_ttft,
        alias="ttft",
        term=Term(
            "ttft",
            "TTFT",
            "Time to first token: how long a reader waits until anything appears. It includes the network, the "
            "server's queue, the prefill and one step of decode.",
            "first token of any kind - sending of the request",
        ),
        invalidated_by=frozenset({"cached", "model_load"}),
        formula_version=2,
    ),
    Metric(
        key="ttfa_ms",
        title="Time to first answer token",
        unit="ms",
        better="lower",
        explanation="Until the first token of the answer itself; a reasoning model thinks before it.",
        formula=read_ttfa,
        order=30,
        term=Term(
            "ttfa",
            "TTFA",
            "Time to first answer token. A reasoning model thinks before it answers: TTFT sees the first thought, "
            "this the first word of the answer.",
            "first token of the answer - sending of the request",
        ),
        invalidated_by=frozenset({"cached", "model_load"}),
        formula_version=2,
    ),
    Metric(
        key="ttft_reused_ms",
        title="TTFT, prompt cached",
        unit="ms",
        better="lower",
        explanation="Time to first token of a prompt that the server has in its cache.",
        formula=read_reused,
        term=Term(
            "cached",
            "Fresh and cached prompts",
            "A server may keep what it computed for a prompt and skip it the next time. A cached prompt has a very "
            "short TTFT and says little about the hardware, so Roofmark defeats the cache unless a suite measures it. "
            "Only fresh tokens count for prefill.",
            "fresh tokens = prompt tokens - cached tokens",
            section="engine",
        ),
        for_cached_prompt=True,
        invalidated_by=frozenset({"model_load"}),
        formula_version=3,
    ),
)
