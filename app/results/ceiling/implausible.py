"""Samples that are faster than their hardware can be. Judged while reading: a ceiling may become known later."""

from collections.abc import Sequence
from dataclasses import replace

from app.core.samples import Sample
from app.metrics import headline_metrics
from app.results.ceiling.points import PointCeiling, RunCeiling

MAX_CEILING_RATIO = 2.0
"""So many times the ceiling is no inaccuracy of what the ceiling stands on."""
FLAG = "implausible"


def flag_above_ceiling(samples: Sequence[Sample], roof: RunCeiling | object) -> list[Sample]:
    """The samples, flagged where decode or prefill is beyond twice the ceiling; as they are where there is none."""
    if not isinstance(roof, RunCeiling):
        return list(samples)
    return [_flagged(sample) if _is_beyond(sample, roof.at(sample.point)) else sample for sample in samples]


def _flagged(sample: Sample) -> Sample:
    return sample if FLAG in sample.flags else replace(sample, flags=(*sample.flags, FLAG))


def _is_beyond(sample: Sample, top: PointCeiling | None) -> bool:
    if top is None or sample.point.concurrency > 1:
        return False
    reached = headline_metrics(sample)
    decode, prefill = reached["decode_tokens_per_s"] or 0.0, reached["prefill_tokens_per_s"] or 0.0
    return decode > MAX_CEILING_RATIO * top.decode.tokens_per_s or (
        top.prefill is not None and prefill > MAX_CEILING_RATIO * top.prefill.tokens_per_s
    )
