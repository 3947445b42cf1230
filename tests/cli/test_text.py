"""A run and the list of runs as text for a terminal."""

import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.cli.measure import TerminalProgress
from app.cli.runs import print_runs
from app.cli.text import run_text
from app.core.samples import Workload
from app.core.settings import Settings
from app.db import configs, runs
from app.db.database import Database
from app.measure.active_run import RunProgress
from app.measure.live import Arrived
from app.results.compare.soundness import machine_busy
from app.schemas.run_document import run_document
from tests.compare.runs import Q8, place, timed
from tests.compare.runs import run as add_timed_run
from tests.seed import START, _setups, made_sample, seed
from tests.web.notebook import add_run


def document(database: Database, public_id: str) -> dict[str, Any]:
    with database.read() as session:
        return run_document(session, public_id)


@pytest.fixture
def two(database: Database) -> tuple[str, str]:
    """Two runs of one server, the second with another configuration."""
    with database.write() as session:
        seed(session, runs=1, configs_used=1)
        second_config_id = configs.freeze(session, 1, _setups()[1].snapshot, {}, "").id
    samples = [[made_sample(n, Workload(512, 64), ttft, 50.0) for n in range(3)] for ttft in (500.0, 400.0)]
    later = START + timedelta(days=200)
    return (
        add_run(database, samples[0], suite_sha256="a" * 64),
        add_run(
            database,
            samples[1],
            suite_sha256="a" * 64,
            config_id=second_config_id,
            started_at=later,
            note="night shift",
        ),
    )


def test_configuration_changes_and_note_are_printed(database: Database, two: tuple[str, str]) -> None:
    output = run_text(document(database, two[1]))
    assert "Configuration: Context 8,192, GPUs 1" in output
    assert "Changed: Q8_0 → Q4_K_M; Context 4,096 → 8,192" in output
    assert "TTFT     500 → 400 ms, ▲ 20 % shorter" in output
    assert f"Against run {two[0]}, the newest of the nearest earlier configuration: " in output
    assert "Note: night shift" in output


def test_what_is_unknown_is_named(database: Database, two: tuple[str, str]) -> None:
    run = document(database, two[1])["run"]
    assert "KV cache type K" in run["unknown_settings"]
    assert "Unknown on at least one side, so possibly different too: " in run_text(document(database, two[1]))
    assert document(database, two[0])["run"]["unknown_settings"] is None


def test_a_wrong_run_is_named(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (config,) = place(database, Q8)
    for hour, speed in enumerate((50, 50.4, 49.7, 50.1)):
        add_timed_run(database, config, timed(500, speed), hours=hour)
    busy = {"unsound": [machine_busy("during", 0.53)]}
    wrong = add_timed_run(database, config, timed(500, 27.5), hours=9, evidence=busy)
    assert (
        "Warning: Decode 45 % below the other runs of this configuration. Likely cause: other programs used this "
        "machine during the run (53 % of its processor)."
    ) in run_text(document(database, wrong))
    monkeypatch.setattr("app.cli.runs.Settings", lambda: settings)
    print_runs()
    (line,) = (line for line in capsys.readouterr().out.splitlines() if wrong in line)
    assert line.endswith("decode 45 % below")


def test_the_document_says_what_changed_and_what_was_before(database: Database, two: tuple[str, str]) -> None:
    first, second = (document(database, public_id)["run"] for public_id in two)
    assert (first["changes"], first["previous"]) == (None, None)
    assert second["changes"] == ["Q8_0 → Q4_K_M", "Context 4,096 → 8,192"]
    assert second["previous"]["id"] == two[0]
    assert second["previous"]["values"]["ttft_ms"]["base"] == 500
    assert second["previous"]["verdict"] in ("better", "worse", "same", "inconclusive", "mixed")


def test_the_list_tells_configurations_apart_and_shows_notes(
    settings: Settings, database: Database, two: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("app.cli.runs.Settings", lambda: settings)
    print_runs()
    lines = capsys.readouterr().out.splitlines()
    assert "Configuration" in lines[0]
    assert lines[0].endswith("Note")
    (line,) = (line for line in lines if two[1] in line)
    assert line.endswith("night shift")


@pytest.fixture
def server(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=0, configs_used=1)


@pytest.mark.usefixtures("server")
def test_a_sweep_of_streams_says_what_it_was_played_for(database: Database) -> None:
    samples = [
        replace(made_sample(n, Workload(512, 64, streams), 400.0 * streams, 50.0), round=0, stream=stream)
        for n, (streams, stream) in enumerate((streams, stream) for streams in (1, 2) for stream in range(streams))
    ]
    output = run_text(document(database, add_run(database, samples, suite_key="concurrency"))).splitlines()
    assert "About 512 prompt tokens, 64 output tokens" in output
    assert "About 512 prompt tokens, 64 output tokens, 2 streams" in output
    assert len([line for line in output if line.startswith("Throughput ")]) == 1
    assert len([line for line in output if line.startswith("Goodput ")]) == 1
    assert "Up to 1 stream every request kept within the limits: TTFT of 500 ms and TPOT of 50.0 ms." in output


@pytest.mark.usefixtures("server")
def test_a_cached_prompt_has_a_line_of_its_own(database: Database) -> None:
    fresh, cached = (made_sample(n, Workload(512, 64), ttft, 50.0) for n, ttft in enumerate((500.0, 20.0)))
    cached = replace(cached, reuses_cache=True, trace=replace(cached.trace, cached_tokens=511))
    text = " ".join(run_text(document(database, add_run(database, [fresh, cached]))).split())
    assert "TTFT, prompt cached 20.0 ms" in text
    assert "TTFT 500 ms" in text


@pytest.mark.usefixtures("server")
def test_points_that_do_not_fit_say_so_once(database: Database) -> None:
    run = add_run(database, [made_sample(0, Workload(512, 64), 500.0, 50.0)])
    with database.write() as session:
        row = runs.run(session, run)
        row.evidence = {"left_out": [{"point": Workload(8000, 64).key, "reason": "It does not fit."}]}
        session.add(row)
    output = run_text(document(database, run))
    assert output.count("do not fit into the server's context") + output.count("does not fit") == 1


def test_a_run_names_its_engine_by_its_title(database: Database, two: tuple[str, str]) -> None:
    run = document(database, two[0])
    run["run"]["config"]["engine"] = "trtllm"
    assert "TensorRT-LLM" in run_text(run).splitlines()[0]


def test_a_log_has_a_phase_that_lasts_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = TerminalProgress()
    for phase in ("Waiting for 2 other runs.", "Waiting for 2 other runs.", "Waiting for 1 other run."):
        progress(RunProgress(phase, 0, 6))
    assert capsys.readouterr().err.splitlines() == ["Waiting for 2 other runs.", "Waiting for 1 other run."]


def test_a_terminal_shows_what_arrives_and_a_log_does_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress, arrived = TerminalProgress(), Arrived(1, 1234, 2.0, per_s=45.6)
    progress(RunProgress("Measuring.", 2, 6, arrived=arrived))
    assert not capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress(RunProgress("Measuring.", 2, 6, arrived=arrived))
    assert "3/6  about 1,234 tokens so far, 45.6 tok/s" in capsys.readouterr().err
