"""Medians of runs, and the scatter between runs."""

import math
from statistics import median, stdev, variance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.stats.runs import RunMedian, median_variance, run_median, run_scatter

SPEEDS = st.lists(st.floats(1, 1e4), min_size=1, max_size=12)


def of(*values: float, concurrency: int = 1) -> RunMedian:
    deviation = stdev(values) if len(values) > 1 else None
    return run_median(median(values), deviation, min(values), max(values), len(values), concurrency)


def runs(*values: float, spread: float = 0.01) -> list[RunMedian]:
    """Runs of five repetitions."""
    return [RunMedian(math.log(value), 5, spread**2) for value in values]


def test_a_run_is_its_median_and_the_variance_of_its_repetitions() -> None:
    run = of(98, 99, 100, 101, 102)
    assert run.log_value == pytest.approx(math.log(100))
    assert run.repetitions == 5
    assert run.repetition_variance == pytest.approx(variance((98, 99, 100, 101, 102)) / 100**2)


def test_a_single_repetition_says_nothing_about_scatter() -> None:
    assert of(100) == RunMedian(math.log(100), 1)


def test_streams_of_a_round_are_one_repetition() -> None:
    assert of(98, 99, 100, 101, 102, 103, concurrency=2).repetitions == 3


def test_an_outlier_counts_for_less_and_widens_nothing() -> None:
    run, calm = of(99, 100, 101, 100, 160), of(99, 100, 101, 100)
    assert run.repetitions == 3
    assert run.repetition_variance == pytest.approx(calm.repetition_variance, rel=0.05)
    assert of(99, 100, 160).repetitions == 3  # among three nobody knows which one is off


@given(SPEEDS)
def test_any_summary_gives_finite_numbers(values: list[float]) -> None:
    run = of(*values)
    assert math.isfinite(run.log_value)
    assert run.repetition_variance is None or 0 <= run.repetition_variance < math.inf
    assert run.repetitions >= 1


@pytest.mark.parametrize("count", range(1, 16))
def test_the_variance_of_a_median(count: int) -> None:
    draws = np.random.default_rng(count).standard_normal((40_000, count))
    assert median_variance(count) == pytest.approx(np.var(np.median(draws, axis=1)), rel=0.03)


def test_without_history_the_assumption_counts() -> None:
    scatter = run_scatter([], 0.02, compared=runs(50, 51))
    assert (scatter.between_variance, scatter.degrees_of_freedom) == (0.02**2, 4)
    assert (scatter.history_deviation, scatter.assumed_deviation, scatter.runs) == (None, 0.02, 0)


def test_a_history_replaces_the_assumption() -> None:
    values = 50 * np.exp(0.01 * np.random.default_rng(3).standard_normal((2, 50)))
    scatter = run_scatter([runs(*group, spread=1e-6) for group in values.tolist()], 0.02)
    assert scatter.assumed_deviation is None
    assert scatter.degrees_of_freedom == 98
    assert scatter.history_deviation == pytest.approx(0.01, rel=0.15)
    assert (scatter.configurations, scatter.runs) == (2, 100)


def test_a_short_history_is_combined_with_it() -> None:
    scatter = run_scatter([runs(50, 50, 50, spread=0)], 0.02)
    assert scatter.between_variance == pytest.approx(3 * 0.02**2 / 5)
    assert (scatter.degrees_of_freedom, scatter.assumed_deviation, scatter.history_deviation) == (5, 0.02, 0)


def test_repetitions_are_no_part_of_the_scatter_between_runs() -> None:
    source = np.random.default_rng(4)
    groups = [[of(*(50 * np.exp(0.02 * source.standard_normal(5)))) for _ in range(40)]]
    scatter = run_scatter(groups, 0.02)
    assert scatter.history_deviation is not None
    assert scatter.history_deviation < 0.006
    assert scatter.repetition_variance == pytest.approx(0.02**2, rel=0.3)


def test_differences_between_configurations_are_none_between_runs() -> None:
    scatter = run_scatter([runs(50, 50.1, 49.9), runs(500, 501, 499)], 0.02)
    assert scatter.history_deviation is not None
    assert scatter.history_deviation < 0.002


def test_a_run_that_stands_off_alone_is_left_out() -> None:
    scatter = run_scatter([runs(50, 50.2, 49.9, 50.1, 49.8, 50.3, 20)], 0.02)
    assert scatter.runs == 6
    assert scatter.history_deviation is not None
    assert scatter.history_deviation < 0.005


def test_a_run_noisier_than_chance_allows_counts_with_its_own_noise() -> None:
    scatter = run_scatter([runs(*[50] * 10)], 0.02)
    calm, noisy = (RunMedian(math.log(50), 5, deviation**2) for deviation in (0.012, 0.08))
    assert scatter.variance_of_median(calm) == pytest.approx(scatter.variance_of_median(runs(50)[0]))
    assert scatter.variance_of_median(noisy) > 0.06**2 * median_variance(5)
