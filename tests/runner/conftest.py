from collections.abc import Iterator

import pytest

from app.core.settings import Settings
from app.db import machines, runs, servers, suites
from app.db.database import Database
from app.db.tables import Run
from app.demo import DemoEngine
from app.measure.runner import Runner


@pytest.fixture
def runner(database: Database, settings: Settings) -> Iterator[Runner]:
    runner = Runner(database, settings)
    yield runner
    runner.stop_watching()
    for process in runner.workers():
        process.kill()
        process.wait()


def add_server(database: Database, base_url: str, engine: str, machine: str = "box", name: str = "server") -> str:
    """A server on its own or an existing machine; returns its slug."""
    with database.write() as session:
        existing = next((m for m in machines.list_machines(session) if m.name == machine), None)
        owner = existing or machines.add_machine(session, machine)
        assert owner.id is not None
        return servers.add_server(session, owner.id, name, engine, base_url).slug


@pytest.fixture
def real(database: Database, llama_server: DemoEngine) -> str:
    """The slug of a server with a real engine behind it."""
    return add_server(database, llama_server.base_url, "llama.cpp")


@pytest.fixture
def long_suite(database: Database) -> str:
    """A suite whose samples take long enough to be interrupted."""
    with database.write() as session:
        definition = {"prompt": "Tell me a very long story.", "output_tokens": 100, "repetitions": 60, "warmups": 0}
        return suites.save_suite(session, "Long", definition).key


@pytest.fixture
def short_suite(database: Database) -> str:
    with database.write() as session:
        prompt = "The sea is wide and the boats are small. " * 12
        definition = {"prompt": prompt, "output_tokens": 12, "repetitions": 3, "warmups": 1}
        return suites.save_suite(session, "Short", definition).key


def run_named(database: Database, public_id: str) -> Run:
    with database.read() as session:
        return runs.run(session, public_id)
