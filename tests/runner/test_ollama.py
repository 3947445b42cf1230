"""Whole runs against a small Ollama: context, settings of models, notes, and what a suite takes by itself."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from app.core.samples import Sample, Workload
from app.db import measurements, samples, servers
from app.db.database import Database
from app.db.tables import Run
from app.measure.active_run import estimated_seconds, next_seconds
from app.measure.job import TimedSample, step_label
from app.measure.runner import Runner
from app.metrics import compute_metrics
from app.suites import BUILT_IN, Case
from tests.engines.ollama_server import OllamaModel, OllamaServer
from tests.measuring.playing import SUITE, job, played, samples_of
from tests.replay import serve
from tests.runner.conftest import add_server, run_named
from tests.runner.listeners import silent
from tests.traces import figures, sample, stream, trace

SMALL, LARGE = OllamaModel("small:latest", load_ms=150), OllamaModel("large:latest", load_ms=150, num_ctx=16_384)


def measured(database: Database, runner: Runner, slug: str, suite: str, **options: Any) -> Run:
    run = run_named(database, runner.perform(slug, suite, silent, repetitions=2, warmups=1, **options))
    assert (run.status, run.error) == ("done", None)
    return run


def settings_of(run: Run) -> Mapping[str, Any]:
    assert run.config is not None
    return run.config.settings


# --- context ----------------------------------------------------------------------------------------------------------


def test_what_was_loaded_before_decides_no_context(database: Database, runner: Runner, short_suite: str) -> None:
    ollama = OllamaServer([SMALL, LARGE])
    with serve(ollama.routes, pace=0.1) as replay:
        slug = add_server(database, replay.url, "ollama")
        cold = measured(database, runner, slug, short_suite, model="small:latest")
        ollama.load("small:latest", 16_384)  # by somebody else, who asked for it
        warm = measured(database, runner, slug, short_suite, model="small:latest")
        of_large = measured(database, runner, slug, short_suite, model="large:latest")
    assert all("num_ctx" not in turn.body["options"] for turn in ollama.turns)
    assert settings_of(cold)["context"] == settings_of(warm)["context"] == 4096
    assert cold.config_id == warm.config_id
    assert settings_of(of_large)["context"] == 16_384  # its own parameter, as it was loaded


def test_models_on_one_file_have_the_context_that_is_loaded(
    database: Database, runner: Runner, short_suite: str
) -> None:
    twin = OllamaModel("twin:latest", weights="small", load_ms=150)
    ollama = OllamaServer([SMALL, twin])
    with serve(ollama.routes, pace=0.1) as replay:
        slug = add_server(database, replay.url, "ollama")
        measured(database, runner, slug, short_suite, model="small:latest")
        run = measured(database, runner, slug, short_suite, model="twin:latest")
    assert settings_of(run)["context"] == 4096
    (load,) = [row for row in results_of(database, run) if row.metric == "load_ms"]
    assert (load.value, load.null_reason) == (None, "already_loaded")


def results_of(database: Database, run: Run) -> Any:
    assert run.id is not None
    with database.read() as session:
        return measurements.measurements_of(session, run.id)


# --- what a person states ---------------------------------------------------------------------------------------------


def test_what_is_stated_is_remembered_for_the_model_and_said(
    database: Database, runner: Runner, short_suite: str
) -> None:
    ollama = OllamaServer([SMALL, LARGE])
    with serve(ollama.routes, pace=0.1) as replay:
        slug = add_server(database, replay.url, "ollama")
        stated = measured(database, runner, slug, short_suite, model="small:latest", settings={"context": 8192})
        again = measured(database, runner, slug, short_suite, model="small:latest")
        other_model = measured(database, runner, slug, short_suite, model="large:latest")
        forgotten = measured(database, runner, slug, short_suite, model="small:latest", settings={"context": None})
    sentence = "Stated for small:latest and remembered: Context 8,192."
    assert sentence in stated.evidence["checks"]
    assert sentence in again.evidence["checks"]
    assert settings_of(stated)["context"] == settings_of(again)["context"] == 8192
    assert settings_of(other_model)["context"] == 16_384
    assert not [check for check in other_model.evidence["checks"] if "remembered" in check]
    assert settings_of(forgotten)["context"] == 4096
    with database.read() as session:
        server = servers.server(session, slug)
        assert (server.settings, server.model_settings) == ({}, {"small:latest": {}})


def test_what_is_stated_of_a_server_with_one_model_is_the_servers(
    database: Database, runner: Runner, short_suite: str
) -> None:
    with serve(OllamaServer([SMALL]).routes, pace=0.1) as replay:
        slug = add_server(database, replay.url, "ollama")
        measured(database, runner, slug, short_suite, settings={"cards": 1})
    with database.read() as session:
        server = servers.server(session, slug)
        assert (server.settings, server.model_settings) == ({"cards": 1}, {})


# --- notes ------------------------------------------------------------------------------------------------------------


def test_a_run_speaks_of_its_own_model(database: Database, runner: Runner, short_suite: str) -> None:
    half = OllamaModel("half:latest", load_ms=150, gpu_share=0.5)
    on_processor = OllamaModel("cpu:latest", load_ms=150, gpu_share=0.0)
    ollama = OllamaServer([SMALL, half, on_processor])
    with serve(ollama.routes, pace=0.1) as replay:
        slug = add_server(database, replay.url, "ollama")
        of_half = measured(database, runner, slug, short_suite, model="half:latest")
        of_processor = measured(database, runner, slug, short_suite, model="cpu:latest")
        of_small = measured(database, runner, slug, short_suite, model="small:latest")
    sentence = "Ollama holds 50 % of half in GPU memory; the processor works on the rest."
    assert of_half.evidence["warnings"].count(sentence) == 1
    for run in (of_processor, of_small):
        assert not [warning for warning in run.evidence["warnings"] if "GPU memory" in warning]
    assert settings_of(of_half)["gpu_share"] == 50
    assert settings_of(of_processor)["gpu_share"] == 0
    assert "gpu_share" not in settings_of(of_small)


# --- the suite about the cache ----------------------------------------------------------------------------------------


def test_the_cache_is_filled_even_without_warmups() -> None:
    short = SUITE.cases[0]
    cases = (short, replace(short, reuses_cache=True))
    suite = replace(BUILT_IN["cache"], cases=cases, repetitions=2, warmups=0)
    ollama = OllamaServer([OllamaModel("syn-1", load_ms=150)])
    with job(ollama.routes, "ollama", suite) as (made, _):
        taken_samples = samples_of(played(made))
    assert [(s.reuses_cache, s.is_warmup) for s in taken_samples] == [
        (False, False),
        (False, False),
        (True, True),
        (True, False),
        (True, False),
    ]
    assert suite.sample_count(cases) == 5
    fresh, reused = ollama.turns[2], ollama.turns[3:]
    assert fresh.cached < len(fresh.tokens) / 2 < min(turn.cached for turn in reused)
    labels = [step_label(suite, cases, done) for done in range(5)]
    assert labels[2] == "warm-up 1 of 1, point 2 of 2"
    assert labels[4] == "sample 2 of 2, point 2 of 2"


def test_an_earlier_run_without_warmups_calls_its_first_request_no_cached_one() -> None:
    slow, fast = (trace(stream(first_ms), cached_tokens=None) for first_ms in (25_615.0, 80.0))
    taken_samples = [
        sample(slow, reuses_cache=True, round=0),
        sample(fast, reuses_cache=True, round=1, ordinal=1),
        sample(fast, reuses_cache=True, round=2, ordinal=2),
    ]
    (result,) = [row for row in compute_metrics(taken_samples) if row.metric == "ttft_reused_ms"]
    assert (result.value, result.samples, result.left_out) == (80.0, 2, {"filled_cache": 1})


# --- how long it will take --------------------------------------------------------------------------------------------


def timed(seconds: float, made: Sample) -> TimedSample:
    return TimedSample(made, datetime.now(UTC), seconds)


def test_a_load_is_not_expected_again() -> None:
    cold = trace(stream(5_700), end_ms=5_951, server=figures(load_ms=4900.0, queue_ms=None))
    assert next_seconds(timed(5.95, sample(cold))) == pytest.approx(1.05)


def test_a_longer_prompt_takes_longer_and_its_answer_does_not() -> None:
    """200 tokens of prompt in 0.4 s and 128 of output in 6 s: 8,000 take 16 s and 6, not forty times 6.4."""
    short = sample(trace(stream(400, 6000 / 127, 128), end_ms=6_400, output_tokens=128), point=Workload(200, 128))
    case = Case(Workload(8000, 128), "")
    assert estimated_seconds(timed(6.4, short), case) == pytest.approx(22, abs=0.1)
    assert estimated_seconds(timed(6.4, short), replace(case, reuses_cache=True)) == pytest.approx(6, abs=0.1)


def test_samples_are_stored_with_what_they_repeated(database: Database, runner: Runner, short_suite: str) -> None:
    system = "Be brief and kind. " * 60
    with serve(OllamaServer([replace(SMALL, system=system)]).routes, pace=0.1) as replay:
        slug = add_server(database, replay.url, "ollama")
        run = measured(database, runner, slug, short_suite)
    assert run.id is not None
    with database.read() as session:
        stored = samples.samples_of(session, run.id)
    assert {s.trace.own_system_tokens for s in stored} == {round(len(system.strip()) / 4.95)}
    assert all(s.trace.server is not None and s.trace.server.overhead_ms for s in stored)
