"""What this machine's sensors show while a real engine is measured: a competitor for the processor, memory."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.core.settings import Settings
from app.db import machines, servers, suites
from app.db.database import Database
from app.db.measurements import measurements_of
from app.demo import DemoEngine
from app.hardware.host import logical_cores
from app.measure.runner import Runner
from app.results.compare.soundness import unsound_by_run
from tests.runner.conftest import run_named
from tests.waiting import until

pytestmark = pytest.mark.engine

ENDED = {"done", "failed", "cancelled", "interrupted"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"sensors": True})


@pytest.fixture
def server_here(database: Database, llama_server: DemoEngine) -> str:
    with database.write() as session:
        machine = machines.ensure_local_machine(session)
        assert machine.id is not None
        return servers.add_server(session, machine.id, "here", "llama.cpp", llama_server.base_url).slug


@contextmanager
def burners(count: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_competitor_that_starts_during_the_run_makes_it_unsound(
    database: Database, runner: Runner, server_here: str
) -> None:
    with database.write() as session:
        definition = {"prompt": "Tell me a story.", "output_tokens": 8, "repetitions": 8, "warmups": 1}
        suite = suites.save_suite(session, "Story", definition).key
    (public_id,) = runner.queue(server_here, suite)
    until(lambda: run_named(database, public_id).samples_done >= 2)
    with burners(logical_cores()):  # two further samples, so that there is a pause between them
        done = run_named(database, public_id).samples_done
        until(lambda: run_named(database, public_id).samples_done >= done + 2)
    until(lambda: run_named(database, public_id).status in ENDED)
    run = run_named(database, public_id)
    assert (run.status, run.error) == ("done", None)
    (during,) = (disturbance for disturbance in run.evidence["unsound"] if disturbance.get("when") == "during")
    assert during["kind"] == "machine_busy"
    assert 0.2 <= during["share"] <= 1
    assert any(warning.startswith("Other programs used up to") for warning in run.evidence["warnings"])
    with database.read() as session:
        reasons = unsound_by_run(session, [public_id])[public_id]
    assert any(reason.startswith("other programs used this machine during the run") for reason in reasons)


def test_the_memory_of_the_engine_is_measured(database: Database, runner: Runner, server_here: str) -> None:
    """Its model's file alone has 250 MB; one read twice a second needs an answer that takes a while."""
    with database.write() as session:
        definition = {"prompt": "Tell me a very long story.", "output_tokens": 150, "repetitions": 2, "warmups": 0}
        suite = suites.save_suite(session, "Memory", definition).key
    (public_id,) = runner.queue(server_here, suite)
    until(lambda: run_named(database, public_id).status in ENDED)
    with database.read() as session:
        results = measurements_of(session, run_named(database, public_id).id or 0)
    (used,) = (result for result in results if result.metric == "server_memory_gb")
    assert used.value is not None
    assert 0.2 < used.value < 4
