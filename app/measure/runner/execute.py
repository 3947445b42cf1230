"""One run from its queue to its result. The same code serves a worker process and a terminal."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

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
from app.measure import bench
from app.measure.bench import BusyCheck, Job, Limits, Phase, Stop, server_load
from app.measure.runner import logfile, notify, run_checks, sensing, workers
from app.measure.runner.active_run import ActiveRun, Listener
from app.measure.runner.config_snapshot import chosen_model, context_tokens, facts_json, with_context
from app.measure.runner.freezing import Freezing, model_document

log = logging.getLogger(__name__)


def execute_run(database: Database, settings: Settings, public_id: str, listen: Listener, stop: Stop) -> str | None:
    """Claims a queued run and measures it; returns the state it ended in, or None when it was not to be had.

    The caller holds the run's worker lock. Never raises for anything that a server or a person did: the run's
    `error` says it in one sentence. Raises StorageError when the database itself fails.
    """
    with database.write() as session:
        run = runs.run(session, public_id)
        assert run.id is not None
        if not runs.claim(session, run.id, os.getpid(), workers.instance_id(settings)):
            return None
    status, error = _measured(database, settings, public_id, listen, stop)
    with database.write() as session:
        runs.finish(session, run.id, status, error)
    notify.ended(database, settings, public_id)
    return status


def _measured(
    database: Database, settings: Settings, public_id: str, listen: Listener, stop: Stop
) -> tuple[str, str | None]:
    """The state a run ends in, and why."""
    try:
        with database.read() as session:
            run = runs.run(session, public_id)
            machine, server, _, _ = runs.circumstances(session, run)
            runs.refuse_archived(server, machine)
            suite = suites.suite_by_sha256(session, run.suite_key, run.suite_sha256)
        suite = suite.with_counts(run.plan["repetitions"], run.plan["warmups"])
        planned = suite.sample_count(suite.cases)
        is_here = machines.is_here(machine)
        measuring = ActiveRun(database, settings, run, server, is_here, suite, stop, listen, planned)
        with stop.on_signals():
            error = _measure(measuring)
        return ("failed", error) if error else ("done", None)
    except Cancelled:
        return "cancelled", None
    except RoofmarkError as error:
        log.info("run %s failed", public_id, exc_info=True)
        return "failed", error.message
    except Exception:
        log.exception("run %s failed unexpectedly", public_id)
        return "failed", _("Something went wrong inside Roofmark; the log says what.")


def _measure(m: ActiveRun) -> str | None:
    key = Secrets(m.settings).api_key(m.server.api_key_encrypted)
    with engines.open_client(m.server.base_url, key, m.settings, m.server.capabilities) as client:
        engine = engines.find(m.server.engine)
        limits = Limits(m.settings.loading_timeout_s, m.settings.busy_timeout_s)
        for phase in bench.wait_until_ready(engine, client, limits, m.stop):
            m.tell(phase)
        facts, capabilities = _probed(m, client)
        model = chosen_model(facts, m.run.plan.get("model"))
        document = model_document(engine, client, model)
        if model is not None and (host := model.runs_on or engine.runs_on(document or {})):
            model, m.is_here = replace(model, runs_on=host), False
        if model is not None and model.is_loaded is not None:
            client.model = model.id
        facts = with_context(facts, engine, model, m.server.settings.get("context"), m.suite)
        job = Job(
            engine=engine,
            client=client,
            suite=m.suite,
            model_id=model.id if model else None,
            context_tokens=context_tokens(facts, model),
            capabilities=capabilities,
            limits=limits,
        )
        prepared = bench.prepare(job)
        m.busy_check = BusyCheck(CpuMeter(_port(client.base_url))) if m.is_here else None
        freezing = Freezing(m, engine, client, facts, model, document)
        freezing.begin(prepared)
        before, is_whole = bench.counters(engine, client), False
        try:
            with (
                sensing.watching(m.is_here, m.settings) as watch,
                server_load.watching(engine, client, key, m.settings) as load_watch,
                logfile.following(m.server.log_path, engine) as (log_file, trouble),
            ):
                m.watch = watch
                if m.busy_check is not None:
                    m.busy_check.meter.own_pids = [each.pid for each in (watch, load_watch) if each and each.pid]
                    job = replace(job, busy_check=m.busy_check if m.settings.sensors else None)
                if trouble:
                    m.warn(trouble)
                for step in bench.run_suite(replace(job, log=log_file), prepared, m.stop):
                    if isinstance(step, Phase):
                        m.tell(step)
                    else:
                        m.load += sensing.during(step, load_watch)
                        m.keep(sensing.sensed(step, watch), prepared)
                        freezing.after_a_round()
                is_whole = True
                if sentence := freezing.answered_by_another():
                    m.warn(sentence)
                if log_file is not None and log_file.doubt:
                    m.warn(log_file.doubt)
        finally:
            freezing.end()
            # of a round that was broken off the server has counted what nobody here has seen
            after = bench.counters(engine, client) if is_whole else None
            notes = () if m.stop.requested else _notes(job)
            counted = [*_counted(m, engine, model, before, after), *server_load.counted(m.load)]
            _conclude(m, before, after, notes, counted)
    return bench.verdict([each.sample for each in m.taken])


def _port(base_url: str) -> int:
    parts = urlsplit(base_url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _probed(m: ActiveRun, client: ServerClient) -> tuple[ServerInfo, Mapping[str, Any]]:
    """Facts, and all that is known of what the server takes.

    Asked anew for each run: a server may have been restarted with another model since.
    """
    is_believed = STATED_ENGINE in m.server.capabilities
    facts = engines.probe(client, m.server.engine, is_believed=is_believed)
    with m.database.write() as session:
        servers.remember(session, m.run.server_id, facts=facts_json(facts), capabilities=facts.capabilities)
        known = session.get(Server, m.run.server_id)
        return facts, dict(known.capabilities) if known else facts.capabilities


def _conclude(
    m: ActiveRun,
    before: Counters | None,
    after: Counters | None,
    notes: Sequence[str],
    counted: Sequence[ServerMetric],
) -> None:
    """Derives the numbers of whatever was measured, and what the server's own counters and words say about it."""
    taken = [each.sample for each in m.taken]
    found = {
        **run_checks.after(m.run.evidence, taken, before, after, notes, counted, m.busy_check),
        "no_sensors": sensing.absence(m.is_here, m.watch, taken),
    }

    def conclude(session: Session) -> None:
        measurements.derive(session, m.run_id)
        runs.beat(session, m.run_id, evidence=found)

    m.write(conclude)


def _notes(job: Job) -> Sequence[str]:
    """What the server says of itself now that it has worked: some load the model only then, and wherever it fits."""
    try:
        facts = job.engine.recognise(job.client)
    except ServerError:  # it has broken down since, which its run says
        return ()
    if facts is None:
        return ()
    model, asked = facts.model(job.model_id), job.context_tokens
    loaded = model.context_tokens if model is not None and job.engine.sets_context else None
    if loaded is None or asked is None or loaded >= asked:
        return facts.notes
    cut = _(
        "The server loaded the model with a context of {loaded:,} tokens, not with the {asked:,} asked for.",
        loaded=loaded,
        asked=asked,
    )
    return (*facts.notes, cut)


def _counted(
    m: ActiveRun, engine: Engine, model: ModelInfo | None, before: Counters | None, after: Counters | None
) -> Sequence[ServerMetric]:
    if before is None or after is None or after.began_anew(before):
        return ()
    answered = sum(each.sample.trace.status is Status.OK for each in m.taken)
    return engine.counted(before, after, model.id if model else None, answered)
