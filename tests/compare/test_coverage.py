"""The 95 % interval of a ratio against simulations whose truth is known; fixed seeds, so the shares never change."""

from collections.abc import Callable

import numpy as np
import pytest

from app.compare.statistics import Verdict, ratio

ROUNDS = 1500
TRUTH = 1.2
Noise = Callable[[np.random.Generator, int], np.ndarray]


def normal(source: np.random.Generator, count: int) -> np.ndarray:
    return 1 + 0.03 * source.standard_normal(count)


def log_normal(source: np.random.Generator, count: int) -> np.ndarray:
    return np.asarray(np.exp(0.1 * source.standard_normal(count)))


def exponential(source: np.random.Generator, count: int) -> np.ndarray:
    """Skewed the way waiting times are: nothing is faster than the machine can be."""
    return 0.9 + 0.1 * source.exponential(1, count)


def covered(seed: str, counts: tuple[int, int], noise: Noise, other: Noise | None = None, spoil: float = 1.0) -> float:
    """Share of rounds whose interval holds the truth; `spoil` multiplies one value of the second sample."""
    source = np.random.default_rng(list(seed.encode()))
    hits = 0
    for _ in range(ROUNDS):
        base, later = noise(source, counts[0]), TRUTH * (other or noise)(source, counts[1])
        later[0] *= spoil
        found = ratio(base.tolist(), later.tolist(), "lower")
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= TRUTH <= found.high
    return hits / ROUNDS


@pytest.mark.parametrize("repetitions", [3, 5, 10])
@pytest.mark.parametrize("noise", [normal, log_normal, exponential])
def test_the_interval_covers_the_truth_in_95_of_100_cases(noise: Noise, repetitions: int) -> None:
    assert 0.92 <= covered(f"{noise.__name__} {repetitions}", (repetitions, repetitions), noise) <= 0.98


@pytest.mark.parametrize("repetitions", [5, 10])
@pytest.mark.parametrize("noise", [normal, log_normal])
@pytest.mark.parametrize("spoil", [1.15, 1.5, 0.6])
def test_one_outlier_makes_it_neither_too_narrow_nor_too_wide(noise: Noise, spoil: float, repetitions: int) -> None:
    share = covered(f"{noise.__name__} {spoil} {repetitions}", (repetitions, repetitions), noise, spoil=spoil)
    assert 0.92 <= share <= 0.98


def test_with_three_repetitions_an_outlier_widens_it_but_never_misleads() -> None:
    assert covered("three", (3, 3), normal, spoil=1.5) >= 0.92


@pytest.mark.parametrize("counts", [(5, 5), (10, 10), (5, 10), (3, 10)])
def test_unlike_scatter_and_unlike_counts(counts: tuple[int, int]) -> None:
    def calm(source: np.random.Generator, count: int) -> np.ndarray:
        return 1 + 0.01 * source.standard_normal(count)

    assert 0.92 <= covered(f"calm {counts}", counts, normal, calm) <= 0.98


def verdicts(change: float, cv: float, repetitions: int) -> list[Verdict | None]:
    source = np.random.default_rng([repetitions, round(1000 * change)])
    return [
        ratio(
            (1 + cv * source.standard_normal(repetitions)).tolist(),
            (change * (1 + cv * source.standard_normal(repetitions))).tolist(),
            "higher",
        ).verdict
        for _ in range(ROUNDS)
    ]


def test_without_a_change_hardly_anything_is_better_or_worse() -> None:
    found = verdicts(1.0, 0.02, 5)
    assert sum(each in (Verdict.BETTER, Verdict.WORSE) for each in found) / ROUNDS < 0.05


def test_a_change_of_ten_percent_is_found_at_a_scatter_of_three() -> None:
    found = verdicts(0.9, 0.03, 5)
    assert found.count(Verdict.WORSE) / ROUNDS >= 0.95
    assert Verdict.BETTER not in found


def test_so_many_more_repetitions_as_it_says_do_settle_most_cases() -> None:
    source = np.random.default_rng(11)
    settled = asked = 0
    for _ in range(300):
        base, other = (scale * (1 + 0.03 * source.standard_normal(4)) for scale in (1, 1.05))
        found = ratio(base.tolist(), other.tolist(), "higher")
        if found.verdict is Verdict.INCONCLUSIVE and found.more is not None and found.more <= 100:
            asked += 1
            more = (scale * (1 + 0.03 * source.standard_normal(found.more)) for scale in (1, 1.05))
            longer = [[*one.tolist(), *two.tolist()] for one, two in zip((base, other), more, strict=True)]
            settled += ratio(longer[0], longer[1], "higher").verdict is not Verdict.INCONCLUSIVE
    assert asked > 50
    assert settled / asked > 0.5
