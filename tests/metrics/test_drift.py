"""Drift within a run: simulated runs with known truth and fixed seeds."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.samples import Sample, Workload
from app.metrics import FLAGS, compute_metrics
from app.metrics.drift import FALSE_ALARMS, FLAG, MIN_CHANGE, drifts, with_drift
from app.stats.student import two_sided_p
from tests.traces import POINT, sample, stream, trace

RUNS = 1000
WARM_UP = sample(trace(stream(3000, 90)), is_warmup=True)
Noise = Callable[[random.Random], float]

NOISES: dict[str, Noise] = {
    "normal": lambda chance: chance.gauss(0, 1),
    "skewed": lambda chance: 1 - chance.expovariate(1),
    "now and then slow": lambda chance: 0.33 - 3 * (chance.random() < 0.1),
}


def speeds(
    chance: random.Random, repetitions: int, noise: Noise, variation: float = 0.02, change: float = 0.0
) -> list[float]:
    """The first as it should be, the last different by `change`."""
    return [
        60 * (1 + change * place / (repetitions - 1)) * (1 + variation * noise(chance)) for place in range(repetitions)
    ]


def of_speeds(decodes: Sequence[float], ttfts_ms: Sequence[float], point: Workload = POINT) -> list[Sample]:
    return [
        sample(trace(stream(ttft_ms, 1000 / decode)), ordinal=place + 1, round=place + 1, point=point)
        for place, (decode, ttft_ms) in enumerate(zip(decodes, ttfts_ms, strict=True))
    ]


def flagged(samples: Sequence[Sample]) -> list[bool]:
    return [FLAG in sample.flags for sample in with_drift(samples)]


@pytest.mark.parametrize("repetitions", range(3, 11))
@pytest.mark.parametrize("noise", NOISES.values(), ids=list(NOISES))
def test_independent_repetitions_are_flagged_in_at_most_2_of_100_runs(repetitions: int, noise: Noise) -> None:
    """A run is three series: TTFT, prefill and decode."""
    chance = random.Random(repetitions)
    false = sum(
        any(drifts(speeds(chance, repetitions, noise), FALSE_ALARMS / 3) for _ in range(3)) for _ in range(RUNS)
    )
    assert false <= 0.02 * RUNS


@pytest.mark.parametrize(
    ("repetitions", "change", "variation"), [(10, -0.2, 0.01), (10, 0.1, 0.01), (5, -0.2, 0.01), (8, -0.15, 0.015)]
)
def test_a_trend_is_found_in_at_least_90_of_100_runs(repetitions: int, change: float, variation: float) -> None:
    chance = random.Random(1)
    hits = sum(
        drifts(speeds(chance, repetitions, NOISES["normal"], variation, change), FALSE_ALARMS / 3) for _ in range(RUNS)
    )
    assert hits >= 0.9 * RUNS


def test_neighbours_that_are_alike_are_found_without_any_trend() -> None:
    """AR(1) noise with a coefficient of 0.7, 40 repetitions."""
    chance, hits = random.Random(2), 0
    for _ in range(RUNS):
        level, values = chance.gauss(0, 1), []
        for _ in range(40):
            values.append(60 * (1 + 0.02 * level))
            level = 0.7 * level + 0.51**0.5 * chance.gauss(0, 1)
        hits += drifts(values, FALSE_ALARMS / 3)
    assert hits >= 0.85 * RUNS


def test_a_card_that_becomes_slower_in_the_middle_of_a_run_is_found() -> None:
    chance = random.Random(3)
    steps = [[60 * (0.8 if place > 4 else 1) * chance.gauss(1, 0.01) for place in range(10)] for _ in range(RUNS)]
    assert sum(drifts(values, FALSE_ALARMS / 3) for values in steps) >= 0.9 * RUNS


def test_drift_of_no_consequence_is_not_flagged() -> None:
    exact = [60 + 0.01 * place for place in range(10)]
    assert not drifts(exact, 0.01)
    assert drifts([60 + 0.2 * place for place in range(10)], 0.01)


DRIFTING = [60, 57, 54.2, 51.1, 48.5]
STEADY = [800, 803, 798, 801, 799]


def test_all_usable_samples_of_the_workload_are_flagged_and_no_others() -> None:
    other_point = Workload(2000, 11)
    incomplete = replace(sample(ordinal=6), flags=("incomplete",))
    samples = [
        WARM_UP,
        *of_speeds(DRIFTING, STEADY),
        incomplete,
        *of_speeds([60, 61, 59.5, 60.5, 60], STEADY, other_point),
    ]
    assert flagged(samples) == [False, *[True] * 5, False, *[False] * 5]
    assert flagged(of_speeds([60, 61, 59.5, 60.5, 60], [800, 840, 883, 925, 970])) == [True] * 5
    assert with_drift(with_drift(samples)) == with_drift(samples)


def test_streams_of_one_round_are_one_repetition() -> None:
    """A later stream waits longer, in every round alike."""
    point = replace(POINT, concurrency=4)
    waiting = [
        sample(
            trace(stream(500 * (stream_ + 1) * factor)), ordinal=4 * n + stream_, round=n, stream=stream_, point=point
        )
        for n, factor in enumerate((1, 1.01, 0.99, 1.005, 1))
        for stream_ in range(4)
    ]
    assert not any(flagged(waiting))


def test_it_disqualifies_nothing_and_narrows_no_interval() -> None:
    samples = of_speeds(DRIFTING, STEADY)
    assert all(flagged(samples))
    assert not FLAGS[FLAG].disqualifies
    assert compute_metrics(with_drift(samples)) == compute_metrics(samples)


@given(st.lists(st.floats(1e-6, 1e9), max_size=12), st.integers(-900, 900))
def test_neither_the_unit_nor_the_direction_of_time_makes_a_difference(values: list[float], exponent: int) -> None:
    """Up to rounding: a value at the very threshold may go either way."""
    rounded = [float(f"{value:.3g}") for value in values]
    assert drifts(rounded, 0.01) == drifts(rounded[::-1], 0.01)
    assert drifts(rounded, 0.01) == drifts([value * 2.0**exponent for value in rounded], 0.01)


@pytest.mark.parametrize("repetitions", [5, 6, 7])
def test_a_trend_is_one_from_its_p_value_on(repetitions: int) -> None:
    """Up to seven repetitions the line alone decides; Wallace's p-values are within a fifth where they are not tiny."""
    chance, judged = random.Random(repetitions), 0
    while judged < 20:
        values = speeds(chance, repetitions, NOISES["normal"], 0.02, chance.choice((-0.08, 0.08)))
        logs = np.log(values)
        times = np.arange(repetitions)
        slope, start = np.polyfit(times, logs, 1)
        rest = float(np.sum((logs - start - slope * times) ** 2)) / (repetitions - 2)
        t = float(slope) / math.sqrt(rest / float(np.sum((times - times.mean()) ** 2)))
        p = two_sided_p(t, repetitions - 2)
        if 0.01 < p < 0.3 and abs(slope) * (repetitions - 1) > MIN_CHANGE:
            judged += 1
            assert drifts(values, 1.25 * p)
            assert not drifts(values, 0.8 * p)
