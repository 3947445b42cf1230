"""Samples that are faster than their hardware can be. Judged while reading: a ceiling may become known later."""

from collections.abc import Sequence
from dataclasses import replace

from app.core.samples import Sample
from app.metrics import headline_metrics
from app.results.ceiling.points import PointCeiling, RunCeiling

MAX_CEILING_RATIO = 2.0
"""So many times the ceiling is no inaccuracy of what the ceiling stands on."""
FLAG = "implausible"


def flag_above_ceiling(samples: Sequence[Sample], run_ceiling: RunCeiling | object) -> list[Sample]:
    """The samples, flagged where decode or prefill is beyond twice the ceiling; as they are where there is none."""
    if not isinstance(run_ceiling, RunCeiling):
        return list(samples)
    return [_flagged(sample) if _is_beyond(sample, run_ceiling.at(sample.point)) else sample for sample in samples]


def _flagged(sample: Sample) -> Sample:
    return sample if FLAG in sample.flags else replace(sample, flags=(*sample.flags, FLAG))


def _is_beyond(sample: Sample, point_ceiling: PointCeiling | None) -> bool:
    if point_ceiling is None or sample.point.concurrency > 1:
        return False
    speeds = headline_metrics(sample)
    decode, prefill = speeds["decode_tokens_per_s"] or 0.0, speeds["prefill_tokens_per_s"] or 0.0
    return decode > MAX_CEILING_RATIO * point_ceiling.decode.tokens_per_s or (
        point_ceiling.prefill is not None and prefill > MAX_CEILING_RATIO * point_ceiling.prefill.tokens_per_s
    )
