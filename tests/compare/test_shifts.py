"""Shifts of stored runs: per configuration, prompt and hardware, all metrics of a moment together."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from app.metrics import HEADLINE_METRICS, metrics
from app.results.hardware import HardwareChange
from app.results.history.level_shifts import SeriesDrift, Shift, drift_words, drifts, shift_words, shifts
from app.results.history.table import HistoryPoint, HistoryTable

START = datetime(2026, 9, 1, 12, tzinfo=UTC)
METRICS = [metrics()[key] for key in HEADLINE_METRICS]


def runs(count: int, config_id: int = 1, first: int = 0, prompt: str = "p", **ratios: float) -> list[HistoryPoint]:
    """One a day, with a little noise."""
    chance = random.Random(first)
    usual = {"ttft": 500.0, "prefill": 1000.0, "decode": 60.0}
    return [
        HistoryPoint(
            f"run{number}",
            START + timedelta(days=number),
            config_id,
            1,
            prompt,
            "[]",
            tuple(
                part
                for name, value in usual.items()
                for part in (value * ratios.get(name, 1) * chance.gauss(1, 0.005), value * 0.01, 5)
            ),
        )
        for number in range(first, first + count)
    ]


def phrases(level_shifts: list[Shift]) -> list[str]:
    return [shift_words(shift, METRICS) for shift in level_shifts]


def test_metrics_that_shift_together_are_one_shift() -> None:
    (shift,) = shifts(HistoryTable.of([*runs(10), *runs(8, first=10, decode=0.9, ttft=1.2)]), 3)
    change = "TTFT 19 % longer, decode 9.5 % slower since 11 September 2026"
    assert shift_words(shift, METRICS) == f"{change}, no known change of configuration"
    assert shift_words(shift, METRICS, is_known=True) == f"{change}, same configuration"
    assert (shift.before, shift.after, shift.config_id, shift.still_holds) == ("run9", "run10", 1, True)


def test_a_level_that_came_back_holds_no_longer() -> None:
    level_shifts = shifts(HistoryTable.of([*runs(10), *runs(8, first=10, decode=0.8), *runs(8, first=18)]), 3)
    assert [(shift.after, shift.still_holds) for shift in level_shifts] == [("run10", False), ("run18", True)]


def test_another_configuration_prompt_or_hardware_is_no_shift() -> None:
    assert shifts(HistoryTable.of([*runs(10), *runs(10, config_id=2, first=10, decode=0.8)]), 3) == []
    assert shifts(HistoryTable.of([*runs(10), *runs(10, prompt="q", first=10, decode=0.8)]), 3) == []
    points = [*runs(10), *runs(10, first=10, decode=0.8)]
    change = HardwareChange(points[10].started_at, "RTX 3090 → 2 × RTX 3090")
    assert shifts(HistoryTable.of(points), 3, {1: [change]}) == []
    assert len(shifts(HistoryTable.of(points), 3, {2: [change]})) == 1  # of another server


def test_runs_without_a_value_are_passed_over() -> None:
    points = [*runs(10), *runs(10, first=10, decode=0.8)]
    points[10] = points[10]._replace(readings=(500.0, 5.0, 5, None, None, 0, None, None, 0))
    (shift,) = shifts(HistoryTable.of(points), 3)
    assert (shift.before, shift.after) == ("run9", "run11")


def drifting(days: float, count: int = 20, config_id: int = 1, **changes: float) -> list[HistoryPoint]:
    """Over so many days, each metric by its change from the first run to the last."""
    chance = random.Random(count)
    usual = {"ttft": 500.0, "prefill": 1000.0, "decode": 60.0}
    return [
        HistoryPoint(
            f"run{number}",
            START + timedelta(days=days * number / (count - 1)),
            config_id,
            1,
            "p",
            "[]",
            tuple(
                part
                for name, value in usual.items()
                for part in (
                    value * (1 + changes.get(name, 0.0)) ** (number / (count - 1)) * chance.gauss(1, 0.0005),
                    value * 0.01,
                    5,
                )
            ),
        )
        for number in range(count)
    ]


def only(points: list[HistoryPoint]) -> SeriesDrift:
    assert shifts(HistoryTable.of(points), 3) == []
    (series,) = drifts(HistoryTable.of(points), 3)
    return series


@pytest.mark.parametrize(
    ("days", "change", "expected"),
    [
        (
            122,
            -0.08,
            "decode has been drifting by −2.1 % a month since 1 September 2026, no known change of configuration",
        ),
        (
            14,
            -0.08,
            "decode has been drifting by −4.1 % a week since 1 September 2026, no known change of configuration",
        ),
        (2, 0.08, "decode has been drifting by +3.9 % a day since 1 September 2026, no known change of configuration"),
        (
            0.25,
            -0.12,
            "decode has been drifting by −2.1 % an hour since 1 September 2026, no known change of configuration",
        ),
    ],
)
def test_a_drift_is_said_with_its_slope_and_never_dated_as_a_shift(days: float, change: float, expected: str) -> None:
    assert drift_words(only(drifting(days, decode=change)), METRICS) == expected


def test_metrics_that_drift_together_are_one_drift() -> None:
    series = only(drifting(61, decode=-0.1, ttft=0.2))
    words = drift_words(series, METRICS)
    assert words == (
        "TTFT has been drifting by +9.5 % a month and decode by −5.1 % a month since 1 September 2026, "
        "no known change of configuration"
    )
    assert (series.first, series.last, series.config_id) == ("run0", "run19", 1)
    assert (series.since, series.until) == (START, START + timedelta(days=61))


def test_a_slope_is_that_of_the_runs_with_a_value() -> None:
    points = drifting(61, decode=-0.1)
    without = [point._replace(readings=(*point.readings[:6], None, None, 0)) for point in points[-5:]]
    (drift,) = only([*points[:-5], *without]).metrics
    assert drift.lasted == points[14].started_at - START
    assert drift.drift.ratio == pytest.approx(0.9 ** (14 / 19), abs=0.01)


def test_another_configuration_is_no_part_of_a_drift() -> None:
    halves = [*drifting(61, decode=-0.1)[:10], *drifting(61, config_id=2, decode=-0.1)[10:]]
    (first, second) = drifts(HistoryTable.of(halves), 3)
    assert (first.first, first.last, second.first, second.last) == ("run0", "run9", "run10", "run19")
