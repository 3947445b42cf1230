"""Decode against context: is a slowdown the KV cache's, or something else's?"""

from collections.abc import Iterable
from dataclasses import dataclass

from app.ceiling.decode import Device, decode_on, usual_range
from app.ceiling.geometry import Geometry
from app.ceiling.traffic import F16, step
from app.ceiling.types import KvTypes

CONTEXTS = (0, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    context: int
    ceiling_tokens_per_s: float
    low_tokens_per_s: float
    high_tokens_per_s: float
    """Low and high: where most good results stand."""
    kv_share: float
    """Of all bytes of the step."""


def against_context(
    geometry: Geometry, device: Device, kv: KvTypes = F16, contexts: Iterable[int] = CONTEXTS
) -> list[CurvePoint]:
    """Empty where the weights are unknown."""
    points = []
    for context in contexts:
        if (one := step(geometry, context, kv)) is None:
            return []
        ceiling = decode_on(one, device).tokens_per_s
        points.append(CurvePoint(context, ceiling, *usual_range(ceiling), (one.kv_bytes or 0) / one.n_bytes))
    return points
