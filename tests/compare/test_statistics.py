import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.compare.statistics import Ratio, Verdict, ratio

positive = st.floats(1e-3, 1e6)
samples = st.lists(positive, min_size=1, max_size=12)
TURNED = {
    Verdict.BETTER: Verdict.WORSE,
    Verdict.WORSE: Verdict.BETTER,
    Verdict.SAME: Verdict.SAME,
    Verdict.INCONCLUSIVE: Verdict.INCONCLUSIVE,
}


def is_at_an_edge(found: Ratio) -> bool:
    """Where rounding alone decides."""
    edges = (1.0, 1.03, 1 / 1.03)
    change = abs(math.log(found.value or 1))
    noises = [math.log1p(noise) for noise in (found.base_noise, found.other_noise) if noise is not None]
    ends = [end for end in (found.low, found.high) if end is not None]
    return any(math.isclose(end, edge, rel_tol=1e-6) for end in ends for edge in edges) or any(
        math.isclose(change, noise, rel_tol=1e-6, abs_tol=1e-9) for noise in noises
    )


@given(samples, samples)
def test_swapping_both_turns_ratio_interval_and_verdict_over(base: list[float], other: list[float]) -> None:
    there, back = ratio(base, other, "higher"), ratio(other, base, "higher")
    assume(not is_at_an_edge(there))
    assert there.value == pytest.approx(1 / (back.value or math.nan))
    assert there.verdict is not None
    assert back.verdict is TURNED[there.verdict]
    if there.low is not None and there.high is not None:
        assert there.low == pytest.approx(1 / (back.high or math.nan))
        assert there.high == pytest.approx(1 / (back.low or math.nan))
    assert there.outliers == back.outliers[::-1]


@given(samples, samples, st.floats(0.01, 100))
def test_another_unit_changes_nothing(base: list[float], other: list[float], factor: float) -> None:
    found = ratio(base, other, "higher")
    assume(not is_at_an_edge(found))
    scaled = ratio([factor * value for value in base], [factor * value for value in other], "higher")
    assert scaled.value == pytest.approx(found.value)
    assert scaled.verdict is found.verdict


@given(samples, samples)
def test_a_speed_and_its_time_per_token_have_one_verdict(base: list[float], other: list[float]) -> None:
    speed = ratio(base, other, "higher")
    # the middle of two inverses is not the inverse of the middle
    assume(not is_at_an_edge(speed) and len(base) % 2 and len(other) % 2)
    time = ratio([1 / value for value in base], [1 / value for value in other], "lower")
    assert time.verdict is speed.verdict


@given(st.lists(positive, min_size=3, max_size=12), st.lists(positive, min_size=3, max_size=12))
def test_an_interval_holds_its_ratio_and_better_is_beyond_both_noise_floors(
    base: list[float], other: list[float]
) -> None:
    found = ratio(base, other, "higher")
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value * (1 + 1e-9)
    assert found.value <= found.high * (1 + 1e-9)
    if found.verdict is Verdict.BETTER:
        assert found.low > 1
        assert found.value > 1 + max(found.base_noise or 0, found.other_noise or 0)


@pytest.mark.parametrize(
    ("base", "other", "better", "verdict"),
    [
        ([50.1, 49.8, 50.3], [55.2, 55.0, 54.7], "higher", Verdict.BETTER),
        ([50.1, 49.8, 50.3], [55.2, 55.0, 54.7], "lower", Verdict.WORSE),
        ([55.2, 55.0, 54.7], [50.1, 49.8, 50.3], "higher", Verdict.WORSE),
        ([100.0, 100.5, 99.6, 100.2], [100.3, 99.9, 100.1, 100.6], "higher", Verdict.SAME),
        # excludes 1, but one repetition differs from the next by more than that
        ([100, 106, 94, 103, 97, 100, 106, 94, 103, 97], [104, 110, 98, 107, 101] * 2, "higher", Verdict.INCONCLUSIVE),
        ([100.0, 120.0, 80.0], [110.0, 130.0, 90.0], "lower", Verdict.INCONCLUSIVE),
    ],
)
def test_verdicts(base: list[float], other: list[float], better: str, verdict: Verdict) -> None:
    assert ratio(base, other, better).verdict is verdict  # type: ignore[arg-type]  # parametrised with words


def test_a_change_within_the_scatter_is_not_settled_by_repeating() -> None:
    found = ratio([100, 110, 90, 105, 95], [104, 114, 94, 109, 99], "higher")
    assert (found.verdict, found.more) == (Verdict.INCONCLUSIVE, None)
    assert "would not settle it" in found.remark


def test_how_many_more_is_said() -> None:
    found = ratio([100, 103, 97, 101], [104, 107, 101, 106], "higher")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.more is not None
    assert f"About {found.more} more repetition" in found.remark


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.1]])
def test_fewer_than_three_have_a_ratio_but_no_interval(values: list[float]) -> None:
    found = ratio(values, [5.0, 5.1, 5.2, 5.3], "higher")
    assert found.value is not None
    assert (found.low, found.high) == (None, None)
    assert (found.verdict, found.more) == (Verdict.INCONCLUSIVE, 3 - len(values))
    assert "three repetitions" in found.remark


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_positive_number_has_no_ratio(wrong: float) -> None:
    for found in (ratio([wrong, 1, 2], [1, 2, 3], "higher"), ratio([1, 2, 3], [1, 2, wrong], "higher")):
        assert (found.value, found.verdict) == (None, None)
        assert "positive" in found.remark


def test_nothing_on_one_side() -> None:
    assert ratio([], [1.0, 2.0, 3.0], "higher").remark


def test_identical_values_have_an_interval_without_width() -> None:
    same, slower = ratio([7, 7, 7], [7, 7, 7], "lower"), ratio([7, 7, 7], [8, 8, 8], "lower")
    assert (same.verdict, same.low, same.high) == (Verdict.SAME, 1, 1)
    assert slower.verdict is Verdict.WORSE
    assert "no width" in same.remark


def test_an_outlier_is_flagged_and_still_counts() -> None:
    calm, wild = [100.0, 100.5, 99.5, 100.2, 99.9], [100.0, 100.5, 99.5, 100.2, 160.0]
    found = ratio(calm, wild, "lower")
    assert found.outliers == ((), (4,))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.high is not None
    assert found.high > 1.1
    assert "flagged" in found.remark


def test_units_other_than_repetitions() -> None:
    assert "more runs" in ratio([1.0], [1.1], "higher", unit="run").remark
