"""Centre, spread and interval of a handful of repetitions, and percentiles of many values."""

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from app.stats.student import t_quantile, welch_freedom

MIN_FOR_INTERVAL = 3
_LOG_SMALLEST, _LOG_LARGEST = math.log(sys.float_info.min), math.log(sys.float_info.max)


@dataclass(frozen=True)
class Summary:
    median: float
    minimum: float
    maximum: float
    standard_deviation: float | None
    """Sample standard deviation; None for a single value."""
    low: float | None
    high: float | None
    """The two ends of the 95 % interval; None for fewer than three values."""
    count: int


def summarise(values: Sequence[float]) -> Summary:
    """Summarises at least one finite value.

    The interval is Student's on logarithms when all values are positive: timings are skewed to the right, and a speed
    and its inverse then have the same verdict. It is an interval of the mean, widened where needed to include the
    median, which is shown with it. Numbers too large for a float become the largest one.
    """
    count = len(values)
    middle = _median(values)
    low = high = None
    if count >= MIN_FOR_INTERVAL:
        logs = min(values) > 0
        scale = [math.log(value) for value in values] if logs else list(values)
        half = t_quantile(count - 1) * _deviation(scale) / math.sqrt(count)
        centre = _mean(scale)
        low, high = centre - half, centre + half
        if logs:
            low, high = math.exp(max(low, _LOG_SMALLEST)), math.exp(min(high, _LOG_LARGEST))
        low, high = _bounded(min(low, middle)), _bounded(max(high, middle))
    return Summary(
        median=middle,
        minimum=min(values),
        maximum=max(values),
        standard_deviation=_deviation(values) if count > 1 else None,
        low=low,
        high=high,
        count=count,
    )


def percentiles(values: Sequence[float]) -> list[float]:
    """Returns the 1st to the 99th percentile of at least one value, linear between the closest ranks."""
    return statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else [*values] * 99


def percentile(values: Sequence[float], percent: int) -> float:
    """Returns one of `percentiles` in a fraction of the time."""
    ordered = sorted(values)
    rank, part = divmod(percent * (len(ordered) - 1), 100)
    return (ordered[rank] * (100 - part) + ordered[min(rank + 1, len(ordered) - 1)] * part) / 100


def _median(values: Sequence[float]) -> float:
    """Returns the median; the middle values are halved before adding, since their sum may be too large."""
    return statistics.median_low(values) / 2 + statistics.median_high(values) / 2


def _mean(values: Sequence[float]) -> float:
    return sum(value / len(values) for value in values)


def _deviation(values: Sequence[float]) -> float:
    """Returns the sample standard deviation; computed in units of the largest value, so that no square is too large
    and equal values give 0. The fractions of `statistics.stdev` take ten times as long for digits that no
    measurement has."""
    unit = max(map(abs, values))
    if unit == 0:
        return 0.0
    scaled = [value / unit for value in values]
    mean = math.fsum(scaled) / len(scaled)
    return _bounded(unit * math.sqrt(math.fsum((value - mean) ** 2 for value in scaled) / (len(scaled) - 1)))


def _bounded(value: float) -> float:
    return max(-sys.float_info.max, min(sys.float_info.max, value))


def difference_interval(smaller: Sequence[float], larger: Sequence[float]) -> tuple[float, float] | None:
    """Welch's 95 % interval of mean(larger) - mean(smaller); None with fewer than three values on a side.

    The degrees of freedom are rounded down, so that the interval is never too narrow.
    """
    if min(len(smaller), len(larger)) < MIN_FOR_INTERVAL:
        return None
    errors = [statistics.variance(values) / len(values) for values in (smaller, larger)]
    difference = statistics.fmean(larger) - statistics.fmean(smaller)
    total = sum(errors)
    if total == 0:
        return difference, difference
    freedom = math.floor(welch_freedom(errors, (len(smaller) - 1, len(larger) - 1)))
    half = t_quantile(freedom) * math.sqrt(total)
    return difference - half, difference + half
