from collections.abc import Sequence

from app.core.samples import Sample
from app.metrics.base import Metric, Reading, Term


def read_expert_cache(sample: Sample) -> Sequence[Reading]:
    """Reads hits / lookups of the experts needed in per cent; there is no reading when the server has no such cache."""
    server = sample.trace.server
    if server is None or server.expert_hit_share is None:
        return []
    return [Reading("server", 100 * server.expert_hit_share)]


METRICS = (
    Metric(
        key="expert_cache_hit_rate",
        title="Expert cache hits",
        unit="%",
        better="higher",
        explanation="Mixture of experts: the share of needed experts that were found in fast memory.",
        formula=read_expert_cache,
        term=Term(
            "expert-cache",
            "Expert cache",
            "Experts of a large model that are kept in fast memory while the others wait in slower memory. The hit "
            "rate is the share of look-ups that found their expert there.",
            "hits / look-ups",
            section="engine",
        ),
        server_invalidated_by=frozenset(),
        formula_version=2,
    ),
)
