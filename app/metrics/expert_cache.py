from collections.abc import Sequence

from app.core.samples import Sample
from app.metrics.base import Metric, Reading


def read_expert_cache(sample: Sample) -> Sequence[Reading]:
    """Hits / lookups of the experts needed; no reading where the server has no such cache."""
    server = sample.trace.server
    return [] if server is None or server.expert_hit_share is None else [Reading("server", server.expert_hit_share)]


METRICS = (
    Metric(
        key="expert_cache_hit_rate",
        title="Expert cache hits",
        unit="share",
        better="higher",
        explanation="Mixture of experts: the share of needed experts that were found in fast memory.",
        formula=read_expert_cache,
        server_invalidated_by=frozenset(),
    ),
)
