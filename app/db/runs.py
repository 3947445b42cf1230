"""Runs and their states. A state changes by one conditional UPDATE; the process that gets rowcount 1 made the
change."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import joinedload
from sqlalchemy.sql.base import ExecutableOption
from sqlmodel import Session, col, func, select, update

from app.core.errors import BadInput, Conflict, NotFound
from app.core.i18n import _
from app.core.units import plural
from app.db import machines
from app.db.tables import ENDED_STATES, BandwidthProbe, Config, Machine, Run, Server, new_public_id, now
from app.suites import Suite

MAX_NOTE_CHARS = 10_000
MAX_MODEL_CHARS = 300
MAX_QUEUED_AT_ONCE = 20
"""The most runs of a suite that can be queued in one request."""
MAX_BATCH_RUNS = 60
"""The most runs of all suites that can be queued in one request."""


def add_run(
    session: Session,
    server: Server,
    suite: Suite,
    *,
    model: str | None = None,
    note: str = "",
    public_id: str | None = None,
    settings: Mapping[str, Any] | None = None,
    batch: str | None = None,
) -> Run:
    """Queue a run of a suite. `settings` are stated of its model; which that is may be known only to the run itself.
    `batch` names the runs that were queued in one request.

    Raises Conflict where the server or its machine is archived, BadInput for too long a text.
    """
    refuse_archived(server, server.machine)
    if model is not None and len(model) > MAX_MODEL_CHARS:
        raise BadInput(_("The model's name is longer than {most} characters.", most=MAX_MODEL_CHARS))
    assert server.id is not None
    run = Run(
        public_id=public_id or new_public_id(),
        machine_id=server.machine_id,
        server_id=server.id,
        suite_key=suite.key,
        suite_sha256=suite.sha256,
        main_point_key=suite.cases[0].point.key,
        plan={
            "points": len({case.point for case in suite.cases}),
            "repetitions": suite.repetitions,
            "warmups": suite.warmups,
            "model": model or server.model,
            **({"settings": dict(settings)} if settings else {}),
            **({"batch": batch} if batch else {}),
        },
        samples_planned=suite.sample_count(suite.cases),
        note=checked_note(note),
    )
    session.add(run)
    session.flush()
    return run


def check_run_count(count: int, suites: int = 1) -> None:
    """Raise BadInput for a number of runs, each of so many suites, that cannot be queued at once."""
    if not 1 <= count <= MAX_QUEUED_AT_ONCE:
        raise BadInput(
            _("From 1 to {most} runs can be queued at once, not {count:,}.", most=MAX_QUEUED_AT_ONCE, count=count)
        )
    if count * suites > MAX_BATCH_RUNS:
        raise BadInput(
            _(
                "At most {most} runs can be queued at once, not {count:,} of each of {suites}.",
                most=MAX_BATCH_RUNS,
                count=count,
                suites=plural(suites, "suite"),
            )
        )


def checked_note(note: str) -> str:
    """Return the note, or raise BadInput where it is too long."""
    if len(note) > MAX_NOTE_CHARS:
        raise BadInput(_("The note is longer than {most:,} characters.", most=MAX_NOTE_CHARS))
    return note


def refuse_archived(server: Server, machine: Machine) -> None:
    """Raises Conflict when the server or machine is archived: when a run is queued, and again when it starts."""
    if server.archived_at is not None:
        raise Conflict(_("The server {name!r} is archived: restore it before measuring.", name=server.name))
    if machine.archived_at is not None:
        raise Conflict(_("The machine {name!r} is archived: restore it before measuring.", name=machine.name))


def run(session: Session, public_id: str) -> Run:
    """Returns the run with its machine, server, configuration and model, in one query. Raises NotFound."""
    return runs_by_id(session, [public_id])[public_id]


def find(session: Session, public_id: str) -> Run | None:
    """Returns the run as `run` does; None where there is none."""
    try:
        return run(session, public_id) if public_id else None
    except NotFound:  # the address may name a run that was deleted since
        return None


def newest_server(session: Session, server_ids: Collection[int]) -> int | None:
    """Returns the one of these servers that was measured, or is to be measured, last; None where none was."""
    newest = select(func.max(Run.id)).where(col(Run.server_id).in_(server_ids))
    return session.exec(select(Run.server_id).where(col(Run.id) == newest.scalar_subquery())).first()


def related_rows() -> tuple[ExecutableOption, ...]:
    """Returns options for `select(Run)` that load its machine, server, configuration and model in the same query."""
    run, config = cast(Any, Run), cast(Any, Config)  # on a class, a relationship is an attribute to load
    return (
        joinedload(run.machine, innerjoin=True),
        joinedload(run.server, innerjoin=True),
        joinedload(run.config).joinedload(config.model, innerjoin=True),
    )


def runs_by_id(session: Session, public_ids: Collection[str]) -> dict[str, Run]:
    """Returns runs by public id, each with its machine, server, configuration and model, in one query.

    Raises NotFound when one is missing.
    """
    query = select(Run).where(col(Run.public_id).in_(public_ids)).options(*related_rows())
    by_id = {run.public_id: run for run in session.exec(query)}
    missing = next((public_id for public_id in public_ids if public_id not in by_id), None)
    if missing is not None:
        raise NotFound(_("There is no run {id!r}.", id=missing))
    return by_id


def claim(session: Session, run_id: int, worker_pid: int, worker_instance: str) -> bool:
    """Turns a queued run into a running one; False when it is no longer queued, or its machine is being measured."""
    machine_id = session.get_one(Run, run_id).machine_id
    machines.lock_machine(session, machine_id)
    try:
        with session.begin_nested():
            return _change(
                session,
                run_id,
                ("queued",),
                ~machines.has_running_probe(machine_id),
                status="running",
                started_at=now(),
                worker_pid=worker_pid,
                worker_instance=worker_instance,
            )
    except IntegrityError:  # the partial unique index: one running run per machine
        return False


def finish(session: Session, run_id: int, status: str, error: str | None = None) -> bool:
    """Turns a running run into an ended one; False when another process ended it."""
    assert status in ENDED_STATES
    return _change(session, run_id, ("running",), status=status, finished_at=now(), error=error)


def add_warning(session: Session, public_id: str, sentence: str) -> None:
    """Add a sentence to the warnings of a run, whatever its state. Raises NotFound."""
    warned = run(session, public_id)
    warned.evidence = {**warned.evidence, "warnings": [*warned.evidence.get("warnings", ()), sentence]}
    session.add(warned)


def request_cancel(session: Session, run_id: int) -> bool:
    """Cancels a queued run at once, or asks a running one to stop. False when it had ended."""
    if _change(session, run_id, ("queued",), status="cancelled", finished_at=now(), cancel_requested_at=now()):
        return True
    return _change(session, run_id, ("running",), cancel_requested_at=now())


def record_progress(session: Session, run_id: int, **fields: Any) -> bool:
    """Stores columns of a running run; False when it no longer runs or was asked to stop."""
    alive = _change(session, run_id, ("running",), **fields)
    if not alive:
        return False
    return session.exec(select(col(Run.cancel_requested_at)).where(Run.id == run_id)).one() is None


def _change(session: Session, run_id: int, from_states: tuple[str, ...], *only_if: Any, **fields: Any) -> bool:
    change = update(Run).where(col(Run.id) == run_id, col(Run.status).in_(from_states), *only_if).values(**fields)
    return bool(session.exec(change).rowcount)


def next_queued(session: Session) -> Sequence[int]:
    """Returns the id of the oldest queued run of each machine on which nothing is being measured."""
    running = select(Run.machine_id).where(Run.status == "running")
    probed = select(BandwidthProbe.machine_id).where(BandwidthProbe.status == "running")
    oldest = (
        select(func.min(Run.id))
        .where(Run.status == "queued", col(Run.machine_id).not_in(running), col(Run.machine_id).not_in(probed))
        .group_by(col(Run.machine_id))
    )
    return [run_id for run_id in session.exec(oldest).all() if run_id is not None]


def waiting_in_batch(session: Session, batch: str | None) -> Sequence[Run]:
    """The queued runs of a batch, in their order; none for None."""
    if batch is None:
        return ()
    queued = session.exec(select(Run).where(Run.status == "queued").order_by(col(Run.id))).all()
    return [run for run in queued if run.plan.get("batch") == batch]


def running(session: Session) -> Sequence[Run]:
    """The running runs, the oldest first."""
    return session.exec(select(Run).where(Run.status == "running").order_by(col(Run.started_at))).all()


def counts_by_status(session: Session) -> Mapping[str, int]:
    """Returns how many runs each status has."""
    return dict(session.exec(select(Run.status, func.count()).group_by(Run.status)).all())


def queue_position(session: Session, run: Run) -> int:
    """Returns how many runs of its machine come before a queued run."""
    ahead = select(func.count()).where(
        Run.machine_id == run.machine_id,
        (col(Run.status) == "running") | ((col(Run.status) == "queued") & (col(Run.id) < run.id)),
    )
    return session.exec(ahead).one()


def wait_reason(session: Session, run: Run) -> str:
    """Returns why a queued run does not start yet, in one sentence."""
    if session.exec(select(machines.has_running_probe(run.machine_id))).one():
        return _("Waiting until the bandwidth of this machine has been measured.")
    ahead = queue_position(session, run)
    return (
        _("Waiting for {ahead} on this machine.", ahead=plural(ahead, "other run"))
        if ahead
        else _("Waiting for its turn.")
    )


def newest_configs(session: Session, server_ids: Collection[int | None]) -> dict[tuple[int, int | None], int]:
    """Returns the newest configuration with which a server measured a model, by the ids of both; the key with None is
    for any model."""
    newest = (
        select(func.max(Run.id))
        .join(Config, col(Config.id) == col(Run.config_id))
        .where(col(Run.server_id).in_(server_ids))
        .group_by(col(Run.server_id), col(Config.model_id))
    )
    query = (
        select(Run.server_id, Config.model_id, Config.id)
        .join(Config, col(Config.id) == col(Run.config_id))
        .where(col(Run.id).in_(newest))
    )
    configs: dict[tuple[int, int | None], int] = {}
    for server_id, model_id, config_id in session.exec(query.order_by(col(Run.id))):
        assert config_id is not None
        configs[server_id, model_id] = configs[server_id, None] = config_id
    return configs
