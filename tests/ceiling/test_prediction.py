"""Predictions on published results: each from two others of its device."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ceiling.bytes_per_step import step
from app.ceiling.efficiency import published_rows
from app.ceiling.prediction import INSIDE, Case, MeasuredCase, predict
from tests.ceiling.published_rows import geometry_of, of_catalogue

A100 = Case(4_690_000_000, 32, 2e12, "Llama-3-8B", "Q4_K_M")


def measured_cases() -> dict[str, list[MeasuredCase]]:
    """All published decode speeds on a single device whose model is known, by device."""
    by_device: dict[str, list[MeasuredCase]] = defaultdict(list)
    for row in published_rows():
        if (measured := _measured_case(row)) is not None:
            by_device[row["device"]].append(measured)
    return {device: cases for device, cases in by_device.items() if len({case.case for case in cases}) >= 3}


def _measured_case(row: Mapping[str, str]) -> MeasuredCase | None:
    geometry = geometry_of(row)
    is_several = " + " in row["device"] or row["device"].endswith((" x2", " x4")) or row["device_class"] == "cpu"
    if geometry is None or is_several or not row["decode_tokens_per_s"] or not geometry.blocks:
        return None
    read = step(geometry, int(row["depth"] or 0) + 64)
    assert read is not None
    bandwidth = of_catalogue(row).bandwidth_bytes_per_s
    case = Case(read.n_bytes, geometry.blocks, bandwidth, row["model"], row["quantization"])
    return MeasuredCase(case, float(row["decode_tokens_per_s"]))


def attempts(count: int) -> Iterator[tuple[str, bool, float]]:
    """Each published result predicted from `count` others of its device: whether it lay inside, and the error."""
    for device, cases in measured_cases().items():
        for target in cases:
            others = [measured for measured in cases if measured.case != target.case]
            for evidence in itertools.combinations(others, count):
                if len({measured.case for measured in evidence}) == count:
                    prediction = predict(target.case, evidence)
                    assert prediction is not None
                    error = abs(math.log(prediction.steps_per_s / target.steps_per_s))
                    yield device, prediction.contains(target.steps_per_s), error


@pytest.mark.parametrize("count", [1, 2])
def test_nine_of_ten_published_results_lie_inside_what_others_of_their_device_predict(count: int) -> None:
    outcomes = list(attempts(count))
    assert len(outcomes) > 100
    assert sum(is_inside for _, is_inside, _ in outcomes) / len(outcomes) >= INSIDE
    by_device: dict[str, list[bool]] = defaultdict(list)
    for device, is_inside, _ in outcomes:
        by_device[device].append(is_inside)
    assert len(by_device) >= 6
    shares = [sum(inside) / len(inside) for inside in by_device.values()]
    assert sum(shares) / len(shares) >= INSIDE, by_device


def test_the_median_error_from_two_results_is_below_eight_percent() -> None:
    errors = sorted(error for _, _, error in attempts(2))
    assert errors[len(errors) // 2] < 0.08


def test_nothing_is_predicted_from_nothing() -> None:
    assert predict(A100, []) is None


def test_the_same_quantization_predicts_better_than_another() -> None:
    def width(quantization: str) -> float:
        prediction = predict(A100, [MeasuredCase(Case(15 * 10**9, 48, 2e12, "other", quantization), 80.0)])
        assert prediction is not None
        return prediction.high / prediction.low

    assert width("Q4_K_M") < width("F16")


@given(
    st.lists(st.tuples(st.floats(1e8, 1e12), st.integers(0, 200), st.floats(0.1, 2000)), min_size=1, max_size=20),
    st.floats(1e8, 1e12),
)
def test_an_interval_holds_its_middle_whatever_was_measured(
    results: list[tuple[float, int, float]], n_bytes: float
) -> None:
    evidence = [MeasuredCase(Case(int(read), layers, 1e12, "m", "q"), speed) for read, layers, speed in results]
    prediction = predict(Case(int(n_bytes), 32, 1e12, "m", "q"), evidence)
    assert prediction is not None
    assert 0 < prediction.low < prediction.steps_per_s < prediction.high < math.inf


ODD = st.sampled_from((0.0, -1.0, 1.0, 1e-9, 1e12, 1e30, math.inf, math.nan))


@given(
    st.tuples(st.sampled_from((0, 1, 10**18)), st.sampled_from((-1, 0, 10**9)), ODD, ODD), st.booleans(), st.booleans()
)
def test_what_takes_no_time_predicts_nothing(
    odd: tuple[int, int, float, float], is_target: bool, has_others: bool
) -> None:
    n_bytes, layers, bandwidth, steps_per_s = odd
    odd_case = Case(n_bytes, layers, bandwidth, "odd", "Q4_K_M")
    evidence = [MeasuredCase(odd_case, steps_per_s)] + [MeasuredCase(A100, 100.0)] * has_others
    prediction = predict(odd_case if is_target else A100, evidence)
    if prediction is not None:
        assert 0 < prediction.low <= prediction.steps_per_s <= prediction.high < math.inf
    if has_others and not is_target:
        assert prediction is not None
