"""When a run is called an outlier: false alarms and what is found, against known truths."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.metrics import HEADLINE_METRICS, metrics
from app.stats.outliers import MIN_CHANGE, outliers

RUNS = 20_000
Noise = Callable[[np.random.Generator, tuple[int, ...]], Any]
NOISES: dict[str, Noise] = {
    "normal": lambda chance, shape: chance.normal(0, 1, shape),
    "skewed": lambda chance, shape: chance.exponential(1, shape),
    "skewed the other way": lambda chance, shape: -chance.exponential(1, shape),
}
FEW_AND_MANY = (2, 3, 4, 5, 8, 12, 20)


def false_alarms(noise: Noise, deviation_factor: float, others: int) -> float:
    """The share of runs that agree with the others and are called an outlier in any headline metric; their noise is as
    large as is assumed without a history, times a factor."""
    chance = np.random.default_rng(7)
    is_alarm = np.zeros(RUNS, dtype=bool)
    for key in HEADLINE_METRICS:
        assumed = metrics()[key].assumed_run_deviation
        rows = noise(chance, (RUNS, others + 1)) * assumed * deviation_factor
        is_alarm |= outliers(rows[:, 0], rows[:, 1:], assumed).is_outlier
    return float(is_alarm.mean())


@pytest.mark.parametrize("others", FEW_AND_MANY)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("deviation_factor", [0.2, 1, 2.5])
def test_fewer_than_one_run_in_100_is_a_false_alarm(noise: str, deviation_factor: float, others: int) -> None:
    assert false_alarms(NOISES[noise], deviation_factor, others) < 0.01


@pytest.mark.parametrize("others", FEW_AND_MANY)
def test_even_with_five_times_the_noise_that_is_assumed(others: int) -> None:
    assert false_alarms(NOISES["normal"], 5, others) < 0.01


@pytest.mark.parametrize(
    ("change", "deviation", "others", "at_least"),
    [
        (-0.45, 0.01, 2, 0.99),
        (-0.45, 0.02, 3, 0.98),
        (-0.45, 0.04, 20, 0.98),
        (-0.3, 0.01, 3, 0.95),
        (-0.2, 0.01, 8, 0.95),
        (-0.15, 0.01, 12, 0.95),
        (0.8, 0.02, 4, 0.98),
    ],
)
def test_a_wrong_run_is_found(change: float, deviation: float, others: int, at_least: float) -> None:
    chance = np.random.default_rng(7)
    rows = chance.normal(0, deviation, (RUNS, others + 1))
    compared = outliers(rows[:, 0] + math.log1p(change), rows[:, 1:], 0.02)
    assert compared.is_outlier.mean() >= at_least
    assert compared.others.tolist() == [others] * RUNS
    assert np.exp(compared.usual).mean() == pytest.approx(1, abs=0.01)


def one(value: float, *others: float) -> bool:
    return bool(outliers(np.log([value]), np.log([others]), 0.02).is_outlier[0])


def test_another_wrong_run_does_not_hide_it() -> None:
    calm = (100, 101, 99, 100.5, 99.5, 100, 101, 99)
    assert one(55, *calm)
    assert one(55, *calm, 54)  # a second one like it
    assert one(55, *calm, 20)  # one that is worse still
    assert one(55, *calm, 190)  # one on the other side


def test_a_run_that_two_others_agree_with_is_at_another_level() -> None:
    assert not one(55, 100, 101, 99, 100.5, 99.5, 54, 56)
    assert not one(55, 100, 99, 55)  # two against two decide nothing
    assert one(55, 100, 99)
    assert not one(75, 100, 99)  # a change that is not huge, against two


def test_noise_is_no_outlier_however_small() -> None:
    assert not one(100 * (1 - MIN_CHANGE / 2), *[100] * 12)
    assert one(80, *[100] * 12)
    assert not one(55, 100)


def test_others_that_are_missing_count_for_nothing() -> None:
    rows = np.log([[100, 101, 99, np.nan, np.nan], [np.nan] * 5])
    compared = outliers(np.log([50, 50]), rows, 0.02)
    assert compared.is_outlier.tolist() == [True, False]
    assert compared.others.tolist() == [3, 0]
    assert math.isnan(compared.usual[1])
    assert not outliers(np.array([np.nan]), np.log([[100, 101, 99]]), 0.02).is_outlier[0]


def test_what_repetitions_scatter_by_is_allowed_for() -> None:
    value, rows = np.log([60]), np.log([[100, 101, 99]])
    assert outliers(value, rows, 0.02, np.array([0.0])).is_outlier[0]
    assert not outliers(value, rows, 0.02, np.array([0.1**2])).is_outlier[0]


@given(st.floats(1, 1000), st.lists(st.floats(1, 1000), min_size=2, max_size=20))
def test_what_is_usual_is_one_of_the_others_or_between_two(value: float, others: list[float]) -> None:
    compared = outliers(np.log([value]), np.log([others]), 0.03)
    assert 0 <= compared.others[0] <= len(others)
    if compared.is_outlier[0]:
        assert compared.others[0] >= len(others) - 1
        assert min(others) * (1 - 1e-9) <= math.exp(compared.usual[0]) <= max(others) * (1 + 1e-9)
        assert abs(value / math.exp(compared.usual[0]) - 1) >= MIN_CHANGE * 0.9
