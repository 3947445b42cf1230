"""Samples that are faster than their hardware can be. Judged while reading: a ceiling may become known later."""

from collections.abc import Sequence
from dataclasses import replace

from app.metrics import triple_of
from app.roof.points import PointRoof, RunRoof
from app.samples import Sample

BEYOND = 2.0
"""So many times the ceiling is no inaccuracy of what the ceiling stands on."""
FLAG = "implausible"


def with_ceiling(samples: Sequence[Sample], roof: RunRoof | object) -> list[Sample]:
    """The samples, flagged where decode or prefill is beyond twice the ceiling; as they are where there is none."""
    if not isinstance(roof, RunRoof):
        return list(samples)
    return [_flagged(sample) if _is_beyond(sample, roof.at(sample.point)) else sample for sample in samples]


def _flagged(sample: Sample) -> Sample:
    return sample if FLAG in sample.flags else replace(sample, flags=(*sample.flags, FLAG))


def _is_beyond(sample: Sample, top: PointRoof | None) -> bool:
    if top is None or sample.point.concurrency > 1:
        return False
    reached = triple_of(sample)
    decode, prefill = reached["decode_tokens_per_s"] or 0.0, reached["prefill_tokens_per_s"] or 0.0
    return decode > BEYOND * top.decode.tokens_per_s or (
        top.prefill is not None and prefill > BEYOND * top.prefill.tokens_per_s
    )
