"""What the detection of level shifts promises, held against simulated series with known truth and fixed seeds."""

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.arrays import Floats
from app.results.history.changepoint import FALSE_ALARMS, LONGEST, MIN_RUNS, ChangePoint, _line_z, change_points
from app.stats.student import two_sided_p

Noise = Callable[[np.random.Generator, tuple[int, ...]], Any]
"""Values of mean 0 and standard deviation 1."""

REPETITIONS = 5
CV = 0.03
SERIES = 200

NOISES: dict[str, Noise] = {
    "normal": lambda chance, shape: chance.standard_normal(shape),
    "skewed": lambda chance, shape: 1 - chance.exponential(1, shape),
    "long-tailed": lambda chance, shape: chance.standard_t(3, shape) / math.sqrt(3),
    "now and then slow": lambda chance, shape: (0.1 - (chance.random(shape) < 0.1)) / 0.3,
}


def simulated(runs: int, seed: int, noise: str = "normal", between: float = 0.0) -> tuple[Floats, Floats]:
    """Means and deviations of the logarithms of SERIES x runs; `between` is the deviation of the runs' own levels."""
    chance = np.random.default_rng(seed)
    repetitions = np.log(1 + CV * NOISES[noise](chance, (SERIES, runs, REPETITIONS)).clip(-10, 10))
    levels = between * NOISES[noise](chance, (SERIES, runs))
    return repetitions.mean(axis=2) + levels, repetitions.std(axis=2, ddof=1)


def detected(means: Floats, deviations: Floats) -> list[list[ChangePoint]]:
    counts = [REPETITIONS] * means.shape[1]
    return [change_points(list(m), list(d), counts) for m, d in zip(means, deviations, strict=True)]


@pytest.mark.parametrize("runs", [3, 6, 10, 30, 200])
def test_the_same_distribution_repeated_200_times_gives_fewer_than_5_false_alarms(runs: int) -> None:
    assert sum(map(bool, detected(*simulated(runs, seed=runs)))) < 5


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("runs", [6, 30, 200])
def test_neither_skew_nor_tails_nor_what_servers_do_between_runs_gives_more(noise: str, runs: int) -> None:
    assert sum(map(bool, detected(*simulated(runs, seed=7, noise=noise, between=0.05)))) < 5


@pytest.mark.parametrize(("before", "after"), [(3, 3), (5, 5), (20, 3), (3, 20), (30, 30), (100, 100)])
@pytest.mark.parametrize("ratio", [0.9, 1.1])
def test_a_shift_by_a_tenth_is_found_in_at_least_95_of_100(before: int, after: int, ratio: float) -> None:
    """With a CV of 3 % and 5 repetitions for each run; found means once, at the run where it is."""
    means, deviations = simulated(before + after, seed=before)
    means[:, before:] += math.log(ratio)
    hits = [[point.index for point in points] == [before] for points in detected(means, deviations)]
    assert sum(hits) >= 0.95 * SERIES


def test_it_is_found_too_where_runs_differ_more_than_their_repetitions() -> None:
    means, deviations = simulated(40, seed=3, between=0.02)
    means[:, 20:] += math.log(0.9)
    near = [any(abs(point.index - 20) <= 1 for point in points) for points in detected(means, deviations)]
    assert sum(near) >= 0.95 * SERIES


def test_a_lone_run_is_no_level() -> None:
    """Wherever it stands, also as the newest one: which might be the first of a new level, and is not known to be."""
    chance = np.random.default_rng(4)
    means, deviations = simulated(50, seed=4)
    for series in means:
        series[chance.integers(50)] += chance.choice([-0.7, -0.2, 0.3])
    assert sum(map(bool, detected(means, deviations))) < 5
    means, deviations = simulated(50, seed=5)
    means[:, -1] -= 0.3
    assert sum(map(bool, detected(means, deviations))) < 5


def test_a_lone_run_hides_no_shift() -> None:
    means, deviations = simulated(30, seed=6)
    means[:, 15:] += math.log(0.9)
    means[:, 7] -= 0.5
    assert sum([point.index for point in points] == [15] for points in detected(means, deviations)) >= 0.95 * SERIES


def test_a_slow_spell_is_two_shifts() -> None:
    means, deviations = simulated(60, seed=8)
    means[:, 20:30] += math.log(0.9)
    assert sum([point.index for point in points] == [20, 30] for points in detected(means, deviations)) >= 0.95 * SERIES


def test_size_direction_and_interval_are_those_of_the_shift() -> None:
    means, deviations = simulated(40, seed=9)
    means[:, 20:] += math.log(0.9)
    points = [series_points[0] for series_points in detected(means, deviations)]
    assert all(point.low < point.ratio < point.high < 1 for point in points)
    assert all(point.change == pytest.approx(-0.1, abs=0.03) for point in points)
    assert 0.92 * SERIES <= sum(point.low <= 0.9 <= point.high for point in points) <= 0.99 * SERIES
    assert all(0 <= point.chance <= FALSE_ALARMS for point in points)


def test_a_small_shift_counts_as_the_same_however_clear() -> None:
    exact: list[float | None] = [0.0001] * 40
    assert change_points([0.0] * 20 + [0.02] * 20, exact, [5] * 40) == []
    (point,) = change_points([0.0] * 20 + [0.04] * 20, exact, [5] * 40)
    assert point.index == 20


def test_what_repetitions_allow_is_no_shift_however_equal_the_runs() -> None:
    means = [0.0, 0.0, 0.0, 0.1, 0.1, 0.1]
    assert change_points(means, [None] * 6, [1] * 6)
    assert not change_points(means, [0.2] * 6, [5] * 6)


def test_older_shifts_of_a_long_series_are_found() -> None:
    chance = np.random.default_rng(10)
    count = 5 * LONGEST
    means = 0.02 * chance.standard_normal(count)
    means[100:] += 0.1
    means[1000:] -= 0.2
    assert [point.index for point in change_points(list(means), [None] * count, [1] * count)] == [100, 1000]


@given(
    st.lists(st.floats(-20, 20), max_size=40),
    st.one_of(st.none(), st.floats(0, 3)),
    st.integers(1, 9),
)
def test_any_series_has_an_answer_that_is_in_order(means: list[float], deviation: float | None, count: int) -> None:
    points = change_points(means, [deviation] * len(means), [count] * len(means))
    bounds = [0, *(point.index for point in points), len(means)]
    assert not points or all(after - before >= MIN_RUNS for before, after in pairwise(bounds))
    assert all(0 < point.low <= point.ratio <= point.high and point.chance <= FALSE_ALARMS for point in points)


@given(st.lists(st.floats(-3, 3), min_size=6, max_size=40), st.floats(-5, 5))
def test_the_unit_of_a_metric_makes_no_difference(means: list[float], unit: float) -> None:
    shifted = [mean + unit for mean in means]
    points, again = (change_points(levels, [0.03] * len(means), [5] * len(means)) for levels in (means, shifted))
    assert [point.index for point in points] == [point.index for point in again]


@pytest.mark.parametrize("count", [8, 12, 30])
def test_how_clear_a_line_is_has_the_p_value_of_its_t(count: int) -> None:
    chance = np.random.default_rng(count)
    times = np.cumsum(chance.uniform(1, 9, count))
    for slope in np.linspace(0, 0.008, 12) / count:
        logs = slope * times + 0.02 * chance.standard_normal(count)
        fitted = np.polyval(np.polyfit(times, logs, 1), times)
        rest = float(np.sum((logs - fitted) ** 2)) / (count - 2)
        t = math.sqrt(float(np.sum((fitted - logs.mean()) ** 2)) / rest)
        z = NormalDist().inv_cdf(1 - two_sided_p(t, count - 2) / 2)
        assert _line_z(logs, times) == pytest.approx(z, rel=0.004, abs=0.004)
    assert _line_z(logs, np.full(count, 7.0)) == 0
