"""Engine updates: what is one, and how certain its change is, held against histories with known truth."""

import math

import numpy as np
import pytest

from app import engines
from app.db.database import Database
from app.metrics import HEADLINE_METRICS, metrics
from app.results import hardware
from app.results.hardware import HardwareChange
from app.results.history.changepoint import FALSE_ALARMS
from app.results.history.series import history
from app.results.history.update_scatter import widening
from app.results.history.updates import Change, Update, update_words, updates
from app.results.run_filter import RunFilter
from app.results.series import series_index
from tests.compare.updated import Notebook, simulated
from tests.year import BUILDS, seed_year

TITLES = engines.titles()
CALM = (60.0, 60.3, 59.8, 60.1)
SLOWER = (55.2, 55.4, 55.0, 55.3)


def phrases(all_updates: list[Update]) -> list[str]:
    return [update_words(update, TITLES) for update in all_updates]


def test_of_a_year_the_planted_regression_alone_is_certain(database: Database) -> None:
    with database.write() as session:
        seed_year(session)
    with database.read() as session:
        points, _ = history(session, RunFilter(suite="triple"))
        all_updates = updates(
            points,
            [metrics()[key] for key in HEADLINE_METRICS],
            series_index(session),
            hardware.timelines(session).all_changes(),
        )
    assert len(all_updates) == 3 * (len(BUILDS) - 1)
    (certain,) = (update for update in all_updates if update.shifts)
    assert certain.machine == "strix-halo"
    assert update_words(certain, TITLES) == "llama.cpp b7689 → b7841: decode 7.7 % slower on 3 models"
    (shift,) = certain.shifts
    assert shift.is_worse
    assert certain.is_worse
    low, high = shift.interval
    assert low < 0.92 < high
    assert len(certain.shifted(shift)) == len(certain.series) == 12


# --- how often it is wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("series", "runs", "notebooks"), [(1, 1, 20), (1, 6, 25), (3, 2, 25), (12, 1, 12), (12, 3, 5)])
def test_fewer_than_one_update_of_a_hundred_gives_a_false_alarm(series: int, runs: int, notebooks: int) -> None:
    chance = np.random.default_rng(13)
    all_updates = [
        update
        for between in (0.0, 0.005, 0.02)
        for is_autocorrelated in (False, True)
        for has_wrong_run in (False, True)
        for _ in range(notebooks)
        for update in simulated(
            chance,
            series=series,
            runs=runs,
            between=between,
            is_autocorrelated=is_autocorrelated,
            has_wrong_run=has_wrong_run,
        ).updates()
    ]
    assert len(all_updates) == 12 * notebooks * 7
    assert sum(bool(update.shifts) for update in all_updates) <= FALSE_ALARMS * len(all_updates)


@pytest.mark.parametrize(
    ("series", "runs", "between", "least"),
    [(1, 6, 0.01, 0.95), (3, 2, 0.01, 0.9), (12, 1, 0.02, 0.8), (12, 2, 0.02, 0.95)],
)
@pytest.mark.parametrize("ratio", [0.92, 1 / 0.92])
def test_a_change_by_a_twelfth_is_found_in_spite_of_a_wrong_run(
    series: int, runs: int, between: float, least: float, ratio: float
) -> None:
    chance = np.random.default_rng(8)
    notebooks = 20
    certain_changes: list[Change] = []
    for _ in range(notebooks):
        notebook = simulated(chance, series=series, runs=runs, between=between, has_wrong_run=True, ratio=ratio)
        (update,) = (update for update in notebook.updates() if update.new_version == "b4")
        certain_changes += update.shifts
    assert len(certain_changes) >= least * notebooks
    assert np.median([change.ratio for change in certain_changes]) == pytest.approx(ratio, abs=0.02)


def test_a_wrong_run_beside_an_update_decides_nothing() -> None:
    notebook = Notebook()
    for place in range(4):
        notebook.add("b1", *CALM, model=f"m{place}")
        notebook.add("b2", 33.0 if place == 0 else 60.2, 60.0, model=f"m{place}")
    (update,) = notebook.updates()
    assert update.shifts == []
    assert not update.is_worse


def test_a_lone_run_of_one_series_decides_nothing() -> None:
    notebook = Notebook()
    notebook.add("b1", *CALM)
    notebook.add("b2", SLOWER[0])
    assert phrases(notebook.updates()) == ["llama.cpp b1 → b2"]
    notebook.add("b2", *SLOWER[1:])
    assert phrases(notebook.updates()) == ["llama.cpp b1 → b2: decode 8.0 % slower on Qwen3-8B"]


def test_errors_are_widened_only_by_excess() -> None:
    assert widening([]) == (1.0, math.inf)
    assert widening([0.1] * 50)[0] == 1.0
    assert widening([3.0, -3.0] * 50)[0] == pytest.approx(3 / 0.6745, rel=0.05)
    assert widening([0.5, 0.6, 0.7, 40.0])[0] < 1.1  # a real change among others


# --- what is an update -----------------------------------------------------------------------------------------------


def test_an_unknown_version_is_no_update() -> None:
    notebook = Notebook()
    notebook.add(None, *CALM)
    notebook.add("b2", *SLOWER)
    notebook.add(None, *CALM)
    assert notebook.updates() == []


def test_runs_of_an_unknown_version_between_hide_no_update() -> None:
    notebook = Notebook()
    notebook.add("b1", *CALM)
    notebook.add(None, 60.0)
    notebook.add("b2", *SLOWER)
    (update,) = notebook.updates()
    assert (update.old_version, update.new_version, update.is_worse) == ("b1", "b2", True)


def test_back_and_forth_are_two_updates() -> None:
    notebook = Notebook()
    for version, values in (("b1", CALM), ("b2", SLOWER), ("b1", CALM), ("b2", SLOWER)):
        notebook.add(version, *values)
    back, there = notebook.updates()
    assert (back.new_version, back.is_worse, bool(back.shifts)) == ("b1", False, True)
    assert (there.new_version, there.is_worse) == ("b2", True)
    (change,) = there.series
    assert (change.before, change.after) == ("run11", "run12")  # the last time, which is what holds now


def test_an_update_with_unknown_settings_says_that_no_other_change_is_known() -> None:
    notebook = Notebook()
    for version, values in (("b1", CALM), ("b2", SLOWER)):
        notebook.add(version, *values, settings={"context": 4096})
    assert phrases(notebook.updates()) == ["llama.cpp b1 → b2: decode 8.0 % slower on Qwen3-8B, no other known change"]


def test_a_change_of_hardware_between_leaves_nothing_to_compare() -> None:
    notebook = Notebook()
    notebook.add("b1", *CALM)
    first, *_ = notebook.add("b2", *SLOWER)
    change = HardwareChange(first.started_at, "RTX 3090 → 2 × RTX 3090")
    assert notebook.updates({1: [change]}) == []
    assert len(notebook.updates({2: [change]})) == 1  # of another server


def test_two_servers_of_a_machine_are_one_series() -> None:
    notebook = Notebook()
    notebook.add("b1", *CALM)
    notebook.add("b2", *SLOWER, server=2)
    (update,) = notebook.updates()
    (change,) = update.series
    assert change.series.config_ids == (1, 2)
    assert len(update.shifts) == 1


def test_other_machines_models_and_prompts_are_not_compared() -> None:
    notebook = Notebook()
    notebook.add("b1", *CALM)
    notebook.add("b2", *SLOWER, machine=2)
    notebook.add("b2", *SLOWER, model="Gemma-3-27B")
    notebook.add("b2", *SLOWER, prompt="q")
    assert notebook.updates() == []


def test_runs_without_a_value_are_passed_over() -> None:
    notebook = Notebook()
    notebook.add("b1", *CALM, None)
    notebook.add("b2", None, *SLOWER)
    (update,) = notebook.updates()
    assert len(update.shifts) == 1
    notebook = Notebook()
    notebook.add("b1", *CALM)
    notebook.add("b2", None, None)
    (update,) = notebook.updates()
    assert (update.shifts, dict(update.series[0].changes)) == ([], {})
