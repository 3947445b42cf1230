"""What makes a run no evidence about its configuration, and how it is said."""

from typing import Any

import pytest

from app.db.database import Database
from app.metrics import HEADLINE_METRICS
from app.results.compare import soundness
from app.results.compare.soundness import unsound_by_run, unsound_reasons
from tests.compare.runs import place, run, statements, timed
from tests.databases import on_both

QUIET = dict.fromkeys(HEADLINE_METRICS, 0.02)


@pytest.mark.parametrize(
    ("disturbance", "reason"),
    [
        (soundness.machine_busy("before", 0.53), "this machine was busy before the run (53 %)"),
        (
            soundness.machine_busy("during", 0.487),
            "other programs used this machine during the run (49 % of its processor)",
        ),
        (soundness.server_shared(), "the server worked for somebody else during the run"),
        (soundness.server_restarted(), "the server restarted during the run"),
        (soundness.models_changed(["a", "b"]), "the server answered with different models during the run"),
        (soundness.swapped(3 * 1024**3), "this machine swapped 3.22 GB during the run"),
        (
            soundness.throttled(["gpu0: temperature", "gpu1: power brake"]),
            "a GPU was throttled in a part of the run (GPU 0: temperature and GPU 1: power brake)",
        ),
    ],
)
def test_each_disturbance_has_a_reason(disturbance: soundness.Disturbance, reason: str) -> None:
    assert unsound_reasons({"unsound": [disturbance]}, QUIET) == (reason,)


def test_every_kind_is_covered_above() -> None:
    assert len(soundness.REASONS) == 6


def test_a_kind_of_a_later_version_is_passed_over() -> None:
    assert unsound_reasons({"unsound": [{"kind": "eclipse"}]}, QUIET) == ()


@pytest.mark.parametrize(
    ("evidence", "reasons"),
    [
        ({}, ()),
        ({"warnings": ["The prompt was cut."], "cpu_load_share_before": 0.49}, ()),
        ({"cpu_load_share_before": None}, ()),
        ({"cpu_load_share_before": 0.5}, ("this machine was busy before the run (50 %)",)),
        (
            {
                "warnings": [
                    "The server processed 612 prompt tokens for somebody else during the run: measure again while "
                    "nobody else uses it.",
                    "This machine swapped 2 GiB during the run: its memory is too small for the model and what else "
                    "runs.",
                ]
            },
            ("the server worked for somebody else during the run", "this machine swapped during the run"),
        ),
        # a list, even an empty one, is all that there is to say
        ({"unsound": [], "cpu_load_share_before": 0.9}, ()),
    ],
)
def test_runs_of_earlier_versions_say_what_they_have(evidence: dict[str, Any], reasons: tuple[str, ...]) -> None:
    assert unsound_reasons(evidence, {}) == reasons


@pytest.mark.parametrize(("share", "is_unsound"), [(None, False), (0.0, False), (0.1, False), (0.101, True)])
@pytest.mark.parametrize("metric", HEADLINE_METRICS)
def test_too_wide_a_scatter_of_the_repetitions_is_a_reason(metric: str, share: float | None, is_unsound: bool) -> None:
    assert bool(unsound_reasons({}, {**QUIET, metric: share})) is is_unsound


def test_the_scatter_is_said_with_its_figure() -> None:
    assert unsound_reasons({}, {"decode_tokens_per_s": 0.234}) == ("decode varied by 23 % within the run",)


@on_both
def test_a_list_of_runs_costs_one_query(database: Database) -> None:
    (config,) = place(database)[:1]
    quiet = run(database, config, timed(500, 60))
    noisy = run(database, config, timed(500, 60, noise=(1.0, 1.5, 0.7, 1.2, 0.9)))
    busy = run(database, config, timed(500, 60), evidence={"unsound": [soundness.machine_busy("during", 0.5)]})
    older = run(database, config, timed(500, 60), evidence={"cpu_load_share_before": 0.97, "warnings": []})
    names = [quiet, noisy, busy, older, "none"]
    with database.read() as session:
        reasons = unsound_by_run(session, names)
    assert reasons.keys() == {noisy, busy, older}
    assert reasons[noisy] == ("TTFT, prefill and decode varied by up to 30 % within the run",)
    assert reasons[older] == ("this machine was busy before the run (97 %)",)
    assert statements(database, lambda session: unsound_by_run(session, names)) == 1
