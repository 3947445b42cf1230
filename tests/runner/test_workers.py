"""Locks of workers, and databases that others hold."""

import sqlite3
import threading
from pathlib import Path

import pytest

from app.core.errors import Busy, Conflict, NotFound
from app.core.settings import Settings
from app.db import machines, runs, servers
from app.db.database import Database
from app.measure import workers
from app.measure.active_run import RunProgress
from app.measure.runner import Runner
from app.suites import BUILT_IN
from tests.replay import Script, case, serve
from tests.runner.conftest import add_server, run_named


def test_a_lock_has_one_holder_and_is_gone_afterwards(settings: Settings) -> None:
    assert not workers.is_held(settings, "abc")
    with workers.hold(settings, "abc") as is_locked:
        assert is_locked
        assert workers.is_held(settings, "abc")
    assert not workers.is_held(settings, "abc")


def test_looking_never_removes_what_another_process_is_about_to_take(settings: Settings) -> None:
    stop, wrong = threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            workers.is_held(settings, "abc")

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    for _ in range(100):
        with workers.hold(settings, "abc") as is_locked:
            if not is_locked or not workers.is_held(settings, "abc"):
                wrong.append(is_locked)
    stop.set()
    for looker in lookers:
        looker.join()
    assert wrong == []


def test_an_unknown_run_leaves_nothing_behind(runner: Runner, settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        runner.run_worker("../../x", lambda _: None)
    assert not list(tmp_path.rglob("x.lock"))


def test_a_database_that_others_hold_for_a_while_loses_no_sample(
    database: Database, settings: Settings, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.database.BUSY_TIMEOUT_MS", 50)
    hasty = Database(settings.effective_database_url)
    holder = sqlite3.connect(str(database.url.database), isolation_level=None, check_same_thread=False)

    def listen(progress: RunProgress) -> None:
        if progress.done == 1 and progress.sample is not None:
            holder.execute("BEGIN IMMEDIATE")
            threading.Timer(0.5, holder.execute, ["COMMIT"]).start()

    models = Script.json({"data": [{"id": "syn-1"}]})
    with serve({"/v1/chat/completions": case("S11"), "/v1/models": models}, pace=0.1) as replay:
        slug = add_server(database, replay.url, "openai")
        public_id = Runner(hasty, settings).perform(slug, "triple", listen, repetitions=3, warmups=0)
    holder.close()
    hasty.dispose()
    run = run_named(database, public_id)
    assert (run.status, run.error, run.samples_done) == ("done", None, 3)


def test_what_is_archived_is_not_measured(database: Database, runner: Runner) -> None:
    slug = add_server(database, "http://127.0.0.1:9", "openai")
    with database.write() as session:
        server = servers.server(session, slug)
        queued = runs.add_run(session, server, BUILT_IN["triple"]).public_id
        servers.archive_server(session, slug)
    runner.run_worker(queued, lambda _: None)
    run = run_named(database, queued)
    assert run.status == "failed"
    assert "is archived" in (run.error or "")
    with database.write() as session:
        servers.archive_server(session, slug, archived=False)
        machines.archive_machine(session, machines.list_machines(session)[0].slug)
    with pytest.raises(Conflict, match="The machine 'box' is archived"):
        runner.queue(slug, "triple")


def test_probes_do_not_pile_up(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Barrier(5), threading.Event()

    def slow(*_: object, **__: object) -> object:
        entered.wait(60)
        leave.wait(60)
        raise Conflict("done")

    monkeypatch.setattr("app.engines.probe", slow)

    def probe() -> None:
        with pytest.raises(Conflict):
            runner.probe("http://127.0.0.1:9", None)

    threads = [threading.Thread(target=probe) for _ in range(4)]
    for thread in threads:
        thread.start()
    entered.wait(60)
    with pytest.raises(Busy, match="try again"):
        runner.probe("http://127.0.0.1:9", None)
    leave.set()
    for thread in threads:
        thread.join()
