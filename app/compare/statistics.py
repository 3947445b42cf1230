"""The ratio of two samples with its 95 % interval, and the verdict. Pure: numbers in, numbers and words out.

Timings and speeds are compared on logarithms, so that a speed and its inverse, and A against B and B against A, have
the same verdict. Two intervals are used (tests/compare/test_coverage.py holds both against simulations):

* Welch's t-interval, the usual one: right for unlike scatter and unlike counts.
* Where a value is flagged as an outlier, the interval by rearrangement (Fisher's and Pitman's permutation test,
  inverted): the shifts at which the values' division between the two sides is not among the most extreme 5 % of all
  divisions. It assumes no distribution, so that an outlier costs no more width than it must: Welch's interval would
  cover 99 to 100 %. It needs four values on each side; with three, an outlier leaves a far too wide interval.

No outlier is dropped.
"""

import bisect
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from app.i18n import _, ngettext
from app.metrics.summary import MIN_FOR_INTERVAL, t_quantile
from app.units import number, plural

if TYPE_CHECKING:
    import numpy as np

SAME_WITHIN = 0.03
"""An interval within this share of 1, in either direction, says that there is no change worth the name."""
MANY_MORE = 1000
"""Whoever needs more repetitions than these does not want to know how many."""
MIN_FOR_OUTLIER = 4
OUTLIER_REACH = 2.0
"""Of a 95 % prediction interval from the other values: so far out is a value flagged."""
MOST_REARRANGEMENTS = 4000
"""All of them up to 7 against 7; of more, so many by chance."""

_LOG_SAME = math.log1p(SAME_WITHIN)
_LOG_LARGEST = math.log(sys.float_info.max)


class Verdict(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


Direction = Literal["higher", "lower"]
"""Which is better."""


@dataclass(frozen=True)
class Ratio:
    """`other` over `base`: 1.1 is 10 % more. None is unknown, and `remark` says why."""

    value: float | None
    """Of the two medians."""
    low: float | None = None
    high: float | None = None
    """95 % interval."""
    base_noise: float | None = None
    other_noise: float | None = None
    """Noise floors: by how much, relatively, a single repetition usually differs from the others."""
    verdict: Verdict | None = None
    more: int | None = None
    """So many more repetitions of each would settle an inconclusive one; None: no number of them, or too many."""
    outliers: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """Places of flagged values in `base` and `other`; they count all the same."""
    remark: str = ""


def ratio(base: Sequence[float], other: Sequence[float], better: Direction, unit: str = "repetition") -> Ratio:
    """`unit` names what one value is of, for words.

    >>> faster = ratio([50.1, 49.8, 50.3], [55.2, 55.0, 54.7], better="higher")
    >>> faster.verdict.value, round(faster.value, 2)
    ('better', 1.1)
    """
    if not base or not other:
        return Ratio(None, remark=_("There are not values on both sides."))
    wrong = next((value for value in (*base, *other) if not (math.isfinite(value) and value > 0)), None)
    if wrong is not None:
        return Ratio(None, remark=_("A ratio needs positive numbers, and {wrong:g} is none.", wrong=wrong))
    base_logs, other_logs = [math.log(value) for value in base], [math.log(value) for value in other]
    change = math.log(statistics.median(other)) - math.log(statistics.median(base))
    if min(len(base), len(other)) < MIN_FOR_INTERVAL:
        missing = MIN_FOR_INTERVAL - min(len(base), len(other))
        said = _(
            "An interval needs three {unit}s on each side: {missing} would give one.",
            unit=_(unit),
            missing=_further(missing, unit),
        )
        return Ratio(_exp(change), verdict=Verdict.INCONCLUSIVE, more=missing, remark=said)
    spreads = _deviation(base_logs), _deviation(other_logs)
    outliers = _outliers(base_logs), _outliers(other_logs)
    is_by_rearrangement = any(outliers) and min(len(base), len(other)) >= MIN_FOR_OUTLIER
    low, high = (_rearranged if is_by_rearrangement else _welch)(base_logs, other_logs)
    low, high = min(low, change), max(high, change)  # around the medians, beside which it is shown
    verdict = _verdict(change, low, high, max(spreads), better)
    more = None
    if verdict is Verdict.INCONCLUSIVE:
        more = _more(abs(change), spreads, (len(base), len(other)))
    return Ratio(
        value=_exp(change),
        low=_exp(low),
        high=_exp(high),
        base_noise=math.expm1(min(spreads[0], _LOG_LARGEST)),
        other_noise=math.expm1(min(spreads[1], _LOG_LARGEST)),
        verdict=verdict,
        more=more,
        outliers=outliers,
        remark=" ".join(_remarks(verdict, more, change, spreads, outliers, unit)),
    )


def _verdict(change: float, low: float, high: float, noise: float, better: Direction) -> Verdict:
    """On logarithms. `noise`: the larger of both noise floors."""
    if (low > 0 or high < 0) and abs(change) > noise:
        return Verdict.BETTER if (change > 0) == (better == "higher") else Verdict.WORSE
    if low >= -_LOG_SAME and high <= _LOG_SAME:
        return Verdict.SAME
    return Verdict.INCONCLUSIVE


def _exp(value: float) -> float:
    return math.exp(max(-_LOG_LARGEST, min(_LOG_LARGEST, value)))


def _mean(logs: Sequence[float]) -> float:
    return math.fsum(logs) / len(logs)


def _deviation(logs: Sequence[float]) -> float:
    """The sample standard deviation: logarithms are of one size, so this needs none of the care of `statistics`."""
    mean = _mean(logs)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1))


# --- intervals of a difference ---------------------------------------------------------------------------------------


def _welch(base: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    difference = _mean(other) - _mean(base)
    half = _half_width((_deviation(base), _deviation(other)), (len(base), len(other)))
    return difference - half, difference + half


def _half_width(spreads: tuple[float, float], counts: tuple[int, int]) -> float:
    """Of Welch's interval, from standard deviations; degrees of freedom by Welch and Satterthwaite."""
    errors = [spread**2 / count for spread, count in zip(spreads, counts, strict=True)]
    total = sum(errors)
    if total == 0:
        return 0.0
    freedom = 1 / sum((error / total) ** 2 / (count - 1) for error, count in zip(errors, counts, strict=True))
    return _t(freedom) * math.sqrt(total)


def _t(freedom: float) -> float:
    """Student's 95 % quantile between whole degrees of freedom, linear in their inverses.

    With three repetitions, the next smaller whole number would widen an interval by a tenth.
    """
    lower = math.floor(freedom)
    share = (1 / lower - 1 / freedom) / (1 / lower - 1 / (lower + 1))
    return t_quantile(lower) + share * (t_quantile(lower + 1) - t_quantile(lower))


def _rearranged(base: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Of each exchange of k values between the sides, the mean of those from `other` less that of those from `base` is
    the shift at which it begins to be more extreme than the division at hand (Bauer 1972): the interval lies between
    the extreme 2.5 % of these."""
    if len(base) > len(other):  # so that A against B mirrors B against A, whatever chance chose
        low, high = _rearranged(other, base)
        return -high, -low
    leaving, coming = _exchanges(len(base), len(other))
    shifts = sorted(((coming @ other - leaving @ base) / leaving.sum(axis=1)).tolist())
    place = max(1, math.floor(0.025 * (len(shifts) + 1)))
    return shifts[place - 1], shifts[-place]


@cache
def _exchanges(base_count: int, other_count: int) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
    """Which values of `base` change places with which of `other`: one exchange to a row, as ones."""
    from itertools import combinations

    import numpy as np  # only where there is an outlier

    count = base_count + other_count
    if math.comb(count, base_count) <= MOST_REARRANGEMENTS:
        members = np.zeros((math.comb(count, base_count), count))
        for row, chosen in enumerate(combinations(range(count), base_count)):
            members[row, list(chosen)] = 1
    else:
        first = np.concatenate([np.ones(base_count), np.zeros(other_count)])
        members = np.random.default_rng(count).permuted(np.tile(first, (MOST_REARRANGEMENTS // 2, 1)), axis=1)
        if base_count == other_count:
            members = np.concatenate([members, 1 - np.roll(members, base_count, axis=1)])
    leaving, coming = 1 - members[:, :base_count], members[:, base_count:]
    is_exchange = coming.any(axis=1)
    return leaving[is_exchange], coming[is_exchange]


def _outliers(values: Sequence[float]) -> tuple[int, ...]:
    """Places of values far outside of what the others lead one to expect."""
    if len(values) < MIN_FOR_OUTLIER:
        return ()
    found = []
    for place, value in enumerate(values):
        others = [*values[:place], *values[place + 1 :]]
        reach = t_quantile(len(others) - 1) * _deviation(others) * math.sqrt(1 + 1 / len(others))
        # rounding makes values that are equal differ by a hair
        if abs(value - _mean(others)) > OUTLIER_REACH * reach + 1e-9:
            found.append(place)
    return tuple(found)


# --- what would settle it --------------------------------------------------------------------------------------------


def _more(distance: float, spreads: tuple[float, float], counts: tuple[int, int]) -> int | None:
    """How many more repetitions of each narrow the interval enough, if change and scatter stay what they are."""

    def is_settled(extra: int) -> bool:
        half = _half_width(spreads, (counts[0] + extra, counts[1] + extra))
        return (half < distance and distance > max(spreads)) or distance + half < _LOG_SAME

    extra = bisect.bisect_left(range(1, MANY_MORE + 1), True, key=is_settled) + 1
    return extra if extra <= MANY_MORE else None


def _further(count: int, unit: str) -> str:
    return ngettext("{n} more {unit}", "{n} more {unit}s", count).format(n=f"{count:,}", unit=_(unit))


def _remarks(
    verdict: Verdict,
    more: int | None,
    change: float,
    spreads: tuple[float, float],
    outliers: tuple[tuple[int, ...], tuple[int, ...]],
    unit: str,
) -> list[str]:
    said = []
    if verdict is Verdict.INCONCLUSIVE:
        if more is not None:
            said.append(_("About {more} of each would settle it.", more=_further(more, unit)))
        elif _LOG_SAME <= abs(change) <= max(spreads):
            said.append(
                _(
                    "More {unit}s would not settle it: the change is smaller than what one {unit} differs from "
                    "the next ({percent} %).",
                    unit=_(unit),
                    percent=number(100 * math.expm1(max(spreads))),
                )
            )
        else:
            said.append(
                _(
                    "More than {many_more:,} more {unit}s would be needed to settle it.",
                    many_more=MANY_MORE,
                    unit=_(unit),
                )
            )
    if max(spreads) == 0:
        said.append(_("All {unit}s of a side gave the same number, so the interval has no width.", unit=_(unit)))
    if flagged := sum(map(len, outliers)):
        said.append(
            _(
                "{outliers} among the {unit}s: flagged, and counted all the same.",
                outliers=plural(flagged, "outlier"),
                unit=_(unit),
            )
        )
    return said
