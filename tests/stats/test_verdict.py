"""Ratios and verdicts: their symmetry, their order, and what would settle them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.stats.runs import RunMedian, RunScatter, run_scatter
from app.stats.verdict import Ratio, Result, Verdict, judge, overall, runs_needed

STEADY = RunScatter(0.005**2, 20, 1e-6, None)


def result(*speeds: float, scatter: RunScatter = STEADY, repetitions: int = 5) -> Result:
    variance = scatter.repetition_variance
    return Result([RunMedian(math.log(speed), repetitions, variance) for speed in speeds], scatter)


def alone(base: Result, compared: Result, same_within: float = 0.03) -> Ratio:
    return judge({"decode": (base, compared)}, {"decode": "higher"}, same_within)["decode"]


SIDES = st.lists(st.floats(10, 1000), min_size=1, max_size=6)
SCATTERS = st.builds(RunScatter, st.floats(0, 0.01), st.floats(1, 50), st.floats(0, 0.01), st.none())


@given(SIDES, SIDES, SCATTERS)
def test_swapping_the_sides_inverts_the_ratio_and_the_verdict(
    base: list[float], compared: list[float], scatter: RunScatter
) -> None:
    forward, back = (
        alone(result(*left, scatter=scatter), result(*right, scatter=scatter))
        for left, right in ((base, compared), (compared, base))
    )
    opposite = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
    assert back.verdict is opposite.get(forward.verdict, forward.verdict)
    assert back.value == pytest.approx(1 / forward.value)
    assert back.low == pytest.approx(1 / forward.high)
    assert back.high == pytest.approx(1 / forward.low)
    assert forward.low <= forward.value <= forward.high


def test_what_is_better_depends_on_the_metric() -> None:
    pair = result(50), result(60)
    judged = judge({"decode": pair, "ttft": pair}, {"decode": "higher", "ttft": "lower"})
    assert [judged[key].verdict for key in judged] == [Verdict.BETTER, Verdict.WORSE]


@pytest.mark.parametrize("change", [1.0001, 1.01, 0.99])
def test_same_comes_first_however_certain_the_difference(change: float) -> None:
    certain = RunScatter(1e-12, 100, 0.0, None)
    ratio = alone(result(50, scatter=certain), result(50 * change, scatter=certain))
    assert ratio.verdict is Verdict.SAME
    assert ratio.p_value < 1e-6
    strict = alone(result(50, scatter=certain), result(50 * change, scatter=certain), 0.00001)
    assert strict.verdict is (Verdict.BETTER if change > 1 else Verdict.WORSE)


def test_figures_without_any_scatter() -> None:
    exact = RunScatter(0, 100, 0, None)
    assert alone(result(50, scatter=exact), result(50, scatter=exact)).verdict is Verdict.SAME
    assert alone(result(50, scatter=exact), result(60, scatter=exact)).verdict is Verdict.BETTER


def test_more_repetitions_do_not_narrow_the_interval_beyond_the_scatter_of_runs() -> None:
    few, many = (alone(result(50, repetitions=n), result(51, repetitions=n)) for n in (3, 1000))
    assert many.high / many.low > 1.02
    assert few.high / few.low == pytest.approx(many.high / many.low, rel=0.01)


def test_more_runs_do() -> None:
    single, five = (alone(result(*[50] * n), result(*[51] * n)) for n in (1, 5))
    assert math.log(five.high / five.low) < 0.6 * math.log(single.high / single.low)


def test_three_looks_are_corrected() -> None:
    """A p-value of 0.03 is enough alone, and not beside two others that say nothing."""
    same = result(50), result(50 * 1.000001)
    pair = result(50), result(50 * 1.0165)
    assert 0.02 < alone(*pair, 0.01).p_value < 0.05
    assert alone(*pair, 0.01).verdict is Verdict.BETTER
    together = judge({"a": pair, "b": same, "c": same}, dict.fromkeys("abc", "higher"), 0.01)
    assert together["a"].verdict is Verdict.INCONCLUSIVE
    assert together["a"].low > 1  # the interval is that of the one metric


def test_holm_steps_down() -> None:
    """The clear one is rejected at a third of the level, the next one at a half."""
    clear, next_one = (result(50), result(60)), (result(50), result(50 * 1.0185))
    assert 0.05 / 3 < alone(*next_one, 0.01).p_value < 0.05 / 2
    judged = judge({"a": next_one, "b": clear, "c": (result(50), result(50))}, dict.fromkeys("abc", "higher"), 0.01)
    assert [judged[key].verdict for key in "ab"] == [Verdict.BETTER, Verdict.BETTER]
    without = judge(
        {"a": next_one, "b": (result(50), result(50)), "c": (result(50), result(50))},
        dict.fromkeys("abc", "higher"),
        0.01,
    )
    assert without["a"].verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("verdicts", "word"),
    [
        ([], None),
        ([Verdict.SAME, Verdict.SAME], Verdict.SAME),
        ([Verdict.SAME, Verdict.INCONCLUSIVE], Verdict.INCONCLUSIVE),
        ([Verdict.SAME, Verdict.INCONCLUSIVE, Verdict.BETTER], Verdict.BETTER),
        ([Verdict.WORSE, Verdict.SAME], Verdict.WORSE),
        ([Verdict.WORSE, Verdict.BETTER, Verdict.SAME], Verdict.MIXED),
    ],
)
def test_one_word_for_several(verdicts: list[Verdict], word: Verdict | None) -> None:
    assert overall(verdicts) is word


def test_unlike_machines_have_their_own_scatter() -> None:
    wild = RunScatter(0.1**2, 4, 1e-6, None)
    mixed = alone(result(50), result(60, scatter=wild))
    assert alone(result(50), result(60)).verdict is Verdict.BETTER
    assert mixed.verdict is Verdict.INCONCLUSIVE
    calm_twice = alone(result(50, scatter=wild), result(60, scatter=wild))
    assert mixed.high / mixed.low < calm_twice.high / calm_twice.low


def test_what_would_settle_it_says_runs() -> None:
    scatter = run_scatter([], 0.02)
    base, compared = result(50, scatter=scatter), result(53, scatter=scatter)
    ratio = alone(base, compared)
    assert ratio.verdict is Verdict.INCONCLUSIVE
    assert ratio.additional_runs_needed == runs_needed(base, compared)
    assert ratio.additional_runs_needed is not None
    more = 1 + ratio.additional_runs_needed
    settled = RunScatter(0.02**2, 4 + 2 * ratio.additional_runs_needed, 1e-6, None)
    assert alone(result(*[50] * more, scatter=settled), result(*[53] * more, scatter=settled)).verdict is Verdict.BETTER
    assert runs_needed(base, compared, looks=3) > ratio.additional_runs_needed  # type: ignore[operator]  # neither is None


def test_nobody_wants_to_know_a_number_beyond_a_hundred() -> None:
    wild = RunScatter(1.0, 4, 1e-6, None)
    assert alone(result(50, scatter=wild), result(51, scatter=wild), 0.001).additional_runs_needed is None
