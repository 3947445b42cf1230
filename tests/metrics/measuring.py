"""Metrics of samples made by hand."""

from dataclasses import replace

from app.metrics import Measured, flags_of, measure
from app.samples import Sample


def measured(taken: list[Sample]) -> dict[tuple[str, str], Measured]:
    return {(each.metric, each.source): each for each in measure([replace(s, flags=flags_of(s)) for s in taken])}
