"""A run and a measurement of bandwidth keep each other out, whoever comes first and however closely."""

import threading
from collections.abc import Callable

import pytest
from sqlmodel import select

from app.core.errors import Conflict
from app.db import bandwidth, machines, runs, servers
from app.db.database import Database
from app.db.tables import BandwidthProbe, Machine, Run
from tests.databases import on_both


@pytest.fixture
def waiting(database: Database) -> int:
    """A queued run on a machine."""
    with database.write() as session:
        machine = machines.add_machine(session, "box")
        assert machine.id is not None
        server = servers.add_server(session, machine.id, "server", "openai", "http://127.0.0.1:9")
        run = Run(machine_id=machine.id, server_id=server.id or 0, suite_key="triple", suite_sha256="0")
        session.add(run)
        session.flush()
        assert run.id is not None
        return run.id


def claim(database: Database, run_id: int) -> bool:
    with database.write() as session:
        return runs.claim(session, run_id, 1, "here")


def probe(database: Database) -> int:
    with database.write() as session:
        added = bandwidth.add_probe(session, machines.machine(session, "box"))
        assert added.id is not None
        return added.id


@on_both
def test_a_run_waits_for_a_measurement_and_says_why(database: Database, waiting: int) -> None:
    probe_id = probe(database)
    assert not claim(database, waiting)
    with database.read() as session:
        run = session.get_one(Run, waiting)
        assert run.status == "queued"
        assert list(runs.next_queued(session)) == []
        assert runs.wait_reason(session, run) == "Waiting until the bandwidth of this machine has been measured."
    with database.write() as session:
        bandwidth.fail(session, probe_id, "broken off")
    with database.read() as session:
        assert list(runs.next_queued(session)) == [waiting]
        assert runs.wait_reason(session, session.get_one(Run, waiting)) == "Waiting for its turn."
    assert claim(database, waiting)


@on_both
def test_a_measurement_is_refused_while_a_run_runs(database: Database, waiting: int) -> None:
    assert claim(database, waiting)
    with pytest.raises(Conflict, match="A run is being measured on box: wait until it is done"):
        probe(database)
    with database.write() as session:
        runs.finish(session, waiting, "done")
    assert probe(database)


@on_both
def test_another_machine_is_not_asked(database: Database, waiting: int) -> None:
    with database.write() as session:
        bandwidth.add_probe(session, machines.add_machine(session, "other"))
    assert claim(database, waiting)


def meanwhile(action: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Begins it in a thread; what came of it is in the list when the thread has ended."""
    results: list[object] = []
    begun = threading.Event()

    def act() -> None:
        begun.set()
        try:
            results.append(action())
        except Conflict as error:
            results.append(str(error))

    thread = threading.Thread(target=act)
    thread.start()
    begun.wait()
    thread.join(0.3)  # it cannot end yet: the other transaction is open
    return thread, results


@on_both
def test_at_the_same_moment_the_measurement_came_first(database: Database, waiting: int) -> None:
    with database.write() as session:
        bandwidth.add_probe(session, machines.machine(session, "box"))
        thread, results = meanwhile(lambda: claim(database, waiting))
        assert results == []
    thread.join()
    assert results == [False]


@on_both
def test_at_the_same_moment_the_run_came_first(database: Database, waiting: int) -> None:
    with database.write() as session:
        assert runs.claim(session, waiting, 1, "here")
        thread, results = meanwhile(lambda: probe(database))
        assert results == []
    thread.join()
    assert results == ["A run is being measured on box: wait until it is done."]
    with database.read() as session:
        assert session.exec(select(BandwidthProbe)).all() == []
        assert session.exec(select(Machine)).one().name == "box"
