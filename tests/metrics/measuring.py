"""Metrics of samples made by hand."""

from dataclasses import replace

from app.core.samples import Sample
from app.metrics import MetricResult, compute_metrics, flags_of


def measured(taken: list[Sample]) -> dict[tuple[str, str], MetricResult]:
    return {
        (each.metric, each.source): each for each in compute_metrics([replace(s, flags=flags_of(s)) for s in taken])
    }
