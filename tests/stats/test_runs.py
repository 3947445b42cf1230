"""Medians of runs, and the scatter between runs."""

import math
from dataclasses import replace
from statistics import fmean, median, stdev, variance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.stats.runs import RunMedian, RunScatter, median_variance, run_median, run_scatter
from app.stats.student import t_quantile

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


def leaves_out(values: list[float], place: int) -> bool:
    """Whether a value is further from the others than twice their 95 % prediction interval reaches."""
    rest = values[:place] + values[place + 1 :]
    reach = t_quantile(len(rest) - 1) * math.sqrt(variance(rest) * (1 + 1 / len(rest)))
    return abs(values[place] - fmean(rest)) > 2 * reach


@pytest.mark.parametrize("count", [5, 6, 7, 9])
def test_a_run_stands_off_alone_by_what_the_others_predict(count: int) -> None:
    source, left_out = np.random.default_rng(count), 0
    for _ in range(60):
        logs = [0.01 * value for value in source.standard_normal(count).tolist()]
        logs[-1] += source.uniform(0, 0.12)
        remaining = sum(not leaves_out(logs, place) for place in range(count)) if count >= 6 else count
        scatter = run_scatter([[RunMedian(value, 5, 1e-8) for value in logs]], 0.02)
        assert scatter.runs == remaining
        left_out += count - remaining
    assert (left_out > 10) == (count >= 6)


@pytest.mark.parametrize(
    ("deviation", "minimum", "maximum", "repetitions", "rounds"),
    [
        # a distance of 10 in a deviation s: of the others 4 s^2 - 0.8 x 10^2 over 3 degrees of freedom, so that
        # 10 = 2 x 3.182 x sqrt(1.25 x others) at s = 4.635
        (4.63, 99, 110, 5, 3),
        (4.64, 99, 110, 5, 5),
        (4.63, 90, 101, 5, 3),
        (4.64, 90, 101, 5, 5),
        # 3 s^2 - 0.75 x 10^2 over 2 degrees of freedom: 10 = 2 x 4.303 x sqrt(4/3 x others) at s = 5.067
        (5.06, 99, 110, 4, 2),
        (5.08, 99, 110, 4, 4),
        (5.06, 99, 110, 3, 3),
    ],
)
def test_from_where_on_a_repetition_is_an_outlier(
    deviation: float, minimum: float, maximum: float, repetitions: int, rounds: int
) -> None:
    run = run_median(100, deviation, minimum, maximum, repetitions)
    assert run.repetitions == rounds
    if rounds == repetitions:
        assert run.repetition_variance == pytest.approx((deviation / 100) ** 2)
    else:
        share = (repetitions - 1) / repetitions
        rest = ((repetitions - 1) * deviation**2 - share * 100) / (repetitions - 2) / 100**2
        assert run.repetition_variance == pytest.approx(rest)


def test_a_summary_without_a_deviation_says_nothing_about_scatter() -> None:
    assert run_median(100, None, 90, 110, 5) == RunMedian(math.log(100), 5)
    assert run_median(100, 0.0, 100, 100, 1) == RunMedian(math.log(100), 1)
    assert run_median(100, 2.0, None, None, 5) == RunMedian(math.log(100), 5, 0.02**2)
    assert run_median(100, 2.0, 98, 102, 2) == RunMedian(math.log(100), 2, 0.02**2)
    assert RunMedian(0.0, 5).variance_of_median is None
    assert RunMedian(0.0, 2, 0.01).variance_of_median == 0.005


@pytest.mark.parametrize(("repetitions", "freedom"), [(2, 1), (3, 2), (5, 4)])
def test_the_usual_variance_is_a_mean_and_not_a_median(repetitions: int, freedom: int) -> None:
    """The median of a chi-square lies below its mean, by (1 - 2 / 9 k) to the third for k degrees of freedom."""
    scatter = run_scatter([], 0.02, compared=[RunMedian(0.0, repetitions, 1e-4)])
    assert scatter.repetition_variance == pytest.approx(1e-4 / (1 - 2 / (9 * freedom)) ** 3)


def test_history_and_assumption_add_up() -> None:
    """Groups of 2 and 3 runs, 3 degrees of freedom of 8: the assumption of 2 % is worth 4 x 5/8 = 2.5 of them."""
    groups = [[RunMedian(value, 1) for value in (0.0, 0.02)], [RunMedian(value, 1) for value in (1.0, 1.03, 1.06)]]
    scatter = run_scatter(groups, 0.02)
    square = (0.0002 + 0.0018) / 3
    assert scatter.history_deviation == pytest.approx(math.sqrt(square))
    assert scatter.degrees_of_freedom == 5.5
    assert scatter.between_variance == pytest.approx((2.5 * 0.02**2 + 3 * square) / 5.5)
    assert (scatter.configurations, scatter.runs, scatter.repetition_variance) == (2, 5, None)
    assert scatter.assumed_deviation == 0.02
    # with repetitions, what they explain is taken off: variance 0.0002 of one, times its median's, times a chi-square's
    noisy = [[replace(run, repetition_variance=2e-4, repetitions=2) for run in group] for group in groups]
    usual = 2e-4 / (1 - 2 / 9) ** 3
    less = run_scatter(noisy, 0.02)
    assert less.repetition_variance == pytest.approx(usual)
    assert less.history_deviation == pytest.approx(math.sqrt(square - usual / 2))
    assert run_scatter([[run] for group in groups for run in group], 0.02).runs == 0  # one of each tells nothing


@pytest.mark.parametrize(("freedom", "is_full"), [(7, False), (8, True), (9, True)])
def test_a_history_of_eight_degrees_needs_no_assumption(freedom: int, is_full: bool) -> None:
    """Three runs at most in a group, of which none can stand off."""
    sizes = [3] * (freedom // 2) + [2] * (freedom % 2)
    scatter = run_scatter([[RunMedian(0.01 * place, 1) for place in range(size)] for size in sizes], 0.02)
    assert (scatter.assumed_deviation is None) is is_full
    assert scatter.degrees_of_freedom == (freedom if is_full else 7.5)


def test_a_history_elsewhere_is_one_only_where_there_is_any() -> None:
    assert run_scatter([runs(50, 51)], 0.02, is_elsewhere=True).is_elsewhere
    assert not run_scatter([], 0.02, is_elsewhere=True).is_elsewhere
    assert not run_scatter([runs(50, 51)], 0.02).is_elsewhere


def test_whose_repetitions_count() -> None:
    """The usual ones, unless chance gives as many as rarely as once in a thousand.

    Chi-squares of 1 and 4 degrees of freedom are 10.83 and 18.47 there, here within 4 %.
    """
    scatter = RunScatter(1e-4, 10, 1e-4, None)
    share = median_variance(5)
    few = RunMedian(0.0, 2, 11.3e-4), RunMedian(0.0, 2, 10.8e-4)
    assert [scatter.variance_of_median(run) for run in few] == pytest.approx([1e-4 + 5.65e-4, 1e-4 + 0.5e-4])
    for times, factor in ((0.1, 1), (18.3 / 4, 1), (18.9 / 4, 18.9 / 4)):
        run = RunMedian(0.0, 5, times * 1e-4)
        assert scatter.variance_of_median(run) == pytest.approx(1e-4 + factor * 1e-4 * share)
    unknown = RunScatter(1e-4, 10, None, None)
    assert unknown.variance_of_median(RunMedian(0.0, 5, 3e-4)) == pytest.approx(1e-4 + 3e-4 * share)
    assert unknown.variance_of_median(RunMedian(0.0, 1)) == 1e-4
