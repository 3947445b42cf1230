from collections.abc import Sequence

from app.core.samples import Sample
from app.metrics.base import Metric, Reading, Term


def read_load(sample: Sample) -> Sequence[Reading]:
    """Reads the server's own time for loading the model; there is no reading when it states none."""
    server = sample.trace.server
    return [] if server is None or server.load_ms is None else [Reading("server", server.load_ms)]


METRICS = (
    Metric(
        key="load_ms",
        title="Load time",
        unit="ms",
        better="lower",
        explanation="How long the server took to load the model before it could begin.",
        formula=read_load,
        term=Term(
            "load-time",
            "Load time",
            "How long the server took to bring the model into memory before it could begin. It is kept apart from "
            "TTFT.",
        ),
    ),
)
