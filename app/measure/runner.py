"""Queueing runs, starting workers, and noticing those that died. The database is the only channel between processes."""

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict, Unpack

from sqlmodel import Session

from app import engines
from app.core.errors import Busy, Cancelled, Conflict, RoofmarkError
from app.core.i18n import _
from app.core.secrets import Secrets
from app.core.settings import Settings
from app.db import measurements, runs, servers, suites
from app.db.configs import split_models
from app.db.database import Database
from app.db.tables import Run, new_public_id
from app.engines.base import STATED_ENGINE, ServerInfo
from app.measure import workers
from app.measure.active_run import Listener, RunProgress
from app.measure.bandwidth_process import fail_dead_probes
from app.measure.config_snapshot import server_facts
from app.measure.execute import execute_run
from app.measure.waiting import Stop

log = logging.getLogger(__name__)

DISPATCH_INTERVAL_S = 2.0
MAX_CONCURRENT_PROBES = 4
RECOMPUTE_BATCH = 50


class RunOptions(TypedDict, total=False):
    """How a run differs from what its server and its suite say."""

    repetitions: int | None
    warmups: int | None
    model: str | None
    note: str
    settings: Mapping[str, Any]
    """What a person states of the model; remembered as soon as it is known which one that is."""


class Runner:
    """Queues runs and starts their workers, in the web process and on the command line; several may live at once."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._probes = threading.BoundedSemaphore(MAX_CONCURRENT_PROBES)
        self._stopping = threading.Event()
        self._recomputed_from: int | None = None
        """Runs from this id on have been derived with the current formulas."""
        self._thread: threading.Thread | None = None

    # --- runs ---

    def queue(
        self, server_slug: str, suite_keys: str | Sequence[str], count: int = 1, **options: Unpack[RunOptions]
    ) -> list[str]:
        """Adds `count` runs of each suite, and starts the first one if its machine is free; returns their public ids in
        order. Raises RoofmarkError, and then adds none.

        They are measured one after another, the suites in turn (A B A B): what drifts meanwhile touches all alike.
        """
        in_turn = [suite_keys] if isinstance(suite_keys, str) else list(dict.fromkeys(suite_keys))
        runs.check_run_count(count, len(in_turn))
        planned = [(new_public_id(), suite_key) for _ in range(count) for suite_key in in_turn]
        self._add(planned, server_slug, options)
        self.dispatch()
        return [public_id for public_id, _ in planned]

    def perform(self, server_slug: str, suite_key: str, listen: Listener, **options: Unpack[RunOptions]) -> str:
        """Queues a run, waits for its turn and measures it in this very process; returns its public id.

        A run that is cancelled, even while it waits, ends in that state; nothing is raised for it. Earlier runs are
        brought up to date first: the new one will be compared with them.
        """
        while not self.is_measuring() and self.bring_up_to_date():
            listen(RunProgress(_("Recomputing the numbers of earlier runs."), 0, 0))
        public_id = new_public_id()
        with workers.hold(self._settings, public_id):  # from the start, so that no dispatcher takes it
            self._add([(public_id, suite_key)], server_slug, options)
            self._wait_and_execute(public_id, listen)
        self.dispatch()
        return public_id

    def _add(self, planned: Sequence[tuple[str, str]], server_slug: str, options: RunOptions) -> None:
        """Adds runs by their public ids and suites, in order."""
        counts = options.get("repetitions"), options.get("warmups")
        batch = planned[0][0] if len(planned) > 1 else None
        with self._database.write() as session:
            by_key = {key: suites.suite(session, key).with_counts(*counts) for _, key in planned}
            server = servers.server(session, server_slug)
            note = options.get("note", "").strip()
            for public_id, suite_key in planned:
                runs.add_run(
                    session,
                    server,
                    by_key[suite_key],
                    model=options.get("model"),
                    note=note,
                    public_id=public_id,
                    settings=options.get("settings"),
                    batch=batch,
                )

    def _wait_and_execute(self, public_id: str, listen: Listener) -> None:
        stop = Stop()
        while execute_run(self._database, self._settings, public_id, listen, stop) is None:
            with self._database.read() as session:
                run = runs.run(session, public_id)
                reason = runs.wait_reason(session, run)
            if run.status != "queued":
                return  # cancelled by another process
            listen(RunProgress(reason, 0, run.samples_planned))
            try:
                with stop.on_signals():
                    stop.sleep(DISPATCH_INTERVAL_S / 2)
            except Cancelled:  # cancelled while it waited for its turn
                self.cancel(public_id)
                return
            self.dispatch()

    def run_worker(self, public_id: str, listen: Listener) -> None:
        """Measures one run, if it is still to be had, then starts the next: what a worker process does."""
        with self._database.read() as session:
            runs.run(session, public_id)  # Raises NotFound
        with workers.hold(self._settings, public_id) as is_locked:
            if is_locked:
                execute_run(self._database, self._settings, public_id, listen, Stop())
        self.dispatch()

    def cancel(self, public_id: str) -> None:
        """Cancels a queued run at once, and asks a running one to stop. Raises NotFound, Conflict."""
        with self._database.write() as session:
            run = runs.run(session, public_id)
            assert run.id is not None
            if not runs.request_cancel(session, run.id):
                raise Conflict(_("The run has ended already: it is {status}.", status=_(run.status)))
        is_local = run.worker_instance == workers.instance_id(self._settings)
        if run.status == "running" and run.worker_pid and is_local and workers.is_held(self._settings, public_id):
            try:
                os.kill(run.worker_pid, signal.SIGTERM)
            except ProcessLookupError:  # it has ended by itself
                self.dispatch()

    def cancel_batch(self, public_id: str) -> int:
        """Cancels the runs that wait and were queued together with this one; returns how many. Raises NotFound."""
        with self._database.write() as session:
            waiting = runs.waiting_in_batch(session, runs.run(session, public_id).plan.get("batch"))
            return sum(runs.request_cancel(session, run.id) for run in waiting if run.id is not None)

    # --- workers ---

    def dispatch(self) -> None:
        """Marks runs whose process has died as interrupted, and starts the next queued run of every idle machine."""
        with self._lock:
            self._workers = {key: process for key, process in self._workers.items() if process.poll() is None}
            self._mark_interrupted()
            fail_dead_probes(self._database, self._settings)
            with self._database.read() as session:
                queued = [session.get(Run, run_id) for run_id in runs.next_queued(session)]
            for run in queued:
                if run is None or run.public_id in self._workers or workers.is_held(self._settings, run.public_id):
                    continue  # a terminal waits with it, or its worker is starting
                self._workers[run.public_id] = workers.start(
                    self._settings, f"run-{run.public_id}", "worker", run.public_id
                )

    def _mark_interrupted(self) -> None:
        with self._database.read() as session:
            running = self._running_locally(session)
        for run in running:
            if workers.is_held(self._settings, run.public_id):
                continue
            assert run.id is not None
            with self._database.write() as session:
                if runs.finish(session, run.id, "interrupted", _("The worker process ended before the run did.")):
                    log.warning("run %s lost its worker", run.public_id)
                    workers.live_path(self._settings, run.public_id).unlink(missing_ok=True)
                    measurements.derive(session, run.id)

    def watch(self) -> None:
        """Dispatches now and every two seconds until `stop_watching`, in a thread of its own."""
        self._thread = threading.Thread(target=self._watch, name="roofmark-runner", daemon=True)
        self._thread.start()

    def stop_watching(self) -> None:
        """Ends the dispatching. Workers go on: a restart of the web process does not touch a running run."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def bring_up_to_date(self) -> bool:
        """Derives some runs of older formulas or flag rules again from their samples, the newest first.

        Returns whether there may be more. Each run is tried once; one that cannot be computed keeps what it has.
        """
        if self._recomputed_from is None:
            with self._database.write() as session:
                split_models(session)
        with self._database.read() as session:
            run_ids = measurements.outdated(session, RECOMPUTE_BATCH, before=self._recomputed_from)
        for run_id in run_ids:
            if self._stopping.is_set():
                break
            try:
                with self._database.write() as session:
                    measurements.derive_anew(session, run_id)
            except RoofmarkError:  # a busy database or a full disk: to be tried again
                raise
            except Exception:  # the next run is derived all the same
                log.exception("the numbers of run %d could not be computed anew", run_id)
            self._recomputed_from = run_id
        return bool(run_ids)

    def is_measuring(self) -> bool:
        """Whether a worker of this data folder is running, since computing would take processor time from it."""
        with self._database.read() as session:
            return bool(self._running_locally(session))

    def _running_locally(self, session: Session) -> list[Run]:
        """Returns the runs that workers of this data folder measure."""
        instance = workers.instance_id(self._settings)
        return [run for run in runs.running(session) if run.worker_instance == instance]

    def _watch(self) -> None:
        is_up_to_date = False
        while True:
            try:
                self.dispatch()
                # a few in each round, so that the queue is not delayed
                if not is_up_to_date and not self.is_measuring():
                    is_up_to_date = not self.bring_up_to_date()
            except RoofmarkError as error:  # a busy database or a full disk: the next round tries again
                log.warning("%s", error)
            except Exception:  # the thread lives on and tries again
                log.exception("the queue could not be served")
            if self._stopping.wait(DISPATCH_INTERVAL_S):
                return

    def workers(self) -> Sequence[subprocess.Popen[bytes]]:
        """The worker processes that this object started and that still run."""
        return [process for process in self._workers.values() if process.poll() is None]

    # --- servers ---

    def probe(
        self,
        url: str,
        api_key: str | None,
        engine: str | None = None,
        *,
        is_believed: bool = True,
        capabilities: Mapping[str, Any] | None = None,
    ) -> ServerInfo:
        """Returns what the server at `url` reports (see engines.probe). Raises ServerError, BadInput, Busy."""
        with self._limited_probes(), engines.open_client(url, api_key, self._settings, capabilities) as client:
            return engines.probe(client, engine, is_believed=is_believed)

    def discover(self) -> Sequence[tuple[str, ServerInfo]]:
        """Returns the servers on the well-known ports of this machine. Raises Busy."""
        with self._limited_probes():
            return engines.discover(self._settings)

    @contextmanager
    def _limited_probes(self) -> Iterator[None]:
        """Limits simultaneous probes: slow servers must not take all threads of the web process."""
        if not self._probes.acquire(blocking=False):
            raise Busy(_("Several servers are being probed right now: try again in a moment."))
        try:
            yield
        finally:
            self._probes.release()

    def refresh(self, server_slug: str) -> ServerInfo:
        """Probes a stored server again and stores what it reports. Raises ServerError, NotFound."""
        with self._database.read() as session:
            server = servers.server(session, server_slug)
        key = Secrets(self._settings).api_key(server.api_key_encrypted)
        is_believed = STATED_ENGINE in server.capabilities
        info = self.probe(
            server.base_url, key, server.engine, is_believed=is_believed, capabilities=server.capabilities
        )
        assert server.id is not None
        facts = server_facts(server.base_url, info)
        with self._database.write() as session:
            servers.remember(session, server.id, facts=facts, capabilities=info.capabilities, anew=True)
        return info
