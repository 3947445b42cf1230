"""Level shifts within a configuration: the same model, settings, prompt and hardware, and yet another speed."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from app.metrics.base import Metric
from app.store.history import HardwareChange, HistoryPoint, stretches
from app.units import day, percent

if TYPE_CHECKING:
    from app.compare.changepoint import ChangePoint


class MetricShift(NamedTuple):
    place: int
    """Of the metric among those that the points have readings of."""
    point: "ChangePoint"


class Shift(NamedTuple):
    config_id: int
    at: datetime
    """When the first run at the new level started."""
    before: str
    """Public id of the last run at the old level."""
    after: str
    """Public id of the first run at the new level."""
    metrics: tuple[MetricShift, ...]
    still_holds: bool
    """Whether none of its metrics has shifted again."""


def shifts(
    points: Sequence[HistoryPoint], metrics: int, hardware: Mapping[int, Sequence[HardwareChange]] | None = None
) -> list[Shift]:
    """Of points in order of time that have readings of so many metrics; shifts in order of time.

    Metrics that shift at the same run, or one run apart, shift together: at the run where it is clearest.
    """
    found = [shift for stretch in stretches(points, hardware or {}) for shift in _of_stretch(stretch, metrics)]
    return sorted(found, key=lambda shift: shift.at)


def _of_stretch(stretch: Sequence[HistoryPoint], metrics: int) -> list[Shift]:
    seen = [
        (index, MetricShift(place, point)) for place in range(metrics) for index, point in _of_metric(stretch, place)
    ]
    groups: list[list[tuple[int, MetricShift]]] = []
    for index, shift in sorted(seen, key=lambda each: each[0]):
        known = {other.place for _, other in groups[-1]} if groups else set()
        if groups and index - groups[-1][0][0] <= 1 and shift.place not in known:
            groups[-1].append((index, shift))
        else:
            groups.append([(index, shift)])
    made = []
    for number, group in enumerate(groups, 1):
        later = {shift.place for each in groups[number:] for _, shift in each}
        index = min(group, key=lambda each: each[1].point.chance)[0]
        made.append(
            Shift(
                config_id=stretch[index].config_id,
                at=stretch[index].started_at,
                before=stretch[index - 1].public_id,
                after=stretch[index].public_id,
                metrics=tuple(sorted((shift for _, shift in group), key=lambda shift: shift.place)),
                still_holds=later.isdisjoint(shift.place for _, shift in group),
            )
        )
    return made


def _of_metric(stretch: Sequence[HistoryPoint], place: int) -> list[tuple[int, "ChangePoint"]]:
    """Where in the stretch; runs that have no value of this metric are passed over."""
    from app.compare.changepoint import change_points  # loads numpy: not at start

    known = [(index, value) for index, point in enumerate(stretch) if (value := point.value(place)) and value > 0]
    means = [math.log(value) for _, value in known]
    deviations = [_relative(stretch[index].deviation(place), value) for index, value in known]
    counts = [stretch[index].count(place) for index, _ in known]
    return [(known[point.index][0], point) for point in change_points(means, deviations, counts)]


def _relative(deviation: float | None, value: float) -> float | None:
    """The deviation of the logarithms, where it is small beside the value."""
    return None if deviation is None else deviation / value


def is_worse(shift: MetricShift, metric: Metric) -> bool:
    return (shift.point.ratio < 1) is (metric.better == "higher")


def moved(shift: MetricShift, metric: Metric) -> str:
    return f"{metric.said} {percent(shift.point.change)}"


def words(shift: Shift, metrics: Sequence[Metric]) -> str:
    """Such as "decode −11 % since 20 November 2026, same configuration"; `metrics` as the points have readings of."""
    found = ", ".join(moved(each, metrics[each.place]) for each in shift.metrics)
    return f"{found} since {day(shift.at)}, same configuration"
