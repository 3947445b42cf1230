"""Measurements of memory bandwidth. The row is the channel from the measuring process to the pages."""

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, func, select

from app.core.errors import Conflict
from app.core.i18n import N_, _
from app.db import machines
from app.db.database import session_memo
from app.db.tables import BandwidthProbe, Machine, now
from app.hardware.bandwidth import BandwidthResult, remarks

MAX_PROBES_PER_MACHINE = 50
_NEWEST_FIRST = (col(BandwidthProbe.started_at).desc(), col(BandwidthProbe.id).desc())

BEING_MEASURED = N_("The memory of this machine is being measured already.")


def add_probe(session: Session, machine: Machine) -> BandwidthProbe:
    """Start the record of a measurement. Raises Conflict while a measurement or a run is running on the machine."""
    assert machine.id is not None
    machines.lock_machine(session, machine.id)
    if session.exec(select(machines.has_running_run(machine.id))).one():
        raise Conflict(_("A run is being measured on {name}: wait until it is done.", name=machine.name))
    added = BandwidthProbe(machine_id=machine.id, phase="Starting.")
    try:
        with session.begin_nested():
            session.add(added)
    except IntegrityError as error:
        raise Conflict(_(BEING_MEASURED)) from error
    return added


def running_probe(session: Session, machine: Machine) -> BandwidthProbe | None:
    """The measurement that is running on a machine, if any."""
    query = select(BandwidthProbe).where(
        BandwidthProbe.machine_id == machine.id, col(BandwidthProbe.status) == "running"
    )
    return session.exec(query).first()


def machines_being_probed(session: Session) -> Sequence[Machine]:
    """The machines whose bandwidth is being measured."""
    probed = select(BandwidthProbe.machine_id).where(BandwidthProbe.status == "running")
    return session.exec(select(Machine).where(col(Machine.id).in_(probed))).all()


def latest_probe(session: Session, machine: Machine) -> BandwidthProbe | None:
    """The newest measurement of a machine, in whatever state."""
    newest = select(BandwidthProbe).where(BandwidthProbe.machine_id == machine.id).order_by(*_NEWEST_FIRST).limit(1)
    return session.exec(newest).first()


def effective_probe(session: Session, machine: Machine) -> BandwidthProbe | None:
    """The measurement that counts: the newest without a remark, so that one with a remark does not replace a sound
    one."""
    probes = session_memo(session, _done).get(machine.id or 0, [])
    return next((probe for probe in probes if not probe.record["remarks"]), probes[0] if probes else None)


def _done(session: Session) -> dict[int, list[BandwidthProbe]]:
    """Returns the finished measurements of each machine, the newest first."""
    place = func.row_number().over(partition_by=col(BandwidthProbe.machine_id), order_by=_NEWEST_FIRST)
    done = select(col(BandwidthProbe.id), place.label("place")).where(BandwidthProbe.status == "done").subquery()
    newest = select(done.c.id).where(done.c.place <= MAX_PROBES_PER_MACHINE)
    probes: dict[int, list[BandwidthProbe]] = {}
    for probe in session.exec(
        select(BandwidthProbe).where(col(BandwidthProbe.id).in_(newest)).order_by(*_NEWEST_FIRST)
    ):
        probes.setdefault(probe.machine_id, []).append(probe)
    return probes


def report_phase(session: Session, probe_id: int, phase: str) -> None:
    """Store what a measurement is doing now, in one sentence."""
    probe = _probe(session, probe_id)
    probe.phase = phase
    session.add(probe)


def finish(session: Session, probe_id: int, result: BandwidthResult) -> None:
    """Store the result of a measurement and mark it done."""
    probe = _probe(session, probe_id)
    probe.status, probe.phase, probe.finished_at = "done", "", now()
    probe.best_bytes_per_s = result.best_bytes_per_s
    probe.median_bytes_per_s = result.median_bytes_per_s
    probe.threads = result.threads
    record = asdict(result)
    for column in ("best_bytes_per_s", "median_bytes_per_s", "threads"):
        del record[column]
    probe.record = {**record, "is_stable": result.is_stable, "remarks": remarks(result)}
    session.add(probe)


def fail(session: Session, probe_id: int, error: str) -> None:
    """Mark a running measurement as failed; does nothing to one that has ended."""
    probe = _probe(session, probe_id)
    if probe.status == "running":
        probe.status, probe.phase, probe.finished_at, probe.error = "failed", "", now(), error
        session.add(probe)


def _probe(session: Session, probe_id: int) -> BandwidthProbe:
    return session.get_one(BandwidthProbe, probe_id)
