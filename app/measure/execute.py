"""One run from the queue to its result. A worker process and a terminal use the same code."""

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from sqlmodel import Session

from app import engines
from app.core.errors import Cancelled, RoofmarkError, ServerError
from app.core.i18n import _
from app.core.samples import Status
from app.core.secrets import Secrets
from app.core.server_metrics import ServerMetric
from app.core.settings import Settings
from app.db import machines, measurements, runs, servers, suites
from app.db.database import Database
from app.db.tables import Server
from app.engines.base import STATED_ENGINE, Counters, Engine, ModelInfo, ServerInfo
from app.engines.http import ServerClient
from app.hardware.foreign_load import CpuMeter
from app.hardware.sensor_process import SensorProcess
from app.measure import run_checks, workers
from app.measure.active_run import ActiveRun, Listener, RunProgress
from app.measure.config_snapshot import (
    ConfigFreezer,
    choose_model,
    context_tokens,
    requested_context,
    server_facts,
)
from app.measure.interference import BusyCheck, read_counters
from app.measure.job import Job, Prepared, prepare, sample_marks, step_label
from app.measure.live import LiveWriter
from app.measure.notify import notify_run_ended
from app.measure.play import failure_reason, run_suite
from app.measure.server_load import load_metrics, watch_server_load
from app.measure.server_log import open_server_log
from app.measure.server_process import port_of
from app.measure.waiting import Phase, Stop, WaitLimits, wait_until_ready
from app.results import hardware
from app.results.run_time import EarlierRuns

log = logging.getLogger(__name__)


def execute_run(database: Database, settings: Settings, public_id: str, listen: Listener, stop: Stop) -> str | None:
    """Claims a queued run and measures it; returns the state it ended in, or None when it could not be claimed.

    The caller holds the run's worker lock. It never raises for anything that a server or a person did: the run's
    `error` states it in one sentence. Raises StorageError when the database itself fails.
    """
    with database.write() as session:
        run = runs.run(session, public_id)
        assert run.id is not None
        if not runs.claim(session, run.id, os.getpid(), workers.instance_id(settings)):
            return None
    status, error = _run_to_end(database, settings, public_id, listen, stop)
    with database.write() as session:
        runs.finish(session, run.id, status, error)
    notify_run_ended(database, settings, public_id)
    return status


def _run_to_end(
    database: Database, settings: Settings, public_id: str, listen: Listener, stop: Stop
) -> tuple[str, str | None]:
    """Returns the state that a run ends in, and why."""
    try:
        with database.read() as session:
            run = runs.run(session, public_id)
            machine, server = run.machine, run.server
            runs.refuse_archived(server, machine)
            suite = suites.suite_by_sha256(session, run.suite_key, run.suite_sha256)
        suite = suite.with_counts(run.plan["repetitions"], run.plan["warmups"])
        planned = suite.sample_count(suite.cases)
        is_local = machines.is_local_machine(machine)
        active = ActiveRun(database, settings, run, server, is_local, suite, stop, listen, planned)
        with stop.on_signals():
            error = _measure(active)
        return ("failed", error) if error else ("done", None)
    except Cancelled:  # the person asked for it
        return "cancelled", None
    except RoofmarkError as error:
        log.info("run %s failed", public_id, exc_info=True)
        return "failed", error.message
    except Exception:  # a run always ends in a state
        log.exception("run %s failed unexpectedly", public_id)
        return "failed", _("Something went wrong inside Roofmark; the log says what.")


def _measure(active: ActiveRun) -> str | None:
    """Measures the whole run; returns why it has no result, None when it has one."""
    api_key = Secrets(active.settings).api_key(active.server.api_key_encrypted)
    with engines.open_client(active.server.base_url, api_key, active.settings, active.server.capabilities) as client:
        engine = engines.find(active.server.engine)
        limits = WaitLimits(active.settings.loading_timeout_s, active.settings.busy_timeout_s)
        for phase in wait_until_ready(engine, client, limits, active.stop):
            active.report_phase(phase)
        job, model, freezer = _plan(active, engine, client, limits)
        prepared = prepare(job)
        active.busy_check = BusyCheck(CpuMeter(port_of(client.base_url))) if active.is_local else None
        _store_start(active, prepared, freezer, is_elsewhere=model is not None and model.runs_on is not None)
        before, is_complete = read_counters(engine, client), False
        active.run.evidence = {**active.run.evidence, **run_checks.counted("counters_before", before)}
        if freezer.is_model_loaded:
            freezer.freeze()
        try:
            _play(active, job, prepared, freezer, api_key)
            is_complete = True
        finally:
            freezer.freeze()
            # the server has counted a cancelled round whose answers were not read
            after = read_counters(engine, client) if is_complete else None
            notes = () if active.stop.requested else _notes_after_run(job)
            metrics = [*_counter_metrics(active, engine, model, before, after), *load_metrics(active.load_readings)]
            _conclude(active, before, after, notes, metrics)
    return failure_reason(active.samples)


def _plan(
    active: ActiveRun, engine: Engine, client: ServerClient, limits: WaitLimits
) -> tuple[Job, ModelInfo | None, ConfigFreezer]:
    """Returns what to measure, and of which model, as the server reports it now: it may run another model than at the
    last run."""
    info, capabilities = _probe_server(active, client)
    model = choose_model(info, active.run.plan.get("model"))
    document = _model_document(engine, client, model)
    if model is not None and (host := model.runs_on or engine.runs_on(document or {})):
        model, active.is_local = replace(model, runs_on=host), False
    if model is not None:
        client.backend = model.engine
        if model.is_loaded is not None:
            client.model = model.id
    _remember_settings(active, model.id if model is not None and len(info.models) > 1 else None)
    fitting, requested = context_tokens(info, model), None
    if engine.context_per_request:
        stated = servers.stated_settings(active.server, model.id if model else None).get("context")
        requested = requested_context(engine, model, stated, active.suite, document)
        info = replace(info, context_tokens=requested)
        fitting = requested or (model.max_context_tokens if model else None)
        if model is not None:  # where it is now says nothing of where its request will find it
            model = replace(model, context_tokens=None, settings={}, notes=())
    job = Job(
        engine=engine,
        client=client,
        suite=active.suite,
        model_id=model.id if model else None,
        context_tokens=fitting,
        requested_context=requested,
        own_system=engine.own_system(document or {}),
        capabilities=capabilities,
        limits=limits,
    )
    return job, model, ConfigFreezer(active, engine, client, info, model, document)


def _remember_settings(active: ActiveRun, model_id: str | None) -> None:
    """Keeps what a person stated with this run: of its model, where the server has several."""
    settings = active.run.plan.get("settings")
    if not settings:
        return

    def store(session: Session) -> Server | None:
        servers.remember(session, active.run.server_id, settings=settings, model_id=model_id)
        return session.get(Server, active.run.server_id)

    row = active.write(store)
    if row is not None:
        active.server = row


def _probe_server(active: ActiveRun, client: ServerClient) -> tuple[ServerInfo, Mapping[str, Any]]:
    """Returns what the server reports, and all that is known of what it accepts."""
    is_believed = STATED_ENGINE in active.server.capabilities
    info = engines.probe(client, active.server.engine, is_believed=is_believed)
    server_id, facts = active.run.server_id, server_facts(active.server.base_url, info)
    with active.database.write() as session:
        servers.remember(session, server_id, facts=facts, capabilities=info.capabilities)
        server = session.get(Server, server_id)
        return info, dict(server.capabilities) if server else info.capabilities


def _model_document(engine: Engine, client: ServerClient, model: ModelInfo | None) -> Mapping[str, Any] | None:
    """Returns the server's description of the model. Without it there may be no ceiling, but there is a run."""
    try:
        return engine.model_document(client, model.id) if model else None
    except ServerError:  # the run goes on with what the request tells
        log.info("the server does not describe its model", exc_info=True)
        return None


def _store_start(active: ActiveRun, prepared: Prepared, freezer: ConfigFreezer, *, is_elsewhere: bool) -> None:
    """Stores what is known before the first request. `is_elsewhere`: another machine runs the model for the server."""
    load_share = active.busy_check.measure_before(active.stop) if active.busy_check else None
    stated = freezer.stated_words()
    active.run.evidence = run_checks.before(prepared, freezer.warnings(), load_share, stated)
    active.planned = active.suite.sample_count(prepared.fitting)
    active.marks = sample_marks(active.suite, prepared.fitting, ())
    if stated is not None:
        active.listen(RunProgress(stated, 0, active.planned))
    with active.database.write() as session:
        runs.record_progress(
            session,
            active.run_id,
            hardware=[] if is_elsewhere else hardware.freeze(session, active.run),
            evidence=active.run.evidence,
            samples_planned=active.planned,
            main_point_key=prepared.cases[0][0].point.key,
            progress={
                "phase": _("Measuring."),
                "step": step_label(active.suite, prepared.fitting, 0),
                "marks": active.marks,
                **_expected_end(session, active, prepared),
            },
        )


def _expected_end(session: Session, active: ActiveRun, prepared: Prepared) -> dict[str, float]:
    """How long the run takes by earlier ones, until its first sample gives a better estimate; empty where unknown."""
    time_of_run = EarlierRuns(session, active.run.server_id, None).time_of(active.suite, prepared.fitting)
    return {"remaining_s": time_of_run.seconds, "at": time.time()} if time_of_run else {}


def _play(active: ActiveRun, job: Job, prepared: Prepared, freezer: ConfigFreezer, api_key: str | None) -> None:
    """Plays the suite while sensors, server load and log are followed, and stores each sample."""
    with (
        watch_sensors(active.is_local, active.settings, port_of(job.client.base_url)) as active.sensors,
        watch_server_load(job.engine, job.client, api_key, active.settings) as active.server_load,
        open_server_log(active.server.log_path, job.engine.answering(job.client)) as (server_log, log_problem),
        LiveWriter(workers.live_path(active.settings, active.run.public_id), active.show_arrived) as live,
    ):
        job.client.on_stream = live.add_stream
        if active.busy_check is not None:
            processes = (active.sensors, active.server_load)
            active.busy_check.meter.own_pids = [process.pid for process in processes if process and process.pid]
            job = replace(job, busy_check=active.busy_check if active.settings.sensors else None)
        active.warn(log_problem)
        for step in run_suite(replace(job, log=server_log, live=live), prepared, active.stop):
            if isinstance(step, Phase):
                active.report_phase(step)
            else:
                active.store_sample(step, prepared)
                freezer.freeze_after_first_round()
        active.warn(freezer.wrong_model_warning())
        active.warn(server_log.warning if server_log else None)


@contextmanager
def watch_sensors(is_local: bool, settings: Settings, server_port: int) -> Iterator[SensorProcess | None]:
    """Returns the process that reads this machine's sensors, and the memory of the server on this port; None when the
    server is on another machine or sensors are off."""
    if not settings.sensors or not is_local:
        yield None
        return
    with SensorProcess(stdin_payload=json.dumps({"server_port": server_port}).encode() + b"\n") as process:
        yield process


def _conclude(
    active: ActiveRun,
    before: Counters | None,
    after: Counters | None,
    notes: Sequence[str],
    server_metrics: Sequence[ServerMetric],
) -> None:
    """Derives the numbers of what was measured, and stores what the server's counters and notes report about it."""
    evidence = {
        **run_checks.after(
            active.run.evidence, active.samples, before, after, notes, server_metrics, active.busy_check
        ),
        **run_checks.counted("counters", after or before),
        "no_sensors": run_checks.missing_sensors_reason(active.is_local, active.sensors, active.samples),
    }

    def store(session: Session) -> None:
        measurements.derive(session, active.run_id)
        runs.record_progress(session, active.run_id, evidence=evidence)

    active.write(store)


def _notes_after_run(job: Job) -> Sequence[str]:
    """Returns what the server reports of itself after it has worked: some load the model only then, and wherever it
    fits."""
    try:
        info = job.engine.detect(job.client)
    except ServerError:  # it has failed since, which the run reports
        return ()
    if info is None:
        return ()
    model, requested = info.model(job.model_id), job.requested_context
    if model is not None:
        with suppress(ServerError):  # the list of models then says all that is known of it
            model = job.engine.loaded_model(job.client, model)
    notes = (*info.notes, *(model.notes if model is not None else ()))
    loaded = model.context_tokens if model is not None else None
    if loaded is None or requested is None or loaded >= requested:
        return notes
    sentence = _(
        "The server loaded the model with a context of {loaded:,} tokens instead of the requested {requested:,}.",
        loaded=loaded,
        requested=requested,
    )
    return (*notes, sentence)


def _counter_metrics(
    active: ActiveRun, engine: Engine, model: ModelInfo | None, before: Counters | None, after: Counters | None
) -> Sequence[ServerMetric]:
    """Returns what the server's own counters report for the whole run; empty when they restarted."""
    if before is None or after is None or after.was_reset(before):
        return ()
    answered = sum(sample.trace.status is Status.OK for sample in active.samples)
    return engine.server_metrics(before, after, model.id if model else None, answered)
