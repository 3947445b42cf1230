"""Metrics of samples made by hand."""

from dataclasses import replace

from app.core.samples import Sample
from app.metrics import MetricResult, compute_metrics, flags_of


def measured(samples: list[Sample]) -> dict[tuple[str, str], MetricResult]:
    return {
        (result.metric, result.source): result
        for result in compute_metrics([replace(s, flags=flags_of(s)) for s in samples])
    }
