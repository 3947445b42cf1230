"""What a run was measured on stays what it was, whatever is learned of its machine later, unless somebody says so."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from app.db import machines, runs
from app.db.database import Database
from app.db.machines import BandwidthValue, MachineDevice
from app.db.tables import BandwidthProbe, Machine, Run
from app.results import hardware
from app.results.hardware import HardwareChange, device_changes, freeze, resolve_hardware, timelines
from app.results.previous import previous
from app.schemas.run_document import run_document
from tests.databases import on_both
from tests.seed import seed

GIB = 1 << 30
BEGUN = datetime(2026, 11, 1, 12, tzinfo=UTC)


def card(name: str = "RTX 3090", count: int = 1, memory: int | None = 24) -> MachineDevice:
    stated = [BandwidthValue(936e9, "catalogue", "a data sheet")]
    return MachineDevice(name, "accelerator", count, memory and memory * GIB, stated, 71e12, 142e12)


def ram(name: str = "Memory", memory: int | None = 64, *stated: BandwidthValue) -> MachineDevice:
    return MachineDevice(name, "ram", 1, memory and memory * GIB, list(stated))


@pytest.fixture
def run(database: Database) -> str:
    """A run on one card of 256 GB/s, with its hardware frozen."""
    with database.write() as session:
        public_id = seed(session, runs=1, configs_used=1, detailed=1)[0]
        hardware.refreeze(session, runs.run(session, public_id))
    return public_id


def freeze_devices(devices: list[MachineDevice]) -> list[dict[str, Any]]:
    return hardware.freeze_devices(devices)


def ceiling(database: Database, public_id: str) -> dict[str, Any]:
    with database.read() as session:
        record: dict[str, Any] = run_document(session, public_id)["points"][0]["ceiling"]
    return record


def edit(database: Database, **figures: Any) -> None:
    with database.write() as session:
        machine = machines.machine(session, "strix-halo")
        cards = [{**card, **figures} for card in machine.accelerators]
        machines.edit_machine(session, "strix-halo", accelerators=cards)


@on_both
def test_an_edit_of_the_machine_changes_no_old_result(database: Database, run: str) -> None:
    before = ceiling(database, run)
    edit(database, name="RTX 4090", bandwidth_bytes_per_s=1008e9, compute_flops_per_s=330e12, count=2)
    assert ceiling(database, run) == before
    assert before["devices"][0]["bandwidth_bytes_per_s"] == 256e9
    assert not any("known today" in sentence for sentence in before["assumptions"])


@on_both
def test_a_person_may_freeze_it_anew(database: Database, run: str) -> None:
    edit(database, bandwidth_bytes_per_s=512e9)
    with database.read() as session:
        assert hardware.hardware_of(session, runs.run(session, run)).is_outdated
    with database.write() as session:
        hardware.refreeze(session, runs.run(session, run))
    assert ceiling(database, run)["devices"][0]["bandwidth_bytes_per_s"] == 512e9
    with database.read() as session:
        assert not hardware.hardware_of(session, runs.run(session, run)).is_outdated


def test_a_run_without_a_record_stands_on_todays_machine_and_says_so(database: Database, run: str) -> None:
    with database.write() as session:
        row = runs.run(session, run)
        row.hardware = []
        session.add(row)
    edit(database, bandwidth_bytes_per_s=512e9)
    ceiling_record = ceiling(database, run)
    assert ceiling_record["devices"][0]["bandwidth_bytes_per_s"] == 512e9
    assert hardware.NOT_RECORDED in ceiling_record["assumptions"]


def test_what_was_unknown_is_taken_from_today_with_its_date(database: Database, run: str) -> None:
    with database.write() as session:
        machine = machines.machine(session, "strix-halo")
        frozen = runs.run(session, run)
        frozen.hardware = [
            {**device, "bandwidths": [], "compute_flops_per_s": None, "fastest_flops_per_s": None}
            for device in frozen.hardware
        ]
        session.add(frozen)
        measured = datetime(2026, 12, 1, 8, tzinfo=UTC)
        session.add(
            BandwidthProbe(
                machine_id=machine.id or 0,
                status="done",
                best_bytes_per_s=90e9,
                record={"remarks": []},
                finished_at=measured,
            )
        )
    ceiling_record = ceiling(database, run)
    assert (
        ceiling_record["devices"][0]["bandwidth_bytes_per_s"],
        ceiling_record["devices"][0]["bandwidth_after_run"],
    ) == (256e9, True)
    assert "the bandwidth of Radeon 8060S was stated after this run" in ceiling_record["assumptions"]
    assert "the peak compute of Radeon 8060S was stated after this run" in ceiling_record["assumptions"]
    with database.read() as session:
        memory, _ = hardware.hardware_of(session, runs.run(session, run)).devices
    assert (memory.bandwidths[0].at, memory.bandwidths[0].is_later) == (measured, True)


def test_a_known_figure_is_never_replaced() -> None:
    then = freeze_devices([card()])
    faster = MachineDevice("RTX 3090", "accelerator", 1, 24 * GIB, [BandwidthValue(1000e9, "typed")], 80e12, 160e12)
    (device,) = resolve_hardware(then, [faster]).devices
    assert (device.bandwidth_bytes_per_s, device.peak_flops) == (936e9, 142e12)


def test_another_device_lends_no_figures() -> None:
    unknown = MachineDevice("RTX 3090", "accelerator", 1, 24 * GIB, [])
    (device,) = resolve_hardware(freeze_devices([unknown]), [card("RTX 4090")]).devices
    assert device == unknown


@given(
    st.builds(
        MachineDevice,
        st.text(min_size=1, max_size=9),
        st.sampled_from(["ram", "accelerator"]),
        st.integers(1, 8),
        st.none() | st.integers(1, 1 << 45),
        st.lists(
            st.builds(
                BandwidthValue,
                st.floats(1, 1e15),
                st.sampled_from(["measured", "sensor", "catalogue", "typed"]),
                st.text(max_size=9),
                st.none() | st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
            ),
            max_size=3,
        ),
        st.none() | st.floats(1, 1e18),
    )
)
def test_a_device_survives_its_freezing(device: MachineDevice) -> None:
    assert resolve_hardware(freeze_devices([device]), []).devices == [device]


# --- other hardware --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("then", "today", "descriptions"),
    [
        ([card()], [card(count=2)], ["RTX 3090 → 2 × RTX 3090"]),
        ([card(count=2)], [card("RTX 4090")], ["2 × RTX 3090 → RTX 4090"]),
        ([card(), card("RTX 4090")], [card("RTX 4090")], ["RTX 3090 removed"]),
        ([ram()], [ram(), card()], ["RTX 3090 added"]),
        ([card()], [card(memory=48)], ["RTX 3090 25.8 GB → RTX 3090 51.5 GB"]),
        ([ram("Memory DDR5-4800")], [ram("Memory DDR5-6000")], ["Memory DDR5-4800 → Memory DDR5-6000"]),
        ([ram()], [ram(memory=128)], ["Memory 68.7 GB → Memory 137 GB"]),
        ([card(), ram()], [card("A100"), ram(memory=32)], ["RTX 3090 → A100", "Memory 68.7 GB → Memory 34.4 GB"]),
    ],
)
def test_a_change_is_named(then: list[MachineDevice], today: list[MachineDevice], descriptions: list[str]) -> None:
    assert device_changes(then, today) == descriptions


@pytest.mark.parametrize(
    ("then", "today"),
    [
        ([ram("Memory", 64)], [ram("Memory", 64, BandwidthValue(90e9, "measured"))]),
        ([ram("Memory", None)], [ram("Memory DDR5-6000", 64)]),
        ([card()], [card("NVIDIA GeForce RTX 3090")]),
        ([card(), card()], [card(count=2)]),
        ([card(), card("A100")], [card("A100"), card()]),
        ([card(memory=24)], [MachineDevice("RTX 3090", "accelerator", 1, 24 * GIB - (300 << 20), [])]),
    ],
)
def test_what_is_only_known_better_is_no_change(then: list[MachineDevice], today: list[MachineDevice]) -> None:
    assert device_changes(then, today) == []
    assert device_changes(today, then) == []


# --- over time -------------------------------------------------------------------------------------------------------


def runs_on(database: Database, *device_lists: list[MachineDevice]) -> tuple[int, list[datetime]]:
    """Runs of one configuration, a day apart, each on these devices; the id of their server and when they started."""
    started = [BEGUN + timedelta(days=day) for day in range(len(device_lists))]
    with database.write() as session:
        public_id = seed(session, runs=1, configs_used=1, detailed=1)[0]
        first = runs.run(session, public_id)
        first.started_at, first.hardware = started[0], freeze_devices(device_lists[0])
        session.add(first)
        for when, devices in zip(started[1:], device_lists[1:], strict=True):
            values = first.model_dump(exclude={"id", "public_id"})
            session.add(Run(**{**values, "started_at": when, "hardware": freeze_devices(devices)}))
        return first.server_id, started


@on_both
def test_changes_over_time(database: Database) -> None:
    probed = ram("Memory", 64, BandwidthValue(90e9, "measured", at=BEGUN))
    server_id, started = runs_on(
        database, [], [ram(), card()], [probed, card()], [probed, card(count=2)], [probed, card(count=2)]
    )
    with database.read() as session:
        hardware_timelines = timelines(session)
    steps = [hardware_timelines.between(server_id, then, today) for then, today in pairwise(started)]
    assert steps == [[], [], ["RTX 3090 → 2 × RTX 3090"], []]
    assert hardware_timelines.between(server_id, started[1], started[4]) == ["RTX 3090 → 2 × RTX 3090"]
    assert hardware_timelines.between(server_id, started[0], started[4]) == []  # nobody knows
    assert hardware_timelines.unchanged_since(server_id, started[4]) == started[3]
    assert hardware_timelines.unchanged_since(server_id, started[2]) is None
    assert hardware_timelines.between(server_id + 1, started[1], started[4]) == []
    assert hardware_timelines.all_changes() == {server_id: [HardwareChange(started[3], "RTX 3090 → 2 × RTX 3090")]}


@on_both
def test_a_run_after_a_change_is_set_beside_the_newest_before_it(database: Database) -> None:
    _, started = runs_on(database, [card()], [card()], [card(count=2)], [card(count=2)])
    with database.read() as session:
        by_start = {run.started_at: run for run in session.exec(select(Run)).all()}
        assert previous(session, by_start[started[1]]) is None
        before_change = previous(session, by_start[started[3]])
    assert before_change is not None
    assert list(before_change.changes) == ["RTX 3090 → 2 × RTX 3090"]
    assert before_change.public_id == by_start[started[1]].public_id


def test_a_machine_and_its_record(database: Database, run: str) -> None:
    with database.read() as session:
        row = runs.run(session, run)
        machine = session.get_one(Machine, row.machine_id)
        assert freeze(session, row) == row.hardware
        assert resolve_hardware(row.hardware, []).devices == machines.devices(session, machine)
