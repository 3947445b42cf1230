from collections.abc import Sequence

from app.core.samples import Sample
from app.metrics import token_times
from app.metrics.base import Metric, Reading, Term, missing


def read_e2e(sample: Sample) -> Sequence[Reading]:
    """Reads t_last - t0; for an answer in one JSON body, the time when it had arrived."""
    trace = sample.trace
    if trace.not_streamed:
        return [Reading("client", trace.end_ms) if trace.end_ms is not None else missing("client", "not_streamed")]
    last = token_times.last_token_ms(trace)
    return [Reading("client", last) if last is not None else missing("client", "no_token")]


METRICS = (
    Metric(
        key="e2e_ms",
        title="End to end",
        unit="ms",
        better="lower",
        explanation="From sending the request until the last token: TTFT plus all of the decode time.",
        formula=read_e2e,
        order=40,
        term=Term(
            "e2e",
            "End to end (E2E)",
            "The whole time of a request, from sending it to its last token.",
            "last token - sending of the request = TTFT + (n - 1) x TPOT",
        ),
        invalidated_by=frozenset({"cached", "model_load"}),
    ),
)
