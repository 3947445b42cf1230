"""Shifts, drifts and autocorrelated noise told apart: simulated series with known truth and fixed seeds."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.arrays import Floats
from app.results.history.changepoint import Development, change_points, development
from app.results.history.levels import choose

SERIES = 200
WITHIN = 0.002
"""Deviation of a run's repetitions: less than what the runs differ by."""


def developments(series: Floats) -> list[Development]:
    count = series.shape[1]
    return [development(levels, [WITHIN] * count, [5] * count) for levels in series]


def independent(runs: int, noise: float, seed: int = 1) -> Any:
    return noise * np.random.default_rng(seed).standard_normal((SERIES, runs))


def autocorrelated(runs: int, noise: float, coefficient: float = 0.7) -> Any:
    """AR(1), `noise` the deviation of its values."""
    chance = np.random.default_rng(runs + 1).standard_normal((2 * SERIES, runs))
    values = chance.copy()
    for place in range(1, runs):
        values[:, place] = coefficient * values[:, place - 1] + math.sqrt(1 - coefficient**2) * chance[:, place]
    return noise * values


@pytest.mark.parametrize("noise", [0.015, 0.05])
@pytest.mark.parametrize("runs", [6, 10, 20, 50, 150])
def test_autocorrelated_noise_shows_a_shift_or_a_drift_in_at_most_5_of_100_series(runs: int, noise: float) -> None:
    series = developments(autocorrelated(runs, noise))
    assert sum(bool(development.points) for development in series) <= 0.05 * len(series)
    assert sum(development.drift is not None for development in series) <= 0.05 * len(series)


@pytest.mark.parametrize("noise", [0.01, 0.03])
@pytest.mark.parametrize("runs", [6, 10, 20, 50, 150])
def test_independent_noise_shows_neither_in_more_than_2_of_100(runs: int, noise: float) -> None:
    series = developments(independent(runs, noise))
    assert sum(bool(development.points or development.drift) for development in series) <= 0.02 * SERIES


@pytest.mark.parametrize(
    ("ratio", "noise", "side"),
    [(0.92, 0.01, 5), (0.9, 0.015, 5), (0.92, 0.02, 12), (0.9, 0.02, 8), (1.1, 0.01, 5), (0.9, 0.02, 40)],
)
def test_a_shift_is_found_in_at_least_90_of_100_series_and_is_no_drift(ratio: float, noise: float, side: int) -> None:
    values = independent(2 * side, noise)
    values[:, side:] += math.log(ratio)
    series = developments(values)
    assert (
        sum(len(development.points) == 1 and abs(development.points[0].index - side) <= 1 for development in series)
        >= 0.9 * SERIES
    )
    assert sum(development.drift is not None for development in series) <= 0.03 * SERIES


@pytest.mark.parametrize(
    ("ratio", "noise", "runs"), [(0.9, 0.01, 10), (0.8, 0.01, 20), (1.1, 0.01, 30), (0.9, 0.02, 50), (0.8, 0.02, 150)]
)
def test_a_slow_drift_is_one_with_its_size_and_no_shift(ratio: float, noise: float, runs: int) -> None:
    series = developments(independent(runs, noise) + math.log(ratio) * np.linspace(0, 1, runs))
    drifts = [development.drift for development in series if development.drift is not None]
    assert len(drifts) >= 0.9 * SERIES
    assert sum(bool(development.points) for development in series) <= 0.03 * SERIES
    assert np.mean([drift.ratio for drift in drifts]) == pytest.approx(ratio, abs=0.01)
    assert sum(drift.low <= ratio <= drift.high for drift in drifts) >= 0.9 * len(drifts)


def test_a_shift_of_a_series_that_drifts_is_found_beside_the_drift() -> None:
    runs = 60
    values = independent(runs, 0.01) - 0.1 * np.linspace(0, 1, runs)
    values[:, 40:] += 0.2
    both = [
        development
        for development in developments(values)
        if development.drift is not None and [abs(point.index - 40) <= 1 for point in development.points] == [True]
    ]
    assert len(both) >= 0.9 * SERIES
    assert np.mean([development.points[0].ratio for development in both]) == pytest.approx(math.exp(0.2), abs=0.02)


def test_a_drift_goes_by_the_time_between_runs_and_not_by_their_number() -> None:
    """Ten runs in the first hours and ten over a month, which lost 10 % evenly."""
    days = [*np.linspace(0, 0.3, 10), *np.linspace(3, 30, 10)]
    (noise, *_) = independent(20, 0.005)
    levels = noise + math.log(0.9) * np.array(days) / 30
    series_development = development(levels, [WITHIN] * 20, [5] * 20, days)
    assert series_development.points == []
    assert series_development.drift is not None
    assert series_development.drift.ratio == pytest.approx(0.9, abs=0.02)


def test_a_drift_smaller_than_what_counts_as_the_same_is_none() -> None:
    exact = [0.0005] * 40
    assert development(np.linspace(0, 0.02, 40), exact, [5] * 40).drift is None
    assert development(np.linspace(0, 0.04, 40), exact, [5] * 40).drift is not None


def test_runs_of_one_moment_have_no_slope() -> None:
    (noise, *_) = independent(12, 0.01)
    assert development(noise - np.linspace(0, 0.2, 12), [WITHIN] * 12, [5] * 12, [1.0] * 12).drift is None


@given(
    st.lists(st.floats(-3, 3), min_size=6, max_size=30),
    st.floats(-5, 5),
    st.floats(0, 1e5),
    st.floats(1e-3, 1e3),
)
def test_neither_the_unit_of_the_metric_nor_that_of_time_makes_a_difference(
    values: list[float], unit: float, start: float, pace: float
) -> None:
    count = len(values)
    rounded = np.round(values, 3)
    first = development(rounded, [0.03] * count, [5] * count)
    again = development(rounded + round(unit, 3), [0.03] * count, [5] * count, start + pace * np.arange(count))
    assert [point.index for point in again.points] == [point.index for point in first.points]
    assert (first.drift is None) is (again.drift is None)
    if first.drift and again.drift:
        assert again.drift.ratio == pytest.approx(first.drift.ratio, rel=1e-6)
        assert first.drift.low <= first.drift.ratio <= first.drift.high


@given(st.lists(st.floats(-3, 3), min_size=6, max_size=40), st.sets(st.integers(1, 39)))
def test_the_model_that_is_chosen_has_steps_from_the_list_only(values: list[float], places: set[int]) -> None:
    cuts = sorted(place for place in places if place < len(values))
    best = choose(np.array(values), np.arange(len(values), dtype=float), cuts, 1e-6)
    assert set(best.cuts) <= set(cuts)
    assert list(best.cuts) == sorted(best.cuts)
    assert 0 <= best.autocorrelation < 1
    assert best.slope_error >= 0


@pytest.mark.parametrize("n_runs", [2, 3, 4, 6, 9])
@pytest.mark.parametrize("gap_days", [0.0, 1.0, 400.0])
def test_a_step_at_every_run_or_a_line_along_the_steps_breaks_no_history(n_runs: int, gap_days: float) -> None:
    """More parameters than runs, and runs on two days alone, so that a line is a step."""
    times = np.where(np.arange(n_runs) < n_runs // 2, 0.0, gap_days)
    for levels in (np.zeros(n_runs), np.arange(n_runs) / 100):
        best = choose(levels, times, range(1, n_runs), 1e-6)
        assert set(best.cuts) <= set(range(1, n_runs))
        assert np.isfinite([best.slope, best.slope_error]).all()


def test_change_points_are_those_of_the_development() -> None:
    (noise, *_) = independent(20, 0.01)
    noise[10:] -= 0.1
    assert change_points(noise, [WITHIN] * 20, [5] * 20) == development(noise, [WITHIN] * 20, [5] * 20).points
