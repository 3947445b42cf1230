"""Whether one run stands off from the other runs of the same thing: for many runs at once, on logarithms.

A run is compared with the median of the others, in units of what runs of one configuration differ by: the scatter of
the others, combined with an assumed one where they are few, as in `app.stats.runs`. Two things would hide an outlier:
another one at its side, and one somewhere else among the others; both are left out of the scatter. Two others at its
side are no accident: then it is at another level, and no outlier. Where the others scatter farther on its side of the
median than on the other, that side counts.

The limit is REACH times a quantile of Student's t, far beyond what normal noise needs, since run times have long tails:
with noise as skewed as an exponential distribution, fewer than 1 in 100 runs are called an outlier in any of three
metrics (tests/stats/test_outliers.py holds that, and what is found, against known truths).
"""

import math
from functools import cache
from typing import NamedTuple

from app.core.arrays import Booleans, Floats, Integers, np
from app.stats.runs import ASSUMED_FREEDOM, FULL_HISTORY, MIN_FOR_LONE_RUN, OUTLIER_REACH, median_variance
from app.stats.student import t_quantile

MIN_CHANGE = 0.1
"""The smallest relative change that is worth a person's attention, however steady the others are."""
MIN_OTHERS = 2
MIN_OTHERS_WITH_COMPANION = 4
"""The fewest others for a run with one companion on its side: two against two decide nothing."""
MIN_CHANGE_OF_TWO = 0.3
"""The smallest relative change from only two others, which say nothing about how much they differ."""
REACH = 1.8
"""How many times the two-sided quantile of CHANCE a run is from the others, at least."""
CHANCE = 0.001


class Outliers(NamedTuple):
    """The comparison of some runs with their others, one element for each run."""

    is_outlier: Booleans
    usual: Floats
    """The median of the others, on logarithms; not a number without any."""
    others: Integers
    """The number of others that the median is of."""


def outliers(
    values: Floats, others: Floats, assumed_deviation: float, median_variances: Floats | None = None
) -> Outliers:
    """Compares each of `values` with a row of `others`: logarithms, not a number where there is none.

    `assumed_deviation` is the standard deviation between runs that is assumed for lack of others, and
    `median_variances` what the repetitions within the others add to the variance of a median; unknown: nothing.
    """
    with np.errstate(invalid="ignore"):
        first_middle = _median(others)
        away, distance = others - first_middle[:, None], (values - first_middle)[:, None]
        is_companion = (away * distance > 0) & (np.abs(away - distance) < np.abs(away))
        companions = is_companion.sum(axis=1)
        rest = np.where(is_companion, np.nan, others)
        usual, count = _median(rest), (~np.isnan(rest)).sum(axis=1)
        change = values - usual
        assumed = assumed_deviation**2 + (0.0 if median_variances is None else median_variances)
        limit = _limits(rest, usual, change, assumed)
        enough = np.where(companions == 0, count >= MIN_OTHERS, count >= MIN_OTHERS_WITH_COMPANION)
        least = np.where(count == MIN_OTHERS, -math.log1p(-MIN_CHANGE_OF_TWO), -math.log1p(-MIN_CHANGE))
        is_outlier = enough & (companions <= 1) & (np.abs(change) > np.maximum(limit, least))
    return Outliers(is_outlier, usual, count)


def _limits(rest: Floats, usual: Floats, side: Floats, assumed_variance: Floats | float) -> Floats:
    """Returns the largest distance from the median that is no outlier; `side` has the sign of the run's side."""
    variance, count = _scatter(rest, usual)
    variance = np.maximum(variance, _one_sided(rest, usual, side))
    freedom = np.maximum(count - 1, 0)
    weight = ASSUMED_FREEDOM * np.maximum(0.0, 1 - freedom / FULL_HISTORY)
    combined = (weight * assumed_variance + freedom * variance) / np.maximum(weight + freedom, 1)
    table = np.array([_limit(place) for place in range(rest.shape[1] + 1)])
    limits: Floats = table[count] * np.sqrt(combined)
    return limits


@cache
def _limit(count: int) -> float:
    """Returns the limit in standard deviations, for the median of so many others."""
    if count < MIN_OTHERS:
        return math.inf
    freedom = count - 1 + ASSUMED_FREEDOM * max(0.0, 1 - (count - 1) / FULL_HISTORY)
    return REACH * t_quantile(freedom, CHANCE) * math.sqrt(1 + median_variance(count))


def _scatter(rest: Floats, usual: Floats) -> tuple[Floats, Integers]:
    """Returns the variance of each row and the number of its values, without one that stands off from them."""
    variance, count = _variance(rest)
    distance = np.nan_to_num(np.abs(rest - usual[:, None]), nan=-1.0)
    farthest = distance.argmax(axis=1)[:, None]
    trimmed = rest.copy()
    np.put_along_axis(trimmed, farthest, np.nan, axis=1)
    trimmed_variance, trimmed_count = _variance(trimmed)
    reach = np.array([OUTLIER_REACH * t_quantile(max(1, place - 1)) for place in range(rest.shape[1] + 1)])
    limit = reach[trimmed_count] * np.sqrt(trimmed_variance * (1 + 1 / np.maximum(trimmed_count, 1)))
    is_lone = (count >= MIN_FOR_LONE_RUN) & (np.take_along_axis(distance, farthest, axis=1)[:, 0] > limit + 1e-9)
    return np.where(is_lone, trimmed_variance, variance), np.where(is_lone, trimmed_count, count)


def _one_sided(rows: Floats, usual: Floats, side: Floats) -> Floats:
    """Returns the mean square distance from the median of those on the side that `side` has the sign of."""
    away = rows - usual[:, None]
    is_beyond = away * side[:, None] > 0
    squares: Floats = np.where(is_beyond, away**2, 0.0).sum(axis=1) / np.maximum(is_beyond.sum(axis=1), 1)
    return squares


def _variance(rows: Floats) -> tuple[Floats, Integers]:
    """Returns the sample variance of each row and the number of its values; 0 with fewer than two."""
    is_value = ~np.isnan(rows)
    count = is_value.sum(axis=1)
    mean = np.where(is_value, rows, 0.0).sum(axis=1) / np.maximum(count, 1)
    squares = np.where(is_value, (rows - mean[:, None]) ** 2, 0.0).sum(axis=1)
    return squares / np.maximum(count - 1, 1), count


def _median(rows: Floats) -> Floats:
    """Returns the median of each row's values; not a number where there is none."""
    count = (~np.isnan(rows)).sum(axis=1)
    ordered = np.sort(rows, axis=1)  # which puts those that are not a number last
    middles = [np.maximum(place, 0)[:, None] for place in ((count - 1) // 2, count // 2)]
    low, high = (np.take_along_axis(ordered, np.minimum(middle, rows.shape[1] - 1), axis=1) for middle in middles)
    return np.where(count > 0, (low[:, 0] + high[:, 0]) / 2, np.nan)
