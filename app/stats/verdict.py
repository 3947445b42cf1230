"""The ratio of two results with its 95 % interval, and what may be concluded from it.

Timings and speeds are compared on logarithms, so that a speed and its inverse, and A against B and B against A, have
the same verdict. Each result is one run or several runs of one configuration; the value of several is the median of
theirs. The interval is Student's, from the between-run scatter of app.stats.runs.

A verdict looks at the metrics of the main point together, corrected for their number by Holm's method (Scandinavian
Journal of Statistics 1979): at most 5 of 100 comparisons of equal configurations call anything better or worse.
"""

import bisect
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median
from typing import Literal

from app.stats.runs import RunMedian, RunScatter, median_variance
from app.stats.student import CONFIDENCE, t_quantile, two_sided_p, welch_freedom

SAME_WITHIN = 0.03
"""The default limit: an interval within this share of 1, either way, counts as the same."""
MANY_RUNS = 100
"""The largest number of additional runs that is worth reporting."""

_LOG_LARGEST = math.log(sys.float_info.max)
_ALPHA = 1 - CONFIDENCE

Direction = Literal["higher", "lower"]
"""The direction that is better."""


class Verdict(StrEnum):
    """What may be concluded about a change."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    MIXED = "mixed"
    """Some metrics are better, others worse."""


@dataclass(frozen=True)
class Result:
    """One metric of one subject: its runs, and how much runs like them differ."""

    runs: Sequence[RunMedian]
    scatter: RunScatter

    @property
    def log_value(self) -> float:
        return median(run.log_value for run in self.runs)

    def variance(self, extra_runs: int = 0) -> float:
        """Returns the variance of the median of its runs and of `extra_runs` more runs like them."""
        variances = [self.scatter.variance_of_median(run) for run in self.runs]
        return math.fsum(variances) / len(variances) * median_variance(len(variances) + extra_runs)


@dataclass(frozen=True)
class Ratio:
    """The compared result over the base: 1.1 is 10 % more."""

    value: float
    low: float
    high: float
    """The two ends of the 95 % interval of the ratio of the two configurations."""
    p_value: float
    """The two-sided p-value of a ratio of 1; not corrected for other metrics."""
    verdict: Verdict
    additional_runs_needed: int | None = None
    """The number of additional runs of each side that would settle an inconclusive verdict; None when it is settled, or
    needs more than MANY_RUNS."""


def judge(
    results: Mapping[str, tuple[Result, Result]],
    better: Mapping[str, Direction],
    same_within: float = SAME_WITHIN,
) -> dict[str, Ratio]:
    """Judges the base and the compared result of several metrics together; the verdicts are corrected for the number of
    metrics.

    An interval within `same_within` of 1 is the same, however certain the difference.
    """
    singles = {key: _ratio(base, compared) for key, (base, compared) in results.items()}
    rejected = _holm({key: single.p_value for key, single in singles.items()})
    judged = {}
    for key, single in singles.items():
        low, high = math.log(single.low), math.log(single.high)
        if _is_same(low, high, same_within):
            judged[key] = replace(single, verdict=Verdict.SAME)
        elif key in rejected:
            judged[key] = replace(single, verdict=_direction(math.log(single.value), better[key]))
        else:
            runs = runs_needed(*results[key], looks=len(results), same_within=same_within)
            judged[key] = replace(single, additional_runs_needed=runs)
    return judged


def _ratio(base: Result, compared: Result) -> Ratio:
    change = compared.log_value - base.log_value
    freedom = _degrees_of_freedom(base, compared)
    error = math.sqrt(base.variance() + compared.variance())
    half_width = t_quantile(freedom) * error
    p_value = two_sided_p(change / error, freedom) if error > 0 else float(change == 0)
    low, high = change - half_width, change + half_width
    return Ratio(_exp(change), _exp(low), _exp(high), p_value, Verdict.INCONCLUSIVE)


def overall(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Returns one word for the verdicts of a comparison: a change outweighs what stayed the same. None without
    verdicts."""
    present = set(verdicts)
    if {Verdict.BETTER, Verdict.WORSE} <= present:
        return Verdict.MIXED
    order = (Verdict.MIXED, Verdict.WORSE, Verdict.BETTER, Verdict.INCONCLUSIVE, Verdict.SAME)
    return next((verdict for verdict in order if verdict in present), None)


def runs_needed(base: Result, compared: Result, looks: int = 1, same_within: float = SAME_WITHIN) -> int | None:
    """Returns how many more runs of each side would settle the verdict if change and scatter stay what they are; None
    for more than MANY_RUNS. `looks` is the number of metrics judged together."""
    change = compared.log_value - base.log_value
    freedom = _degrees_of_freedom(base, compared)

    def is_settled(extra: int) -> bool:
        error = math.sqrt(base.variance(extra) + compared.variance(extra))
        more_freedom = freedom + 2 * extra  # each new run says something about the scatter, too
        same_half, change_half = (t_quantile(more_freedom, _ALPHA / n) * error for n in (1, looks))
        return change_half < abs(change) or _is_same(change - same_half, change + same_half, same_within)

    extra = bisect.bisect_left(range(1, MANY_RUNS + 1), True, key=is_settled) + 1
    return extra if extra <= MANY_RUNS else None


def _degrees_of_freedom(base: Result, compared: Result) -> float:
    """Returns the degrees of freedom of the shared scatter; those of two machines are combined by Welch and
    Satterthwaite."""
    if base.scatter == compared.scatter:
        return base.scatter.degrees_of_freedom
    variances = base.variance(), compared.variance()
    freedoms = base.scatter.degrees_of_freedom, compared.scatter.degrees_of_freedom
    return welch_freedom(variances, freedoms) if any(variances) else min(freedoms)


def _is_same(low: float, high: float, same_within: float) -> bool:
    """Whether the interval lies within [1 / 1.03, 1.03]: on logarithms, so that swapping the sides keeps the
    verdict."""
    limit = math.log1p(same_within)
    return -limit <= low and high <= limit


def _direction(change: float, better: Direction) -> Verdict:
    return Verdict.BETTER if (change > 0) == (better == "higher") else Verdict.WORSE


def _holm(p_values: Mapping[str, float]) -> set[str]:
    """Returns the keys of the rejected hypotheses."""
    rejected: set[str] = set()
    for rank, key in enumerate(sorted(p_values, key=p_values.__getitem__)):
        if p_values[key] > _ALPHA / (len(p_values) - rank):
            break
        rejected.add(key)
    return rejected


def _exp(value: float) -> float:
    return math.exp(max(-_LOG_LARGEST, min(_LOG_LARGEST, value)))
