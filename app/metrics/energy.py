"""Energy, for machines whose sensors report power."""

from collections.abc import Sequence

from app.core.samples import Sample
from app.metrics import sensors
from app.metrics.base import Metric, Reading, Term, missing
from app.metrics.decode import client_decode


def read_energy(streams: Sequence[Sample]) -> Sequence[Reading]:
    """Reads mean power during decode times its duration / tokens decoded; for a lone stream that is power / decode
    speed."""
    readings = streams[0].sensors
    if not sensors.has_power(readings):
        return []
    span = sensors.decode_span_ms(streams)
    if span is None:
        return [missing("sensor", "no_token")]
    if any("buffered" in sample.flags for sample in streams):
        return [missing("sensor", "buffered")]
    steps = 0.0
    for sample in streams:
        decode = client_decode(sample)
        if isinstance(decode, str):
            return [missing("sensor", decode)]
        steps += decode.steps
    power_w = sensors.mean_power_w(readings, *span)
    if isinstance(power_w, str):
        return [missing("sensor", power_w)]
    return [Reading("sensor", power_w * (span[1] - span[0]) / 1000 / steps)]


METRICS = (
    Metric(
        key="joules_per_output_token",
        title="Energy per token",
        unit="J",
        better="lower",
        explanation="Mean power of the processors and of the GPUs that worked during decode, as far as "
        "it is reported, over decode speed.",
        round_formula=read_energy,
        term=Term(
            "energy",
            "Energy per token",
            "The energy that one token of the answer takes, where sensors report the power of the processors and of "
            "the GPUs that worked. Its reciprocal is decode per watt.",
            "mean power during decode / decode speed",
        ),
        formula_version=3,
    ),
)
