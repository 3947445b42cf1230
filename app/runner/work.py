"""One run from its queue to its result. The same code serves a worker process and a terminal."""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlmodel import Session

from app import bench, engines
from app.bench import Job, Limits, Phase, Prepared, Stop, Taken, load
from app.counted import Counted
from app.db import Database
from app.engines.base import Counters, Engine, Facts, ModelFacts
from app.errors import Busy, Cancelled, RoofmarkError, ServerProblem
from app.hardware import cpu_load_share
from app.hardware.sensors import Reading
from app.hardware.watch import Watch
from app.http import ServerClient
from app.i18n import marked
from app.metrics import triple_of
from app.models import Run, Server
from app.runner import evidence, logfile, notify, sensing, workers
from app.runner.facts import chosen_model, context_tokens, contradictions, facts_json, geometry, snapshot, with_context
from app.samples import Sample, Status
from app.secrets import Secrets
from app.settings import Settings
from app.store import configs, hardware, machines, measurements, runs, samples, servers, suites
from app.suites import Suite

log = logging.getLogger(__name__)

Found = TypeVar("Found")
BUSY_DATABASE_S = 120.0


@dataclass(frozen=True)
class Progress:
    """What a terminal shows while a run goes on."""

    phase: str
    done: int
    planned: int
    last: dict[str, float | None] | None = None
    remaining_s: float | None = None
    sample: Sample | None = None


Listener = Callable[[Progress], None]


@dataclass
class _Measuring:
    """A claimed run while it is being measured."""

    database: Database
    settings: Settings
    run: Run
    server: Server
    is_here: bool
    """Whether the server is on this machine."""
    suite: Suite
    stop: Stop
    listen: Listener
    planned: int
    taken: list[Taken] = field(default_factory=list)
    watch: Watch | None = None
    load: list[Reading] = field(default_factory=list)

    @property
    def run_id(self) -> int:
        assert self.run.id is not None
        return self.run.id


def work(database: Database, settings: Settings, public_id: str, listen: Listener, stop: Stop) -> str | None:
    """Claims a queued run and measures it; returns the state it ended in, or None when it was not to be had.

    The caller holds the run's worker lock. Never raises for anything that a server or a person did: the run's
    `error` says it in one sentence. Raises StorageProblem when the database itself fails.
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
        measuring = _Measuring(database, settings, run, server, is_here, suite, stop, listen, planned)
        with stop.on_signals():
            error = _measure(measuring)
        return ("failed", error) if error else ("done", None)
    except Cancelled:
        return "cancelled", None
    except RoofmarkError as error:
        log.info("run %s failed", public_id, exc_info=True)
        return "failed", str(error)
    except Exception:
        log.exception("run %s failed unexpectedly", public_id)
        return "failed", marked("Something went wrong inside Roofmark; the log says what.")


def _measure(m: _Measuring) -> str | None:
    key = Secrets(m.settings).api_key(m.server.api_key_encrypted)
    with engines.open_client(m.server.base_url, key, m.settings) as client:
        engine = engines.find(m.server.engine)
        limits = Limits(m.settings.loading_timeout_s, m.settings.busy_timeout_s)
        for phase in bench.wait_until_ready(engine, client, limits, m.stop):
            _tell(m, phase)
        facts, capabilities = _probed(m, client)
        model = chosen_model(facts, m.run.plan.get("model"))
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
        _freeze(m, facts, model, _model_document(engine, client, model), prepared)
        before, is_whole = bench.counters(engine, client), False
        try:
            with (
                sensing.watching(m.is_here, m.settings) as watch,
                load.watching(engine, client, key, m.settings) as load_watch,
                logfile.following(m.server.log_path, engine) as (log_file, trouble),
            ):
                m.watch = watch
                if trouble:
                    m.run.evidence = {**m.run.evidence, "warnings": [*m.run.evidence["warnings"], trouble]}
                for step in bench.play(replace(job, log=log_file), prepared, m.stop):
                    if isinstance(step, Phase):
                        _tell(m, step)
                    else:
                        m.load += sensing.during(step, load_watch)
                        _keep(m, sensing.sensed(step, watch), prepared)
                is_whole = True
                if log_file is not None and log_file.doubt:
                    m.run.evidence = {**m.run.evidence, "warnings": [*m.run.evidence["warnings"], log_file.doubt]}
        finally:
            # of a round that was broken off the server has counted what nobody here has seen
            after = bench.counters(engine, client) if is_whole else None
            notes = () if m.stop.requested else _notes(job)
            counted = [*_counted(m, engine, model, before, after), *load.counted(m.load)]
            _conclude(m, before, after, notes, counted)
    return bench.verdict([each.sample for each in m.taken])


def _probed(m: _Measuring, client: ServerClient) -> tuple[Facts, Mapping[str, Any]]:
    """Facts, and all that is known of what the server takes.

    Asked anew for each run: a server may have been restarted with another model since.
    """
    facts = engines.probe(client, m.server.engine)
    with m.database.write() as session:
        servers.remember(session, m.run.server_id, facts=facts_json(facts), capabilities=facts.capabilities)
        known = session.get(Server, m.run.server_id)
        return facts, dict(known.capabilities) if known else facts.capabilities


def _model_document(engine: Engine, client: ServerClient, model: ModelFacts | None) -> Mapping[str, Any] | None:
    """Without it there may be no ceiling, but there is a run."""
    try:
        return engine.model_document(client, model.id) if model else None
    except ServerProblem:
        log.info("the server does not describe its model", exc_info=True)
        return None


def _freeze(
    m: _Measuring, facts: Facts, model: ModelFacts | None, document: Mapping[str, Any] | None, prepared: Prepared
) -> None:
    frozen = snapshot(m.server, facts, model)
    shape, doubts = geometry(m.server, model, document)
    warnings = [*facts.notes, *contradictions(m.server, frozen), *doubts]
    found = evidence.before(prepared, warnings, cpu_load_share() if m.is_here else None)
    m.planned = m.suite.sample_count(prepared.fitting)
    with m.database.write() as session:
        config = configs.freeze(session, m.run.server_id, frozen, shape, source=m.server.engine)
        runs.beat(
            session,
            m.run_id,
            config_id=config.id,
            hardware=hardware.freeze(session, m.run),
            evidence=found,
            samples_planned=m.planned,
            main_point_key=prepared.cases[0][0].point.key,
            progress={"phase": marked("Measuring."), "step": bench.step(m.suite, prepared.fitting, 0)},
        )
    m.run.evidence = found


def _write(m: _Measuring, change: Callable[[Session], Found]) -> Found:
    """Writes, and waits for a database that others hold: what was measured is not lost for that."""
    deadline = time.monotonic() + BUSY_DATABASE_S
    while True:
        try:
            with m.database.write() as session:
                return change(session)
        except Busy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _tell(m: _Measuring, phase: Phase) -> None:
    last = triple_of(m.taken[-1].sample) if m.taken else None
    progress = {"phase": phase.sentence, "last": last}
    if not _write(m, lambda session: runs.beat(session, m.run_id, progress=progress)):
        m.stop.request()
    m.listen(Progress(phase.sentence, len(m.taken), m.planned, last))
    m.stop.check()


def _keep(m: _Measuring, taken: Taken, prepared: Prepared) -> None:
    """Stores a sample the moment it was taken, with the progress that it means."""
    m.taken.append(taken)
    last = triple_of(taken.sample)
    remaining_s = _remaining_s(m, prepared)
    done, phase = len(m.taken), marked("Measuring.")
    step = bench.step(m.suite, prepared.fitting, done)
    progress = {"phase": phase, "step": step, "last": last, "remaining_s": remaining_s, "at": time.time()}

    def keep(session: Session) -> bool:
        samples.add_sample(session, m.run_id, taken.sample, taken.started_at)
        if taken.sample.trace.learned:
            servers.remember(session, m.run.server_id, capabilities=taken.sample.trace.learned)
        return runs.beat(session, m.run_id, samples_done=done, progress=progress)

    alive = _write(m, keep)
    m.listen(Progress(phase, done, m.planned, last, remaining_s, taken.sample))
    if not alive:
        m.stop.request()


def _remaining_s(m: _Measuring, prepared: Prepared) -> float:
    """From the newest round of each point; points not yet seen are scaled by their tokens."""
    newest = {taken.sample.point: taken.seconds for taken in m.taken}
    point, seconds = m.taken[-1].sample.point, m.taken[-1].seconds
    total, ahead = 0.0, len(m.taken)
    for case in prepared.fitting:
        samples = m.suite.sample_count([case])
        left, ahead = samples - min(samples, ahead), ahead - min(samples, ahead)
        scale = (case.point.prompt_tokens + case.point.output_tokens) / (point.prompt_tokens + point.output_tokens)
        total += left / case.point.concurrency * newest.get(case.point, seconds * scale)
    return total


def _conclude(
    m: _Measuring,
    before: Counters | None,
    after: Counters | None,
    notes: Sequence[str],
    counted: Sequence[Counted],
) -> None:
    """Derives the numbers of whatever was measured, and what the server's own counters and words say about it."""
    taken = [each.sample for each in m.taken]
    found = {
        **evidence.after(m.run.evidence, taken, before, after, notes, counted),
        "no_sensors": sensing.absence(m.is_here, m.watch, taken),
    }

    def conclude(session: Session) -> None:
        measurements.derive(session, m.run_id)
        runs.beat(session, m.run_id, evidence=found)

    _write(m, conclude)


def _notes(job: Job) -> Sequence[str]:
    """What the server says of itself now that it has worked: some load the model only then, and wherever it fits."""
    try:
        facts = job.engine.recognise(job.client)
    except ServerProblem:  # it has broken down since, which its run says
        return ()
    if facts is None:
        return ()
    model, asked = facts.model(job.model_id), job.context_tokens
    loaded = model.context_tokens if model is not None and job.engine.sets_context else None
    if loaded is None or asked is None or loaded >= asked:
        return facts.notes
    cut = marked(
        "The server loaded the model with a context of {loaded:,} tokens, not with the {asked:,} asked for.",
        loaded=loaded,
        asked=asked,
    )
    return (*facts.notes, cut)


def _counted(
    m: _Measuring, engine: Engine, model: ModelFacts | None, before: Counters | None, after: Counters | None
) -> Sequence[Counted]:
    if before is None or after is None or after.began_anew(before):
        return ()
    answered = sum(each.sample.trace.status is Status.OK for each in m.taken)
    return engine.counted(before, after, model.id if model else None, answered)
