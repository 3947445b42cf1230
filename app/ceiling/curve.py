"""Decode against context: is a slowdown the KV cache's, or something else's?"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from app.ceiling.bytes_per_step import F16, Step, step
from app.ceiling.decode import DecodeCeiling, usual_range
from app.ceiling.geometry import Geometry
from app.ceiling.number_formats import KvTypes

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
    geometry: Geometry,
    allowed: Callable[[Step], DecodeCeiling | None],
    kv: KvTypes = F16,
    contexts: Iterable[int] = CONTEXTS,
    batch: int = 1,
) -> list[CurvePoint]:
    """`allowed`: what the devices allow for a step; contexts for which that is unknown are left out.

    Empty where the weights are unknown.
    """
    points = []
    for context in contexts:
        if (decode_step := step(geometry, context, kv, batch)) is None:
            return []
        if (decode := allowed(decode_step)) is None:
            continue
        ceiling = decode.tokens_per_s
        kv_share = batch * (decode_step.kv_bytes or 0) / decode_step.n_bytes
        points.append(CurvePoint(context, ceiling, *usual_range(ceiling), kv_share))
    return points


def contexts_up_to(longest: int, pieces: int = 32) -> list[int]:
    """From none to `longest`, closer together at the beginning, where a curve bends most."""
    return sorted({round(longest * (piece / pieces) ** 2) for piece in range(pieces + 1)})
