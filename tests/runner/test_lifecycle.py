"""What happens to runs when processes start, stop, die and meet: real workers, a real engine, a real database."""

import os
import signal

import pytest

from app.ceiling.geometry import Geometry
from app.core.errors import BadInput, Conflict
from app.core.settings import Settings
from app.db import measurements, runs, samples, servers, suites
from app.db.database import Database
from app.db.tables import FULL_GEOMETRY
from app.demo import DemoEngine
from app.measure.active_run import RunProgress
from app.measure.job import left_out
from app.measure.runner import Runner
from app.schemas.run_document import run_document
from app.suites import BUILT_IN
from tests.databases import on_both
from tests.runner.conftest import add_server, run_named
from tests.runner.listeners import silent
from tests.waiting import until

pytestmark = pytest.mark.engine

ENDED = {"done", "failed", "cancelled", "interrupted"}


def status(database: Database, public_id: str) -> str:
    return run_named(database, public_id).status


@on_both
def test_a_run_goes_from_the_queue_to_its_numbers(
    database: Database, runner: Runner, real: str, short_suite: str
) -> None:
    (public_id,) = runner.queue(real, short_suite, note=" first ")
    until(lambda: status(database, public_id) in ENDED)
    with database.read() as session:
        document = run_document(session, public_id)
    run = document["run"]
    assert (run["status"], run["error"], run["note"]) == ("done", None, "first")
    assert run["config"]["engine"] == "llama.cpp"
    assert run["config"]["quantization"] == "Q4_K_M"
    assert run["config"]["settings"]["context"] == 4096
    assert [(device["name"], device["kind"]) for device in run["hardware"]] == [("Memory", "ram")]
    with database.read() as session:
        model = runs.run(session, public_id).model
    assert model is not None
    read = Geometry.from_json(model.geometry[FULL_GEOMETRY])
    assert (read.architecture, read.params_total) == ("gemma3", 268_098_176)
    assert [sample["warmup"] for sample in document["samples"]] == [True, False, False, False]
    for sample in document["samples"]:
        assert (sample["status"], sample["output_tokens"], sample["cached_tokens"]) == ("ok", 12, 0)
        assert set(sample["flags"]) <= {"client_scheduling_delay"}  # a busy machine is none of its faults
    metrics = {(m["key"], m["source"]): m for m in document["points"][0]["metrics"]}
    assert metrics["prefill_tokens_per_s", "server"]["samples"] == 3
    assert metrics["decode_tokens_per_s", "client"]["value"] > 0
    assert metrics["ttft_ms", "client"]["low"] <= metrics["ttft_ms", "client"]["value"]


def test_client_and_server_agree_on_decode(database: Database, runner: Runner, real: str) -> None:
    public_id = runner.perform(real, "triple", silent, repetitions=3, warmups=1)
    with database.read() as session:
        run = runs.run(session, public_id)
        assert run.id is not None
        decode = {
            measurement.source: measurement.value
            for measurement in measurements.measurements_of(session, run.id)
            if measurement.metric == "decode_tokens_per_s"
        }
    assert decode["client"] == pytest.approx(decode["server"], rel=0.01)


def test_cancel_keeps_the_finished_samples(database: Database, runner: Runner, real: str, long_suite: str) -> None:
    (public_id,) = runner.queue(real, long_suite)
    until(lambda: run_named(database, public_id).samples_done >= 1)
    runner.cancel(public_id)
    until(lambda: status(database, public_id) in ENDED)
    run = run_named(database, public_id)
    assert (run.status, run.error) == ("cancelled", None)
    with database.read() as session:
        assert run.id is not None
        assert len(samples.samples_of(session, run.id)) == run.samples_done >= 1
        assert measurements.measurements_of(session, run.id)
    with pytest.raises(Conflict, match="ended already"):
        runner.cancel(public_id)


def test_a_dead_worker_leaves_an_interrupted_run_with_its_samples_and_the_next_one_starts(
    database: Database, runner: Runner, real: str, long_suite: str, short_suite: str
) -> None:
    (first,) = runner.queue(real, long_suite)
    until(lambda: run_named(database, first).samples_done >= 1)
    (second,) = runner.queue(real, short_suite)
    assert status(database, second) == "queued"
    os.kill(run_named(database, first).worker_pid or 0, signal.SIGKILL)
    runner.watch()
    until(lambda: status(database, first) == "interrupted")
    run = run_named(database, first)
    assert run.error == "The worker process ended before the run did."
    with database.read() as session:
        assert run.id is not None
        assert len(samples.samples_of(session, run.id)) >= 1
        assert measurements.measurements_of(session, run.id)
    until(lambda: status(database, second) == "done")


def test_a_new_process_leaves_a_running_run_alone_and_resumes_the_queue(
    database: Database, settings: Settings, runner: Runner, real: str, long_suite: str, short_suite: str
) -> None:
    (first,) = runner.queue(real, long_suite)
    until(lambda: run_named(database, first).samples_done >= 1)
    (second,) = runner.queue(real, short_suite)
    restarted = Runner(database, settings)  # a web process that has just started
    restarted.watch()
    before = run_named(database, first)
    until(lambda: run_named(database, first).samples_done > before.samples_done)
    assert run_named(database, first).worker_pid == before.worker_pid
    restarted.cancel(first)
    until(lambda: status(database, second) == "done")
    restarted.stop_watching()
    for worker in restarted.workers():
        worker.wait()
    assert status(database, first) == "cancelled"


def test_one_run_at_a_time_on_a_machine_and_several_on_several(
    database: Database, runner: Runner, llama_server: DemoEngine, real: str, long_suite: str
) -> None:
    other_slug = add_server(database, llama_server.base_url, "llama.cpp", machine="other box", name="other")
    first, second, third = (runner.queue(slug, long_suite)[0] for slug in (real, real, other_slug))
    until(lambda: {status(database, first), status(database, third)} == {"running"})
    runner.dispatch()
    assert status(database, second) == "queued"
    for public_id in (second, first, third):
        runner.cancel(public_id)
    assert status(database, second) == "cancelled"  # at once: it had not begun
    until(lambda: status(database, first) == status(database, third) == "cancelled")


@on_both
def test_the_database_itself_forbids_two_running_runs_on_a_machine(
    database: Database,
) -> None:
    slug = add_server(database, "http://127.0.0.1:1", "openai")
    with database.write() as session:
        server = servers.server(session, slug)
        ids = [runs.add_run(session, server, BUILT_IN["triple"]).id for _ in range(2)]
    with database.write() as session:
        assert runs.claim(session, ids[0] or 0, 1, "somewhere")
        assert not runs.claim(session, ids[1] or 0, 2, "somewhere")
        assert not runs.claim(session, ids[0] or 0, 3, "somewhere")
    with database.write() as session:
        assert runs.finish(session, ids[0] or 0, "done")
        assert runs.claim(session, ids[1] or 0, 2, "somewhere")


def test_a_terminal_waits_for_its_turn(
    database: Database, settings: Settings, runner: Runner, real: str, long_suite: str, short_suite: str
) -> None:
    (first,) = runner.queue(real, long_suite)
    until(lambda: run_named(database, first).samples_done >= 1)
    heard: list[str] = []

    def listen(progress: RunProgress) -> None:
        heard.append(progress.phase)
        if len(heard) == 1:
            runner.cancel(first)

    public_id = Runner(database, settings).perform(real, short_suite, listen)
    assert heard[0] == "Waiting for 1 other run on this machine."
    assert status(database, public_id) == "done"


def test_runs_of_another_data_folder_are_left_alone(database: Database, runner: Runner, real: str) -> None:
    with database.write() as session:
        run = runs.add_run(session, servers.server(session, real), BUILT_IN["triple"])
        assert run.id is not None
        assert runs.claim(session, run.id, 1, "another folder")
    runner.dispatch()
    assert status(database, run.public_id) == "running"


def test_what_does_not_fit_is_left_out_and_said(database: Database, runner: Runner, real: str) -> None:
    with pytest.raises(BadInput, match="no suite"):
        runner.queue(real, "nope")
    ((case, sentence),) = left_out(BUILT_IN["lengths"], runner.refresh(real).context_tokens)
    assert case.point.prompt_tokens == 8000
    assert "4,096" in sentence
    public_id = runner.perform(real, "lengths", silent, repetitions=1, warmups=0)
    with database.read() as session:
        document = run_document(session, public_id)
    assert document["run"]["status"] == "done"
    assert [point["point"]["prompt_tokens"] for point in document["points"]] == [200, 2000, 8000]
    absent = document["points"][2]
    assert absent["metrics"] == []
    assert {null["reason"] for null in absent["nulls"]} == {"exceeds_context"}
    slopes = [m for m in document["points"][1]["metrics"] if m["source"] == "slope"]
    assert [m["key"] for m in slopes] == ["prefill_tokens_per_s"]


def test_a_prompt_that_fits_nowhere_fails_before_anything_is_sent(
    database: Database, runner: Runner, real: str
) -> None:
    with database.write() as session:
        key = suites.save_suite(session, "Huge", {"prompt": "word " * 6000, "output_tokens": 8}).key
    public_id = runner.perform(real, key, silent)
    run = run_named(database, public_id)
    assert run.status == "failed"
    assert "do not fit into the server's context of 4,096 tokens" in (run.error or "")
    assert run.samples_done == 0
