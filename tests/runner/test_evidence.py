"""What a run says about itself as a whole."""

from collections.abc import Sequence
from typing import Any

import pytest

from app.core.samples import Sample, Status
from app.engines.base import Counters
from app.hardware.foreign_load import CpuMeter, ForeignLoad
from app.measure import run_checks
from app.measure.interference import BusyCheck
from app.measure.job import Prepared
from app.results.compare import soundness
from app.suites import BUILT_IN
from tests.traces import sample, trace

SAMPLES = [sample(ordinal=0, is_warmup=True), sample(ordinal=1), sample(ordinal=2)]
BEGAN = Counters(prompt_tokens=1000, cached_prompt_tokens=0, output_tokens=50)


def after(ended: Counters | None, samples: Sequence[Sample] = SAMPLES) -> dict[str, Any]:
    return run_checks.after({"warnings": ["first"]}, samples, BEGAN, ended)


def test_before_a_run() -> None:
    fits, too_long = BUILT_IN["lengths"].cases[0], BUILT_IN["lengths"].cases[2]
    evidence = run_checks.before(Prepared(((fits, 225),), ((too_long, "It does not fit."),)), ["busy"], None)
    assert evidence["warnings"] == ["busy"]
    assert evidence["left_out"] == [{"point": "8000/128/1/0", "reason": "It does not fit."}]
    assert evidence["checks"] == ["The server's tokenizer counts 225 tokens in the prompt of about 200."]


@pytest.mark.parametrize(
    ("load_share", "is_busy", "is_idle"),
    [(None, False, False), (0.0, False, True), (0.49, False, True), (0.97, True, False)],
)
def test_a_busy_machine_is_a_warning_and_an_idle_one_a_check(
    load_share: float | None, is_busy: bool, is_idle: bool
) -> None:
    """Of a server that is elsewhere this machine's load says nothing."""
    evidence = run_checks.before(Prepared((), ()), [], load_share)
    assert (bool(evidence["warnings"]), bool(evidence["checks"])) == (is_busy, is_idle)
    assert evidence["cpu_load_share_before"] == load_share
    assert evidence["unsound"] == ([soundness.machine_busy("before", load_share)] if is_busy and load_share else [])
    if is_busy:
        assert "97 % of its processor" in evidence["warnings"][0]


def test_a_clean_run_passes_its_checks() -> None:
    evidence = after(Counters(prompt_tokens=1000 + 3 * 512, cached_prompt_tokens=0, output_tokens=83))
    assert evidence["warnings"] == ["first"]
    assert evidence["checks"] == [
        "No prompt token came from the server's cache.",
        "Every sample has exactly the requested output length.",
        "The server's own counters saw no other request during the run.",
    ]
    assert evidence["unsound"] == []


def test_somebody_elses_prompts_are_noticed() -> None:
    (_, warning) = after(Counters(prompt_tokens=1000 + 4 * 512, cached_prompt_tokens=100))["warnings"]
    assert "processed 612 prompt tokens for somebody else" in warning
    evidence = after(Counters(prompt_tokens=1000 + 4 * 512, cached_prompt_tokens=100))
    assert evidence["unsound"] == [soundness.server_shared()]


def test_a_sample_beside_somebody_elses_request_makes_the_run_unsound_without_counters() -> None:
    shared = [*SAMPLES, sample(ordinal=3, flags=("concurrent",))]
    assert after(None, shared)["unsound"] == [soundness.server_shared()]
    warm_up = [sample(ordinal=0, is_warmup=True, flags=("concurrent",)), *SAMPLES[1:]]
    assert after(None, warm_up)["unsound"] == []


@pytest.mark.parametrize(
    ("pauses", "share"), [([0.02, 0.05], None), ([0.02, 0.48, 0.51], 0.51), ([], None)], ids=["calm", "busy", "unseen"]
)
def test_other_programs_during_the_run_are_evidence(pauses: list[float], share: float | None) -> None:
    check = BusyCheck(CpuMeter(None))
    check.pauses = [ForeignLoad(pause, True) for pause in pauses]
    evidence = run_checks.after(
        {"unsound": [soundness.machine_busy("before", 0.6)]}, SAMPLES, None, None, busy_check=check
    )
    during = [] if share is None else [soundness.machine_busy("during", share)]
    assert evidence["unsound"] == [soundness.machine_busy("before", 0.6), *during]
    warnings = [warning for warning in evidence["warnings"] if "Other programs used up to 51 %" in warning]
    assert len(warnings) == len(during)
    is_checked = "No other program kept this machine busy during the run." in evidence["checks"]
    assert is_checked is bool(pauses and share is None)


@pytest.mark.parametrize("ended", [None, Counters(), Counters(prompt_tokens=10)])
def test_without_counters_or_after_a_restart_nothing_is_claimed(ended: Counters | None) -> None:
    evidence = after(ended)
    assert evidence["warnings"] == ["first"]
    assert not [check for check in evidence["checks"] if "counters" in check]


def test_a_restart_during_the_run_is_said_and_leaves_nothing_known() -> None:
    began = Counters(1000, 0, 50, totals={"requests": 7.0})
    evidence = run_checks.after({}, SAMPLES, began, Counters(9000, 0, 900, totals={"requests": 3.0}))
    (warning,) = evidence["warnings"]
    assert "began anew during the run" in warning
    assert not [check for check in evidence["checks"] if "counters" in check]
    assert evidence["unsound"] == [soundness.server_restarted()]


def test_a_prompt_of_many_points_is_counted_once() -> None:
    cases = BUILT_IN["concurrency"].cases
    evidence = run_checks.before(Prepared(tuple((case, 521) for case in cases), ()), [], None)
    assert evidence["checks"] == ["The server's tokenizer counts 521 tokens in the prompt of about 512."]


def test_an_incomplete_sample_makes_the_counters_unusable() -> None:
    broken = sample(trace(status=Status.INCOMPLETE), ordinal=3)
    assert len(after(Counters(prompt_tokens=9000), [*SAMPLES, broken])["warnings"]) == 1


def test_a_model_that_changes_during_a_run_is_told() -> None:
    first, second, unnamed = (sample(trace(model=model)) for model in ("syn-1", "other-70b", None))
    assert after(None, [first, unnamed, first])["warnings"] == ["first"]
    (_, warning) = after(None, [first, unnamed, second, first])["warnings"]
    assert "different models during the run: syn-1, other-70b." in warning
    assert after(None, [first, second])["unsound"] == [soundness.models_changed(["syn-1", "other-70b"])]


def test_no_claim_about_a_cache_that_is_not_reported() -> None:
    evidence = after(None, [sample(trace(cached_tokens=None)), sample(trace(output_tokens=9))])
    assert evidence["checks"] == []
