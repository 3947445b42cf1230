"""Energy, where the machine's sensors give power (app.hardware.watch keeps them with the first sample of a round)."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from app.metrics import clock
from app.metrics.base import Metric, Reading, null
from app.samples import Sample

MIN_READINGS = 2


def mean_power_w(sensors: Mapping[str, Any], from_ms: float, to_ms: float) -> float | None:
    """Of all cards and processors that tell theirs together, over that time; None for fewer than two readings."""
    columns = [values for name, values in sensors.get("values", {}).items() if name.endswith("power_w")]
    inside = [
        sum(each for each in row if each is not None)
        for at_ms, *row in zip(sensors.get("at_ms", ()), *columns, strict=True)
        if from_ms <= at_ms <= to_ms and any(each is not None for each in row)
    ]
    return fmean(inside) if len(inside) >= MIN_READINGS else None


def read_energy(streams: Sequence[Sample]) -> Sequence[Reading]:
    """Mean power during decode x its time / tokens decoded: for a lone stream power / decode speed."""
    sensors = streams[0].sensors
    if not any(name.endswith("power_w") for name in sensors.get("values", {})):
        return []
    spans = [(clock.first_token_ms(s.trace), clock.last_token_ms(s.trace), s.sent_at_ms) for s in streams]
    begins = [first + sent for first, _, sent in spans if first is not None]
    ends = [last + sent for _, last, sent in spans if last is not None]
    tokens = sum((sample.trace.output_tokens or 1) - 1 for sample in streams)
    if len(begins) < len(streams) or not tokens:
        return [null("sensor", "no_token")]
    power_w = mean_power_w(sensors, min(begins), max(ends))
    if power_w is None:
        return [null("sensor", "few_readings")]
    return [Reading("sensor", power_w * (max(ends) - min(begins)) / 1000 / tokens)]


METRICS = (
    Metric(
        key="joules_per_output_token",
        title="Energy per token",
        unit="J",
        better="lower",
        explanation="Mean power of all cards and processors that tell theirs, during decode, over decode speed.",
        round_formula=read_energy,
    ),
)
