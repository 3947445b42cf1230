from collections.abc import Sequence

from app.core.samples import Sample
from app.metrics.base import Metric, Reading, Term


def read_draft_acceptance(sample: Sample) -> Sequence[Reading]:
    """Reads accepted / drafted tokens in per cent; there is no reading when nothing was drafted."""
    server = sample.trace.server
    if server is None or not server.draft_tokens or server.draft_accepted_tokens is None:
        return []
    return [Reading("server", 100 * server.draft_accepted_tokens / server.draft_tokens)]


METRICS = (
    Metric(
        key="draft_acceptance",
        title="Draft acceptance",
        unit="%",
        better="higher",
        explanation="Speculative decoding: the share of drafted tokens that the model accepted.",
        formula=read_draft_acceptance,
        term=Term(
            "speculative-decoding",
            "Speculative decoding",
            "A small and fast draft model proposes several tokens, and the large model checks them in one step. It "
            "saves time when many are accepted; the text stays that of the large model.",
            "acceptance = accepted / drafted tokens",
            section="engine",
        ),
        server_invalidated_by=frozenset(),
        formula_version=2,
    ),
)
