"""Level shifts within a configuration: the same model, settings, prompt and hardware, and yet another speed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from app.i18n import _, inside
from app.metrics.base import Metric
from app.store.hardware import HardwareChange
from app.units import day, percent

if TYPE_CHECKING:
    from app.compare.changepoint import ChangePoint, Floats
    from app.store.points import Places, Points


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
    points: "Points", metrics: int, hardware: Mapping[int, Sequence[HardwareChange]] | None = None
) -> list[Shift]:
    """Of points that have readings of so many metrics; shifts in order of time.

    Metrics that shift at the same run, or one run apart, shift together: at the run where it is clearest.
    """
    found = [shift for places in points.stretches(hardware or {}) for shift in _of_stretch(points, places, metrics)]
    return sorted(found, key=lambda shift: shift.at)


class _Seen(NamedTuple):
    """A shift of one metric, by the places of runs in their stretch."""

    after: int
    before: int
    shift: MetricShift


def _of_stretch(points: "Points", places: "Places", metrics: int) -> list[Shift]:
    columns = [column[places] for column in points.readings]
    seen = sorted(
        (each for place in range(metrics) for each in _of_metric(place, *columns[3 * place : 3 * place + 3])),
        key=lambda each: each.after,
    )
    groups: list[list[_Seen]] = []
    for each in seen:
        together = groups[-1] if groups else []
        is_new = all(other.shift.place != each.shift.place for other in together)
        if together and is_new and each.after - together[0].after <= 1:
            together.append(each)
        else:
            groups.append([each])
    found = []
    for number, group in enumerate(groups, 1):
        later = {each.shift.place for other in groups[number:] for each in other}
        clearest = min(group, key=lambda each: each.shift.point.chance)
        first = points[places[clearest.after]]
        found.append(
            Shift(
                config_id=first.config_id,
                at=first.started_at,
                before=points.public_id(places[clearest.before]),
                after=first.public_id,
                metrics=tuple(sorted((each.shift for each in group), key=lambda shift: shift.place)),
                still_holds=later.isdisjoint(each.shift.place for each in group),
            )
        )
    return found


def _of_metric(place: int, value: "Floats", deviation: "Floats", count: "Floats") -> list[_Seen]:
    """Runs that have no value of this metric are passed over. Deviations are those of logarithms: relative ones."""
    known = (value > 0).nonzero()[0]
    found = _change_points(_Series(value[known], deviation[known] / value[known], count[known]))
    return [_Seen(int(known[point.index]), int(known[point.index - 1]), MetricShift(place, point)) for point in found]


class _Series:
    """Is equal to another one by what is in it, which it forgets once its change points are found."""

    def __init__(self, value: "Floats", relative_deviation: "Floats", count: "Floats") -> None:
        self._columns = [value, relative_deviation, count]
        self._digest = blake2b(b"".join(column.tobytes() for column in self._columns), digest_size=16).digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Series) and self._digest == other._digest

    def change_points(self) -> "list[ChangePoint]":
        import numpy as np  # not at start

        from app.compare.changepoint import change_points

        value, relative_deviation, count = self._columns
        self._columns = []
        return change_points(np.log(value), relative_deviation, count)


@lru_cache(maxsize=4096)
def _change_points(series: _Series) -> "list[ChangePoint]":
    """Whoever looks at a history from several sides, or after another run, waits only for what is new. Each series is
    a metric of a configuration with one prompt on one hardware: thousands of them take a megabyte."""
    return series.change_points()


def is_worse(shift: MetricShift, metric: Metric) -> bool:
    return (shift.point.ratio < 1) is (metric.better == "higher")


def moved(shift: MetricShift, metric: Metric) -> str:
    return f"{inside(metric.title)} {percent(shift.point.change)}"


def words(shift: Shift, metrics: Sequence[Metric]) -> str:
    """Such as "decode −11 % since 20 November 2026, same configuration"; `metrics` as the points have readings of."""
    found = ", ".join(moved(each, metrics[each.place]) for each in shift.metrics)
    return _("{found} since {at}, same configuration", found=found, at=day(shift.at))
