"""Deleting, and what is deleted with it. Measurements are deleted only when a person asks for it."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, delete, func, or_, select

from app.core.errors import Conflict
from app.core.i18n import _
from app.core.units import plural
from app.db import machines, runs, servers
from app.db.tables import ENDED_STATES, Annotation, Baseline, Config, Machine, Measurement, Run, SampleRow, Server


@dataclass(frozen=True)
class DeletionSummary:
    """The rows that are deleted together. Shared pages stay: they are snapshots, and name no run."""

    runs: int
    samples: int
    measurements: int
    configs: int
    """Configurations that no other run has."""
    servers: int = 0
    baselines: tuple[str, ...] = ()
    """`model, suite` of each baseline among these runs."""
    annotations: int = 0
    """A machine's notes in the history."""


def run_deletion_summary(session: Session, public_id: str) -> DeletionSummary:
    """What is deleted with a run. Raises NotFound."""
    return _deletion_summary(session, Run.id == runs.run(session, public_id).id)


def runs_deletion_summary(session: Session, public_ids: Collection[str]) -> DeletionSummary:
    """What is deleted with several runs."""
    return _deletion_summary(session, col(Run.public_id).in_(public_ids))


def delete_runs(session: Session, public_ids: Collection[str]) -> None:
    """Delete several runs with all that was measured. Raises Conflict while one of them waits or runs."""
    _delete_runs(session, col(Run.public_id).in_(public_ids))


def server_deletion_summary(session: Session, slug: str) -> DeletionSummary:
    """What is deleted with a server. Raises NotFound."""
    server = servers.server(session, slug)
    return _deletion_summary(session, Run.server_id == server.id, [server.id])


def machine_deletion_summary(session: Session, slug: str) -> DeletionSummary:
    """What is deleted with a machine. Raises NotFound."""
    of_machine = _of_machine(session, slug)
    summary = _deletion_summary(session, *of_machine, n_servers=len(of_machine[1]))
    of_it = Annotation.machine_id == machines.machine(session, slug).id
    return replace(summary, annotations=_count(session, Annotation, of_it))


def delete_run(session: Session, public_id: str) -> None:
    """Delete a run with all that was measured. Raises NotFound, and Conflict while it waits or runs."""
    _delete_runs(session, Run.id == runs.run(session, public_id).id)


def delete_server(session: Session, slug: str) -> None:
    """Delete a server with its runs and configurations. Raises NotFound, and Conflict unless it is archived and nothing
    of it waits or runs."""
    server = servers.server(session, slug)
    refuse_in_use(server)
    _delete_runs(session, Run.server_id == server.id, [server.id])
    session.delete(server)


def delete_machine(session: Session, slug: str) -> None:
    """Delete a machine with its servers and all that was measured on it. Raises NotFound, and Conflict unless it is
    archived and nothing of it waits or runs."""
    machine = machines.machine(session, slug)
    refuse_in_use(machine)
    is_deleted, server_ids = _of_machine(session, slug)
    _delete_runs(session, is_deleted, server_ids)
    session.exec(delete(Server).where(col(Server.id).in_(server_ids)))
    session.delete(machine)


def refuse_in_use(row: Machine | Server) -> None:
    """Raise Conflict unless the machine or server is archived."""
    if row.archived_at is not None:
        return
    if isinstance(row, Server):
        raise Conflict(_("The server {name!r} is in use: archive it before deleting it.", name=row.name))
    raise Conflict(_("The machine {name!r} is in use: archive it before deleting it.", name=row.name))


def _of_machine(session: Session, slug: str) -> tuple[ColumnElement[bool], list[int | None]]:
    """Returns a machine's runs and servers. The runs that a server made here stay here after it moved elsewhere."""
    machine = machines.machine(session, slug)
    ids = list(session.exec(select(Server.id).where(Server.machine_id == machine.id)).all())
    return or_(Run.machine_id == machine.id, col(Run.server_id).in_(ids)), ids


def _deletion_summary(
    session: Session, is_deleted: Any, server_ids: list[int | None] | None = None, n_servers: int = 0
) -> DeletionSummary:
    ids = select(Run.id).where(is_deleted)
    baselines = select(Baseline.model_name, Baseline.suite_key).where(col(Baseline.run_id).in_(ids))
    return DeletionSummary(
        runs=_count(session, Run, is_deleted),
        samples=_count(session, SampleRow, col(SampleRow.run_id).in_(ids)),
        measurements=_count(session, Measurement, col(Measurement.run_id).in_(ids)),
        configs=_count(session, Config, _orphaned_configs(is_deleted, server_ids or [])),
        servers=n_servers,
        baselines=tuple(f"{model}, {suite}" for model, suite in session.exec(baselines)),
    )


def _count(session: Session, table: Any, condition: Any) -> int:
    return session.exec(select(func.count()).select_from(table).where(condition)).one()


def _orphaned_configs(is_deleted: Any, server_ids: list[int | None]) -> ColumnElement[bool]:
    """Returns the configurations of these runs, or of these servers, that no other run has."""
    of_deleted_runs = select(Run.config_id).where(is_deleted, col(Run.config_id).is_not(None))
    of_other_runs = select(Run.config_id).where(~is_deleted, col(Run.config_id).is_not(None))
    return or_(col(Config.id).in_(of_deleted_runs), col(Config.server_id).in_(server_ids)) & col(Config.id).not_in(
        of_other_runs
    )


def _delete_runs(session: Session, is_deleted: Any, server_ids: list[int | None] | None = None) -> None:
    """Deletes runs; their samples, measurements and baselines are deleted by the database."""
    waiting = _count(session, Run, is_deleted & col(Run.status).not_in(ENDED_STATES))
    if waiting:
        raise Conflict(_("It has {runs} waiting or being measured: cancel first.", runs=plural(waiting, "run")))
    orphaned = session.exec(select(Config.id).where(_orphaned_configs(is_deleted, server_ids or []))).all()
    session.exec(delete(Run).where(is_deleted))
    with suppress(IntegrityError), session.begin_nested():  # a run that has just begun may hold one: then it stays
        session.exec(delete(Config).where(col(Config.id).in_(orphaned)))
