"""Verdicts against simulations whose truth is known; fixed seeds, so the shares never change.

A run's repetitions scatter by `within`, the runs of a configuration by `between`. TTFT and prefill are two readings of
one time, as they are in a run; decode is independent of both.
"""

import math
from dataclasses import dataclass
from statistics import mean
from typing import Literal

import numpy as np
import pytest

from app.metrics import HEADLINE_METRICS, metrics
from app.stats.runs import RunMedian, run_median, run_scatter
from app.stats.verdict import Ratio, Result, Verdict, judge, overall

CHANGED = (Verdict.BETTER, Verdict.WORSE, Verdict.MIXED)
Noise = Literal["normal", "skewed", "outlier", "autocorrelated"]


@dataclass(frozen=True)
class Setup:
    within: float
    between: float
    repetitions: int
    history: int
    runs: int = 1
    """Of each side."""
    noise: Noise = "normal"
    decode_change: float = 1.0

    @property
    def seed(self) -> list[int]:
        return list(repr(self).encode())


def logs(source: np.random.Generator, setup: Setup, runs: int, *, is_spoiled: bool = False) -> np.ndarray:
    """Of repetitions: one row a run."""
    shape = (runs, setup.repetitions)
    within = source.gamma(4, 1, shape) / 2 - 2 if setup.noise == "skewed" else source.standard_normal(shape)
    if setup.noise == "autocorrelated":
        for place in range(1, setup.repetitions):
            within[:, place] = 0.7 * within[:, place - 1] + math.sqrt(0.51) * within[:, place]
    if is_spoiled:
        within[0, 0] += 10
    return np.asarray(setup.within * within + setup.between * source.standard_normal((runs, 1)))


def medians(rows: np.ndarray) -> list[RunMedian]:
    values = np.exp(rows)
    summaries = np.median(values, axis=1), np.std(values, axis=1, ddof=1), values.min(axis=1), values.max(axis=1)
    return [
        run_median(value, deviation, minimum, maximum, rows.shape[1])
        for value, deviation, minimum, maximum in zip(*(column.tolist() for column in summaries), strict=True)
    ]


def compared(source: np.random.Generator, setup: Setup) -> dict[str, Ratio]:
    is_spoiled = setup.noise == "outlier"
    times, decodes = (
        [
            logs(source, setup, setup.history),
            logs(source, setup, setup.runs, is_spoiled=is_spoiled),
            logs(source, setup, setup.runs),
        ]
        for _ in range(2)
    )
    decodes[2] += math.log(setup.decode_change)
    results = {}
    for key, sides in zip(HEADLINE_METRICS, (times, [-rows for rows in times], decodes), strict=True):
        history, base, compared = map(medians, sides)
        groups = [history] if setup.runs == 1 else [history, base, compared]
        singles = [*base, *compared] if setup.runs == 1 else []
        scatter = run_scatter(groups, metrics()[key].assumed_run_deviation, compared=singles)
        results[key] = Result(base, scatter), Result(compared, scatter)
    return judge(results, {key: metrics()[key].better for key in HEADLINE_METRICS})


@dataclass(frozen=True)
class Outcome:
    changed: float
    """Share of rounds in which anything was called better or worse."""
    covered: float
    """Share of the intervals that hold the truth."""
    decode_better: float


def simulate(setup: Setup, rounds: int = 200) -> Outcome:
    source = np.random.default_rng(setup.seed)
    truth = {**dict.fromkeys(HEADLINE_METRICS, 1.0), HEADLINE_METRICS[2]: setup.decode_change}
    comparisons = [compared(source, setup) for _ in range(rounds)]
    verdicts = [overall(ratio.verdict for ratio in ratios.values()) for ratios in comparisons]
    covered = [ratio.low <= truth[key] <= ratio.high for ratios in comparisons for key, ratio in ratios.items()]
    better = [ratios[HEADLINE_METRICS[2]].verdict is Verdict.BETTER for ratios in comparisons]
    return Outcome(
        sum(verdict in CHANGED for verdict in verdicts) / rounds,
        sum(covered) / len(covered),
        sum(better) / rounds,
    )


@pytest.mark.parametrize(("history", "most_between"), [(0, 0.02), (3, 0.04), (10, 0.04), (50, 0.04)])
@pytest.mark.parametrize("within", [0.003, 0.01, 0.02])
def test_two_runs_of_one_configuration_are_not_called_different(
    within: float, history: int, most_between: float
) -> None:
    """Without a history up to the assumed scatter: 2 % for decode."""
    setups = [
        Setup(within, between, repetitions, history)
        for between in (0.0, 0.01, 0.02, 0.04)
        for repetitions in (3, 5, 10)
        if between <= most_between
    ]
    outcomes = {setup: simulate(setup, 60) for setup in setups}
    assert mean(outcome.changed for outcome in outcomes.values()) <= 0.05
    if history >= 10:
        for between in (0.01, 0.02, 0.04):
            share = mean(outcome.covered for setup, outcome in outcomes.items() if setup.between == between)
            assert 0.92 <= share <= 0.98


@pytest.mark.parametrize("noise", ["skewed", "outlier", "autocorrelated"])
@pytest.mark.parametrize("history", [3, 10, 50])
def test_nor_with_unruly_repetitions(noise: Noise, history: int) -> None:
    outcomes = [
        simulate(Setup(within, between, repetitions, history, noise=noise), 40)
        for within in (0.003, 0.02)
        for between in (0.01, 0.02)
        for repetitions in (3, 5, 10)
    ]
    assert mean(outcome.changed for outcome in outcomes) <= 0.05
    assert mean(outcome.covered for outcome in outcomes) >= 0.92


def test_more_repetitions_make_no_false_verdict_more_likely() -> None:
    shares = [simulate(Setup(0.01, 0.02, repetitions, 0)).changed for repetitions in (3, 30)]
    assert max(shares) <= 0.05


@pytest.mark.parametrize("history", [0, 3, 10, 50])
def test_a_gain_of_15_percent_is_found_at_a_scatter_of_4_with_five_runs(history: int) -> None:
    setup = Setup(0.01, 0.04, 3, history, runs=5, decode_change=1.15)
    assert simulate(setup).decode_better >= 0.8


@pytest.mark.parametrize("within", [0.003, 0.01])
@pytest.mark.parametrize("history", [10, 50])
def test_a_gain_of_5_percent_is_found_at_a_scatter_of_half_a_percent_with_two_runs(within: float, history: int) -> None:
    setup = Setup(within, 0.005, 3, history, runs=2, decode_change=1.05)
    assert simulate(setup).decode_better >= 0.9


def test_the_number_of_runs_it_asks_for_settles_most_cases() -> None:
    source = np.random.default_rng(11)
    setup = Setup(0.01, 0.02, 3, 10, decode_change=1.06)
    asked = settled = 0
    for _ in range(100):
        needed = compared(source, setup)[HEADLINE_METRICS[2]].additional_runs_needed
        if needed is not None and needed <= 30:
            asked += 1
            longer = Setup(0.01, 0.02, 3, 10, runs=1 + needed, decode_change=1.06)
            settled += compared(source, longer)[HEADLINE_METRICS[2]].verdict is not Verdict.INCONCLUSIVE
    assert asked > 30
    assert settled / asked > 0.5
