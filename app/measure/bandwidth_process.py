"""Measures this machine's memory in a process of its own: `roofmark machine bandwidth`, started by a page or by hand.

The lock file shows whether the process lives, as it does for runs.
"""

from datetime import timedelta

from sqlmodel import Session

from app.core.errors import Conflict, RoofmarkError
from app.core.i18n import _
from app.core.settings import Settings
from app.db import bandwidth, machines
from app.db.database import Database
from app.db.tables import BandwidthProbe, Machine, now
from app.hardware.bandwidth import ReportPhase, limit_blas_to_one_thread, measure_bandwidth
from app.hardware.memory_detection import llc_bytes
from app.hardware.tools import ToolUnavailable
from app.measure import workers

START_TIMEOUT = timedelta(seconds=30)
"""How long a process may take to start before it counts as dead."""


def start(database: Database, settings: Settings, slug: str) -> None:
    """Starts the process that measures. Raises Conflict for another machine, and for one that is in use or measured."""
    with database.write() as session:
        machine = _local_machine(session, slug)
        bandwidth.add_probe(session, machine)
    workers.start(settings, _lock_name(slug), "machine", "bandwidth", slug)


def perform(database: Database, settings: Settings, slug: str, report: ReportPhase) -> BandwidthProbe:
    """Measures in the current process, which must not have imported numpy yet; returns the finished row.

    Raises Conflict for another machine, one that is in use, and too little memory.
    """
    with workers.hold(settings, _lock_name(slug)) as is_locked:
        if not is_locked:
            raise Conflict(_(bandwidth.BEING_MEASURED))
        return _perform(database, slug, report)


def _perform(database: Database, slug: str, report: ReportPhase) -> BandwidthProbe:
    with database.write() as session:
        machine = _local_machine(session, slug)
        # a row that a page has made, or one whose process has died: nobody else holds the lock
        row = bandwidth.running_probe(session, machine) or bandwidth.add_probe(session, machine)
    assert row.id is not None
    row_id = row.id

    def report_phase(phase: str) -> None:
        report(phase)
        with database.write() as session:
            bandwidth.report_phase(session, row_id, phase)

    try:
        limit_blas_to_one_thread()
        result = measure_bandwidth(machine.llc_bytes or _llc_bytes(), report_phase)
    except BaseException as error:
        with database.write() as session:
            sentence = error.message if isinstance(error, RoofmarkError) else _("The measurement was interrupted.")
            bandwidth.fail(session, row_id, sentence)
        raise
    with database.write() as session:
        bandwidth.finish(session, row_id, result)
    with database.read() as session:
        return session.get_one(BandwidthProbe, row_id)


def latest_probe(database: Database, settings: Settings, machine: Machine) -> BandwidthProbe | None:
    """Returns the newest measurement, in whatever state; one whose process has died is marked as failed first."""
    with database.read() as session:
        row = bandwidth.latest_probe(session, machine)
    if row is None or row.status != "running" or now() - row.started_at < START_TIMEOUT:
        return row
    if workers.is_held(settings, _lock_name(machine.slug)):
        return row
    assert row.id is not None
    with database.write() as session:
        bandwidth.fail(session, row.id, _("The measuring process ended before it had finished."))
        return bandwidth.latest_probe(session, machine)


def fail_dead_probes(database: Database, settings: Settings) -> None:
    """Marks measurements of this machine whose process has died as failed: runs wait for them."""
    with database.read() as session:
        measured = bandwidth.machines_being_probed(session)
    for machine in measured:
        if machines.is_local_machine(machine):  # whether a process lives is known on its own machine alone
            latest_probe(database, settings, machine)


def _local_machine(session: Session, slug: str) -> Machine:
    machine = machines.machine(session, slug)
    if not machines.is_local_machine(machine):
        raise Conflict(
            _(
                "{name} is another machine than this one: run `roofmark machine bandwidth` on it, and "
                "type the result into its form.",
                name=machine.name,
            )
        )
    return machine


def _llc_bytes() -> int | None:
    try:
        return llc_bytes()
    except ToolUnavailable:  # unknown: the probe then takes its own bounds
        return None


def _lock_name(slug: str) -> str:
    return f"bandwidth-{slug}"
