from collections.abc import Sequence

from app.metrics import clock
from app.metrics.base import Metric, Reading, null
from app.samples import Kind, Sample


def read_ttft(sample: Sample) -> Sequence[Reading]:
    """t_first - t0. Always the client's: no server sees its own queue and network."""
    if sample.trace.not_streamed:
        return [null("client", "not_streamed")]
    first = clock.first_token_ms(sample.trace)
    return [Reading("client", first) if first is not None else null("client", "no_token")]


def read_ttfa(sample: Sample) -> Sequence[Reading]:
    """First event with answer text - t0; differs from TTFT where a model reasons first."""
    if sample.trace.not_streamed:
        return [null("client", "not_streamed")]
    first = clock.first_answer_ms(sample.trace)
    if first is None:
        return [null("client", "no_answer_token")]
    reasoned = any(event.kind in (Kind.REASONING, Kind.TOOL) for event in sample.trace.events)
    # an invisible first token that belongs to the answer started it
    return [Reading("client", first if reasoned else clock.first_token_ms(sample.trace))]


def read_reused(sample: Sample) -> Sequence[Reading]:
    """TTFT of a request whose prompt the server has in its cache."""
    if sample.trace.cached_tokens == 0:
        return [null("client", "not_reused")]
    return read_ttft(sample)


METRICS = (
    Metric(
        key="ttft_ms",
        title="TTFT",
        unit="ms",
        better="lower",
        explanation="Time to first token: from sending the request until the first token of any kind arrives.",
        formula=read_ttft,
        spoiled_by=frozenset({"cached", "cold"}),
    ),
    Metric(
        key="ttfa_ms",
        title="Time to first answer token",
        unit="ms",
        better="lower",
        explanation="Until the first token of the answer itself; a reasoning model thinks before it.",
        formula=read_ttfa,
        spoiled_by=frozenset({"cached", "cold"}),
    ),
    Metric(
        key="ttft_reused_ms",
        title="TTFT, prompt cached",
        unit="ms",
        better="lower",
        explanation="Time to first token of a prompt that the server has in its cache.",
        formula=read_reused,
        of_reuse=True,
        spoiled_by=frozenset({"cold"}),
    ),
)
