"""One measurement at a time on a machine: a run and a measurement of bandwidth would spoil each other.

Both take the machine's turn before they begin, and begin only where the other has not. SQLite has one writer anyway;
PostgreSQL locks the machine's row until the transaction ends, in a mode that lets rows be added that point at it.
"""

from sqlalchemy import ColumnElement, exists
from sqlmodel import Session, col, select

from app.db.tables import BandwidthProbe, Machine, Run


def lock_machine(session: Session, machine_id: int) -> None:
    """Lock a machine until this transaction ends: nobody else can start a measurement on it."""
    session.exec(select(Machine.id).where(Machine.id == machine_id).with_for_update(key_share=True)).all()


def has_running_run(machine_id: int) -> ColumnElement[bool]:
    """A condition: whether a run is running on the machine."""
    return exists().where(col(Run.machine_id) == machine_id, col(Run.status) == "running")


def has_running_probe(machine_id: int) -> ColumnElement[bool]:
    """A condition: whether the bandwidth of the machine is being measured."""
    return exists().where(col(BandwidthProbe.machine_id) == machine_id, col(BandwidthProbe.status) == "running")
