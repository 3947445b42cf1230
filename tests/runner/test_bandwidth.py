"""Measuring the memory of this machine: one process at a time, told through the database, in every way it can end."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from app.core.errors import Conflict, NotFound
from app.core.settings import Settings
from app.db import bandwidth, machines, servers
from app.db.database import Database
from app.db.tables import BandwidthProbe, Run, now
from app.hardware import bandwidth as probe
from app.hardware.host import this_host
from app.measure import bandwidth_process as measuring
from app.measure import workers
from app.measure.runner import Runner
from tests.databases import on_both
from tests.hardware.readings import CALM

Measure = Callable[[int | None, Callable[[str], None]], probe.BandwidthResult]


@pytest.fixture
def slug(database: Database) -> str:
    with database.write() as session:
        return machines.add_machine(session, "My box", hostname=this_host().name, llc_bytes=32 << 20).slug


@pytest.fixture(autouse=True)
def _measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "limit_blas_to_one_thread", lambda: None)
    _measuring(monkeypatch, _calm)


def _calm(llc_bytes: int | None, say: Callable[[str], None]) -> probe.BandwidthResult:
    say("Reading.")
    return CALM


def _measuring(monkeypatch: pytest.MonkeyPatch, measure: Measure) -> None:
    monkeypatch.setattr(measuring, "measure_bandwidth", measure)


def newest(database: Database, slug: str) -> BandwidthProbe:
    with database.read() as session:
        row = bandwidth.latest_probe(session, machines.machine(session, slug))
    assert row is not None
    return row


@on_both
def test_a_measurement_is_stored_and_outranks_what_is_stated(database: Database, settings: Settings, slug: str) -> None:
    with database.write() as session:
        machines.edit_machine(session, slug, ram_bandwidth_bytes_per_s=96e9, ram_bandwidth_source="typed")
    phases: list[str] = []
    row = measuring.perform(database, settings, slug, phases.append)
    assert (row.status, row.best_bytes_per_s, row.median_bytes_per_s, row.threads) == ("done", 30e9, 29e9, 2)
    assert row.record["sweep"][1]["rates_bytes_per_s"] == [30e9, 29e9]
    assert row.record["remarks"] == []
    assert phases == ["Reading."]
    with database.read() as session:
        (ram,) = machines.devices(session, machines.machine(session, slug))
    assert [(rate.bytes_per_s, rate.source) for rate in ram.bandwidths] == [
        (30e9, "measured"),
        (96e9, "typed"),
    ]
    assert ram.bandwidth_bytes_per_s == 30e9
    assert ram.bandwidths[0].at == row.finished_at
    assert ram.llc_bytes == 32 << 20


def test_a_second_measurement_is_refused_while_one_runs(
    database: Database, settings: Settings, slug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(llc_bytes: int | None, say: Callable[[str], None]) -> probe.BandwidthResult:
        with pytest.raises(Conflict, match="being measured already"):
            measuring.start(database, settings, slug)
        with pytest.raises(Conflict, match="being measured already"):
            measuring.perform(database, settings, slug, print)
        assert newest(database, slug).status == "running"
        return CALM

    _measuring(monkeypatch, meanwhile)
    measuring.perform(database, settings, slug, print)
    assert newest(database, slug).status == "done"


def test_the_process_that_a_page_starts_takes_over_its_row(
    database: Database, settings: Settings, slug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(workers, "start", lambda _settings, _name, *command: commands.append(command))
    measuring.start(database, settings, slug)
    assert commands == [("machine", "bandwidth", slug)]
    row = newest(database, slug)
    assert measuring.perform(database, settings, slug, print).id == row.id


def test_what_goes_wrong_is_told_and_the_next_one_may_begin(
    database: Database, settings: Settings, slug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(llc_bytes: int | None, say: Callable[[str], None]) -> probe.BandwidthResult:
        raise Conflict("Measuring needs more memory.")

    def crash(llc_bytes: int | None, say: Callable[[str], None]) -> probe.BandwidthResult:
        raise KeyboardInterrupt

    for measure, error, message in (
        (refuse, Conflict, "Measuring needs more memory."),
        (crash, KeyboardInterrupt, "The measurement was interrupted."),
    ):
        _measuring(monkeypatch, measure)
        with pytest.raises(error):
            measuring.perform(database, settings, slug, print)
        row = newest(database, slug)
        assert (row.status, row.error) == ("failed", message)
        assert row.finished_at is not None
    _measuring(monkeypatch, _calm)
    assert measuring.perform(database, settings, slug, print).status == "done"


def test_a_process_that_dies_is_noticed(database: Database, settings: Settings, slug: str) -> None:
    with database.write() as session:
        machine = machines.machine(session, slug)
        probe_row = bandwidth.add_probe(session, machine)
    row = measuring.latest_probe(database, settings, machine)
    assert row is not None
    assert row.status == "running"  # it may be starting
    with database.write() as session:
        row = session.get_one(BandwidthProbe, probe_row.id)
        row.started_at = now() - timedelta(minutes=5)
        session.add(row)
    with workers.hold(settings, f"bandwidth-{slug}"):
        row = measuring.latest_probe(database, settings, machine)
        assert row is not None
        assert row.status == "running"
    row = measuring.latest_probe(database, settings, machine)
    assert row is not None
    assert (row.status, row.error) == ("failed", "The measuring process ended before it had finished.")


def test_a_failed_measurement_leaves_the_one_before_in_force(database: Database, settings: Settings, slug: str) -> None:
    measuring.perform(database, settings, slug, print)
    with database.write() as session:
        row = bandwidth.add_probe(session, machines.machine(session, slug))
        assert row.id is not None
        bandwidth.fail(session, row.id, "broken")
    with database.read() as session:
        (ram,) = machines.devices(session, machines.machine(session, slug))
    assert ram.bandwidth_bytes_per_s == 30e9


def test_a_doubtful_measurement_undoes_no_sound_one(
    database: Database, settings: Settings, slug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def counts() -> float | None:
        with database.read() as session:
            return machines.devices(session, machines.machine(session, slug))[0].bandwidth_bytes_per_s

    for reading, expected in (
        (replace(CALM, best_bytes_per_s=12e9, busy_share=0.9), 12e9),  # better than none
        (CALM, 30e9),
        (replace(CALM, best_bytes_per_s=15e9, busy_share=0.9), 30e9),
        (replace(CALM, best_bytes_per_s=32e9), 32e9),
    ):
        monkeypatch.setattr(measuring, "measure_bandwidth", partial(lambda reading, *_: reading, reading))
        measuring.perform(database, settings, slug, print)
        assert counts() == expected


def test_only_this_machine_and_only_when_no_run_is_measured_on_it(
    database: Database, settings: Settings, slug: str
) -> None:
    with database.write() as session:
        other_slug = machines.add_machine(session, "Elsewhere").slug
    with pytest.raises(Conflict, match="another machine than this one"):
        measuring.perform(database, settings, other_slug, print)
    with pytest.raises(NotFound):
        measuring.perform(database, settings, "nonesuch", print)
    with database.write() as session:
        machine = machines.machine(session, slug)
        assert machine.id is not None
        server = servers.add_server(session, machine.id, "s", "openai", "http://127.0.0.1:9")
        assert server.id is not None
        session.add(
            Run(machine_id=machine.id, server_id=server.id, suite_key="triple", suite_sha256="0", status="running")
        )
    with pytest.raises(Conflict, match="A run is being measured on My box"):
        measuring.perform(database, settings, slug, print)


def test_this_machine_is_the_one_that_was_said_to_be_before_one_of_its_name(database: Database) -> None:
    with database.write() as session:
        assert machines.local_machine(session) is None
        added = machines.ensure_local_machine(session)
        assert (added.name, added.hostname) == (this_host().name, this_host().name)
        assert machines.ensure_local_machine(session).slug == added.slug
        machines.edit_machine(session, added.slug, hostname=None)
        renamed = machines.add_machine(session, "Renamed", hostname=this_host().name)
        local = machines.local_machine(session)
        assert local is not None
        assert local.slug == renamed.slug


def test_the_queue_does_not_wait_for_a_dead_measurement(database: Database, settings: Settings, slug: str) -> None:
    with database.write() as session:
        elsewhere = bandwidth.add_probe(session, machines.add_machine(session, "Elsewhere"))
        local_row = bandwidth.add_probe(session, machines.machine(session, slug))
        for row in (elsewhere, local_row):
            row.started_at = now() - timedelta(minutes=5)
            session.add(row)
    Runner(database, settings).dispatch()
    with database.read() as session:
        assert session.get_one(BandwidthProbe, local_row.id).status == "failed"
        assert session.get_one(BandwidthProbe, elsewhere.id).status == "running"  # known on its own machine alone
