from collections.abc import Sequence

from app.core.samples import Sample
from app.metrics.base import Metric, Reading, Term, missing

COLD_LOAD_MS = 100.0
"""A shorter one is the time for finding that the model is loaded."""


def is_cold(sample: Sample) -> bool:
    """Whether the server says that it loaded the model during this request."""
    server = sample.trace.server
    return server is not None and (server.load_ms or 0) >= COLD_LOAD_MS


def read_load(sample: Sample) -> Sequence[Reading]:
    """Reads the server's own time for loading the model; there is no reading when it states none."""
    server = sample.trace.server
    if server is None or server.load_ms is None:
        return []
    return [Reading("server", server.load_ms) if is_cold(sample) else missing("server", "already_loaded")]


METRICS = (
    Metric(
        key="load_ms",
        title="Load time",
        unit="ms",
        better="lower",
        explanation="How long the server took to load the model before it could begin.",
        formula=read_load,
        counts_warmups=True,
        formula_version=2,
        term=Term(
            "load-time",
            "Load time",
            "How long the server took to bring the model into memory before it could begin. It is kept apart from "
            "TTFT.",
        ),
    ),
)
