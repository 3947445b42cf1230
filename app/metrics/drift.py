"""Drift within a run: repetitions of one workload that depend on when in the run they were played.

Two tests on the logarithms of each metric of the triple: Student's t of a line over the repetitions, and from
MIN_FOR_NEIGHBOURS repetitions on whether neighbours are alike (Bartels, JASA 1982: von Neumann's ratio of the ranks).
The line's t is brought to the normal scale by Wallace's approximation, which errs on the side of silence with few
repetitions. Unlike the other flags, this one is judged from all samples of a run together.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import NormalDist, median

from app.core.samples import Sample, Workload
from app.metrics import HEADLINE_METRICS, applies_to, is_usable, metrics, rounds_of, values_of

FLAG = "drift"
FALSE_ALARMS = 0.015
"""The share of runs without drift that may be flagged, over all of their workloads and metrics together."""
NEIGHBOURS_SHARE = 1 / 3
"""The share of the false alarms that goes to the test of neighbours, where it is used."""
MIN_FOR_NEIGHBOURS = 8
MIN_CHANGE = math.log1p(0.02)
"""The smallest change that counts, from the first repetition to the last, or from the lowest to the highest."""


def with_drift(samples: Sequence[Sample]) -> list[Sample]:
    """Returns the samples of a run, flagged where the repetitions of their workload drift; warm-ups and unusable
    samples never are."""
    workloads: dict[tuple[Workload, bool], list[Sample]] = {}
    for sample in samples:
        if is_usable(sample):
            workloads.setdefault((sample.point, sample.reuses_cache), []).append(sample)
    series = {key: list(_series(of_workload)) for key, of_workload in workloads.items()}
    count = sum(map(len, series.values()))
    drifting = {
        key
        for key, of_workload in series.items()
        if any(drifts(values, FALSE_ALARMS / count) for values in of_workload)
    }
    return [
        replace(sample, flags=(*sample.flags, FLAG))
        if (sample.point, sample.reuses_cache) in drifting and is_usable(sample) and FLAG not in sample.flags
        else sample
        for sample in samples
    ]


def _series(samples: Sequence[Sample]) -> Iterable[Sequence[float]]:
    """Returns the values of each headline metric by round in order of time, from the source with the most values."""
    rounds = rounds_of(samples)
    for metric in (metrics()[key] for key in HEADLINE_METRICS):
        by_source: dict[str, list[float]] = {}
        for streams in rounds:
            of_round = values_of(metric, [stream for stream in streams if applies_to(stream, metric)]).by_source
            for source, values in of_round.items():
                if values:
                    by_source.setdefault(source, []).append(median(values))
        yield from sorted(by_source.values(), key=len)[-1:]


def drifts(values: Sequence[float], false_alarms: float) -> bool:
    """Whether values in order of time show a trend or are like their neighbours.

    >>> drifts([50.1, 49.2, 48.4, 47.1, 46.0], 0.005), drifts([50.1, 49.2, 50.4, 49.1, 50.0], 0.005)
    (True, False)
    """
    count = len(values)
    if count < 3 or min(values) <= 0:
        return False
    logs = [math.log(value) for value in values]
    if count < MIN_FOR_NEIGHBOURS:
        return _has_trend(logs, false_alarms)
    share = false_alarms * NEIGHBOURS_SHARE
    return _has_trend(logs, false_alarms - share) or _are_neighbours_alike(logs, share)


def _has_trend(logs: Sequence[float], false_alarms: float) -> bool:
    count, mean = len(logs), math.fsum(logs) / len(logs)
    offsets = [place - (count - 1) / 2 for place in range(count)]
    squares = math.fsum(offset**2 for offset in offsets)
    slope = math.fsum(offset * value for offset, value in zip(offsets, logs, strict=True)) / squares
    if abs(slope) * (count - 1) < MIN_CHANGE:
        return False
    rest = math.fsum((value - mean - slope * offset) ** 2 for offset, value in zip(offsets, logs, strict=True))
    freedom = count - 2
    t_squared = slope**2 * squares * freedom / rest if rest > 0 else math.inf
    z = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(t_squared / freedom))
    return z > NormalDist().inv_cdf(1 - false_alarms / 2)


def _are_neighbours_alike(logs: Sequence[float], false_alarms: float) -> bool:
    """Whether neighbouring values are alike; equal values get the mean of their ranks."""
    if max(logs) - min(logs) < MIN_CHANGE:
        return False
    count, ordered = len(logs), sorted(logs)
    ranks = [(ordered.index(value) + count - 1 - ordered[::-1].index(value)) / 2 for value in logs]
    spread = math.fsum((rank - (count - 1) / 2) ** 2 for rank in ranks)
    ratio = math.fsum((after - before) ** 2 for before, after in pairwise(ranks)) / spread
    variance = 4 * (count - 2) * (5 * count**2 - 2 * count - 9) / (5 * count * (count + 1) * (count - 1) ** 2)
    return (2 - ratio) / math.sqrt(variance) > NormalDist().inv_cdf(1 - false_alarms)
