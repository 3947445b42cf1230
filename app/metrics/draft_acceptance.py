from collections.abc import Sequence

from app.core.samples import Sample
from app.metrics.base import Metric, Reading


def read_draft_acceptance(sample: Sample) -> Sequence[Reading]:
    """Accepted / drafted tokens; no reading at all where nothing was drafted."""
    server = sample.trace.server
    if server is None or not server.draft_tokens or server.draft_accepted_tokens is None:
        return []
    return [Reading("server", server.draft_accepted_tokens / server.draft_tokens)]


METRICS = (
    Metric(
        key="draft_acceptance",
        title="Draft acceptance",
        unit="share",
        better="higher",
        explanation="Speculative decoding: the share of drafted tokens that the model accepted.",
        formula=read_draft_acceptance,
        server_invalidated_by=frozenset(),
    ),
)
