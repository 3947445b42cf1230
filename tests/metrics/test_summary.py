import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.metrics.summary import difference_interval, summarise

values = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=40)


@given(values)
def test_a_summary_is_in_order(sample_values: list[float]) -> None:
    summary = summarise(sample_values)
    assert summary.minimum <= summary.median <= summary.maximum
    assert summary.count == len(sample_values)
    assert (summary.low is None) == (len(sample_values) < 3)
    if summary.low is not None and summary.high is not None:
        assert 0 < summary.low <= summary.high
    assert (summary.standard_deviation is None) == (len(sample_values) == 1)


@given(values.filter(lambda sample_values: len(sample_values) >= 3))
def test_a_speed_and_its_inverse_have_the_same_interval(sample_values: list[float]) -> None:
    speed, time = summarise(sample_values), summarise([1 / value for value in sample_values])
    assert speed.low is not None
    assert time.high is not None
    assert speed.low == pytest.approx(1 / time.high, rel=1e-6)


@pytest.mark.parametrize("repetitions", [3, 5, 10])
@pytest.mark.parametrize("skewed", [False, True])
def test_the_interval_covers_the_truth_in_95_of_100_cases(repetitions: int, skewed: bool) -> None:
    source = random.Random(f"{repetitions} {skewed}")
    truth, rounds, hits = 50.0, 4000, 0
    for _ in range(rounds):
        if skewed:
            drawn = [truth * math.exp(source.gauss(0, 0.1)) for _ in range(repetitions)]
        else:
            drawn = [source.gauss(truth, 2.5) for _ in range(repetitions)]
        summary = summarise(drawn)
        assert summary.low is not None
        assert summary.high is not None
        hits += summary.low <= truth <= summary.high
    assert 0.93 <= hits / rounds <= 0.97


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=12))
def test_no_values_are_too_large_or_too_small(sample_values: list[float]) -> None:
    summary = summarise(sample_values)
    numbers = [summary.median, summary.low, summary.high, summary.standard_deviation]
    assert all(number is None or math.isfinite(number) for number in numbers)


@given(
    values.filter(lambda sample_values: len(sample_values) >= 3) | st.floats(1e-3, 1e6).map(lambda value: [value] * 5)
)
def test_the_interval_holds_the_median(sample_values: list[float]) -> None:
    summary = summarise(sample_values)
    assert summary.low is not None
    assert summary.high is not None
    assert summary.low <= summary.median <= summary.high


def test_a_median_far_from_the_mean_is_inside_too() -> None:
    summary = summarise([100.0] * 60 + [400.0] * 40)
    assert summary.low == summary.median == 100


def test_a_difference_has_welchs_interval() -> None:
    # computed by hand: variances 1 and 4, n = 3 each, so the error is sqrt(5/3) and the freedom 2.94
    low, high = difference_interval([9, 10, 11], [18, 20, 22]) or (0, 0)
    assert (low + high) / 2 == pytest.approx(10)
    assert (high - low) / 2 == pytest.approx(4.303 * math.sqrt(5 / 3), rel=1e-3)
    # errors 1/3 and 2/5: (11/15)² / ((1/3)² / 2 + (2/5)² / 4) = 5.6 degrees of freedom
    low, high = difference_interval([9, 10, 11], [18, 20, 22, 20, 20]) or (0, 0)
    half = 2.571 * math.sqrt(11 / 15)
    assert (low, high) == pytest.approx((10 - half, 10 + half), rel=1e-3)
    assert difference_interval([18, 20, 22, 20, 20], [9, 10, 11]) == pytest.approx((-high, -low))
    assert difference_interval([1, 2], [3, 4, 5]) is None
    assert difference_interval([1, 2, 3], [3, 4]) is None
    assert difference_interval([1, 1, 1], [3, 3, 3]) == (2, 2)


def test_zeros_and_negatives_do_not_break_it() -> None:
    summary = summarise([-1.0, 0.0, 1.0])
    assert summary.low is not None
    assert summary.low < statistics.fmean([-1, 0, 1]) < (summary.high or 0)
