"""How much runs of one configuration differ: the unit of evidence about a configuration is the run.

The repetitions of one run share everything that changes when an engine is started again, so they say how precise that
run is and nothing about the next one. On logarithms, the median of a run scatters around its configuration with

    variance of a median = between-run variance + repetition variance x median_variance(repetitions)

Both parts are estimated from a history: groups of runs that measured the same thing. The repetition variance is the
median over its runs, so that a run with an outlier says no more than others. The between-run variance is what the mean
square between the runs of the groups leaves beyond the repetitions.

A short history is combined with an assumed standard deviation. The assumption is worth ASSUMED_FREEDOM degrees of
freedom where there is no history, and fades: a history of FULL_HISTORY degrees replaces it. A constant weight would
make intervals of a steady machine cover 99 to 100 % for good, whatever its history says
(tests/stats/test_simulation.py holds coverage, false verdicts and power against known truths).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from app.stats.student import t_quantile

ASSUMED_FREEDOM = 4.0
FULL_HISTORY = 8
MIN_FOR_OUTLIER = 4
MIN_FOR_LONE_RUN = 6
OUTLIER_REACH = 2.0
"""A value further out than this many times the 95 % prediction interval from the others is an outlier."""
_MOST_DEVIATION = 1e6  # squares of it are still numbers
NOISIER_CHANCE = 0.001
"""A run's own repetition variance is used only when chance alone would make a run this noisy more rarely than this."""


@dataclass(frozen=True)
class RunMedian:
    """One metric of one run, on logarithms."""

    log_value: float
    repetitions: int
    repetition_variance: float | None = None
    """The variance of the repetitions, without an outlier; None for a single repetition."""

    @property
    def variance_of_median(self) -> float | None:
        if self.repetition_variance is None:
            return None
        return self.repetition_variance * median_variance(self.repetitions)


def run_median(
    value: float,
    standard_deviation: float | None,
    minimum: float | None,
    maximum: float | None,
    repetitions: int,
    concurrency: int = 1,
) -> RunMedian:
    """Returns a run's median from the summary of its repetitions; `value` is their median and positive.

    Relative deviations approximate those of logarithms: they agree to first order, and a run whose repetitions differ
    by more than 10 % supports no verdict anyway. Streams of one round disturb each other, so a round is one repetition.
    """
    rounds = max(1, repetitions // concurrency)
    if standard_deviation is None or repetitions < 2:
        return RunMedian(math.log(value), rounds)
    deviation = min(standard_deviation / value, _MOST_DEVIATION)
    variance = deviation**2
    if repetitions >= MIN_FOR_OUTLIER and minimum is not None and maximum is not None:
        distance = min(max(maximum - value, value - minimum) / value, _MOST_DEVIATION)
        rest = (repetitions - 1) * variance - (repetitions - 1) / repetitions * distance**2
        rest_variance = max(0.0, rest) / (repetitions - 2)
        reach = t_quantile(repetitions - 2) * math.sqrt(rest_variance * (1 + 1 / (repetitions - 1)))
        if distance > OUTLIER_REACH * reach + 1e-9:
            return RunMedian(math.log(value), max(1, rounds - 2), rest_variance)
    return RunMedian(math.log(value), rounds, variance)


def median_variance(count: int) -> float:
    """Variance of the median of `count` normal values of variance 1, within 1 % (exact for 1 and 2)."""
    if count <= 2:
        return 1 / count
    return math.pi / (2 * count + (0.95 if count % 2 else 2.6))


@dataclass(frozen=True)
class RunScatter:
    """How much runs of one configuration differ, for one metric."""

    between_variance: float
    """The variance on logarithms, with history and assumption combined."""
    degrees_of_freedom: float
    repetition_variance: float | None
    """Usual variance among the repetitions of a run; None where no run has two."""
    assumed_deviation: float | None
    """The standard deviation that was assumed for lack of history; None when the history suffices."""
    history_deviation: float | None = None
    """The standard deviation between runs in the history; None without a history."""
    configurations: int = 0
    """The number of groups of at least two runs in the history."""
    runs: int = 0
    is_elsewhere: bool = False
    """Whether the history is that of other machines because this one has none."""

    def variance_of_median(self, run: RunMedian) -> float:
        """The variance of a run's median around its configuration, on logarithms."""
        usual = self.repetition_variance
        if usual is None:
            usual = run.repetition_variance or 0.0
        elif run.repetition_variance is not None and self._is_noisier(run, usual):
            usual = run.repetition_variance
        return self.between_variance + usual * median_variance(run.repetitions)

    @staticmethod
    def _is_noisier(run: RunMedian, usual: float) -> bool:
        """Whether the repetitions scatter more than chance allows (Wilson and Hilferty's chi-square quantile)."""
        assert run.repetition_variance is not None
        freedom = max(1, run.repetitions - 1)
        z = t_quantile(math.inf, 2 * NOISIER_CHANCE)
        limit = (1 - 2 / (9 * freedom) + z * math.sqrt(2 / (9 * freedom))) ** 3
        return run.repetition_variance > limit * usual


def run_scatter(
    groups: Sequence[Sequence[RunMedian]],
    assumed_deviation: float,
    *,
    compared: Sequence[RunMedian] = (),
    is_elsewhere: bool = False,
) -> RunScatter:
    """Returns how much runs differ, from a history and an assumed standard deviation of logarithms.

    `groups` holds the runs of each configuration (same hardware and prompt). `compared` holds runs that are compared
    and in no group: the scatter of their repetitions counts, their differences do not.
    """
    groups = [_without_lone_runs(group) for group in groups if len(group) > 1]
    runs = [run for group in groups for run in group]
    freedom = len(runs) - len(groups)
    repetition_variance = _usual_repetition_variance([*runs, *compared])
    history = None
    if freedom:
        mean_square = sum(_sum_of_squares([run.log_value for run in group]) for group in groups) / freedom
        repetitions = fmean((repetition_variance or 0.0) * median_variance(run.repetitions) for run in runs)
        history = max(0.0, mean_square - repetitions)
    weight = ASSUMED_FREEDOM * max(0.0, 1 - freedom / FULL_HISTORY)
    combined = (weight * assumed_deviation**2 + freedom * (history or 0.0)) / (weight + freedom)
    return RunScatter(
        between_variance=combined,
        degrees_of_freedom=weight + freedom,
        repetition_variance=repetition_variance,
        assumed_deviation=assumed_deviation if weight else None,
        history_deviation=None if history is None else math.sqrt(history),
        configurations=len(groups),
        runs=len(runs),
        is_elsewhere=is_elsewhere and freedom > 0,
    )


def _without_lone_runs(group: Sequence[RunMedian]) -> Sequence[RunMedian]:
    """Removes runs that stand off alone from their group: something unseen disturbed them, and they say nothing about
    the others."""
    if len(group) < MIN_FOR_LONE_RUN:
        return group
    values = [run.log_value for run in group]
    total, squares, count = math.fsum(values), _sum_of_squares(values), len(values)
    reach = OUTLIER_REACH * t_quantile(count - 2)
    retained = []
    for run in group:
        distance = abs(run.log_value - (total - run.log_value) / (count - 1))
        rest_variance = max(0.0, squares - (count - 1) / count * distance**2) / (count - 2)
        if distance <= reach * math.sqrt(rest_variance * count / (count - 1)) + 1e-9:
            retained.append(run)
    return retained


def _usual_repetition_variance(runs: Sequence[RunMedian]) -> float | None:
    """Returns the median over the runs, corrected since a chi-square variable's median lies below its mean (Wilson and
    Hilferty 1931)."""
    variances = [
        run.repetition_variance / (1 - 2 / (9 * max(1, run.repetitions - 1))) ** 3
        for run in runs
        if run.repetition_variance is not None
    ]
    return median(variances) if variances else None


def _sum_of_squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)
