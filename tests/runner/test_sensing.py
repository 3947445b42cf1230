"""Whose sensors are read, and what is said where none are."""

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.settings import Settings
from app.db import machines
from app.db.database import Database
from app.db.tables import Machine
from app.hardware.host import names_this_host, this_host
from app.measure.active_run import with_sensor_columns
from app.measure.execute import watch_sensors
from app.measure.run_checks import missing_sensors_reason, sensor_disturbances
from app.results.compare import soundness
from tests.traces import sample

READ = {"at_ms": [0, 500], "values": {}, "throttles": []}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"sensors": True})


@pytest.mark.parametrize(
    ("name", "hostname", "is_here"),
    [
        (this_host().name, None, True),
        ("Renamed", this_host().name, True),
        ("GPU box", None, False),  # behind a tunnel, its server has a loopback address here
        (this_host().name, "another-host", False),
    ],
)
def test_a_machine_is_this_one_by_what_was_told_and_not_by_its_servers_address(
    name: str, hostname: str | None, is_here: bool
) -> None:
    assert machines.is_local_machine(Machine(slug="m", name=name, hostname=hostname)) is is_here


def test_the_sensors_of_another_machine_are_not_read(settings: Settings) -> None:
    with watch_sensors(False, settings, 1) as process:
        assert process is None
    with watch_sensors(True, settings.model_copy(update={"sensors": False}), 1) as process:
        assert process is None
    with watch_sensors(True, settings, 1) as process:
        assert process is not None


@pytest.mark.parametrize(
    ("is_here", "has_watch", "has_readings", "sensors", "why"),
    [
        (False, False, False, {}, "elsewhere"),
        (True, False, False, {}, "off"),
        (True, True, False, {}, "silent"),
        (True, True, True, {}, "short"),
        (True, True, True, READ, None),
    ],
)
def test_why_nothing_is_known(
    is_here: bool, has_watch: bool, has_readings: bool, sensors: dict[str, Any], why: str | None
) -> None:
    process: Any = SimpleNamespace(has_readings=has_readings) if has_watch else None
    assert missing_sensors_reason(is_here, process, [sample(sensors=sensors)]) == why


def test_only_the_first_stream_keeps_what_was_seen() -> None:
    from app.db.tables import now
    from app.measure.job import TimedSample

    def between(start_s: float, end_s: float) -> list[Any]:
        return [SimpleNamespace(at_s=start_s + 0.1, values={"cpu_load_percent": 5}, throttles=())]

    process: Any = SimpleNamespace(between=between)
    first, second = (with_sensor_columns(TimedSample(sample(stream=n), now(), 1.0), process).sample for n in range(2))
    assert first.sensors["at_ms"] == [100]
    assert second.sensors == {}
    assert with_sensor_columns(TimedSample(sample(), now(), 1.0), None).sample.sensors == {}


def columns(*throttles: str, swapped: tuple[int, int] = (0, 0)) -> dict[str, Any]:
    return {"at_ms": [0, 500], "values": {"swapped_bytes": list(swapped)}, "throttles": list(throttles)}


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ([columns(), columns()], []),
        # held back all along, it is the machine as it is
        ([columns("gpu0: temperature"), columns("gpu0: temperature")], []),
        ([columns(), columns("gpu0: temperature")], [soundness.throttled(["gpu0: temperature"])]),
        ([columns(), columns("gpu0: power limit")], []),  # what a card under load is meant to run at
        ([{}, columns("gpu0: temperature")], []),  # of the first one nothing is known
        ([columns(swapped=(0, 2**20)), columns(swapped=(2**20, 2**30))], [soundness.swapped(2**30)]),
        ([columns(swapped=(0, 2**20)), columns(swapped=(2**20, 2**21))], []),
    ],
)
def test_what_began_during_the_run_is_a_disturbance(
    rounds: list[dict[str, Any]], expected: list[soundness.Disturbance]
) -> None:
    warm_up = sample(is_warmup=True, sensors=columns())
    assert sensor_disturbances([warm_up, *(sample(sensors=sensors) for sensors in rounds)]) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (lambda: socket.gethostname().upper(), True),
        (lambda: "127.0.0.1", True),
        (lambda: "::1", True),
        (lambda: "192.168.7.5", True),
        (lambda: "fe80::1", True),
        (lambda: "192.168.7.6", False),
        (lambda: "example.com", False),
        (lambda: "", False),
    ],
)
def test_a_machine_knows_its_own_names_and_addresses(
    host: Callable[[], str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = [SimpleNamespace(address=address_) for address_ in ("192.168.7.5", "fe80::1%eth0", "02:42:ac:11:00:02")]
    monkeypatch.setattr("psutil.net_if_addrs", lambda: {"eth0": addresses})
    assert names_this_host(host()) is expected


def test_the_terminal_takes_an_address_of_its_own_for_this_machine(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.cli.measure import _machine_at

    address = "192.168.7.5"
    monkeypatch.setattr("psutil.net_if_addrs", lambda: {"eth0": [SimpleNamespace(address=address)]})
    with database.write() as session:
        local = _machine_at(session, f"http://{address}:8080")
        remote = _machine_at(session, "http://192.168.7.6:8080")
        assert _machine_at(session, "http://localhost:8080").id == local.id
        assert machines.is_local_machine(local)
        assert not machines.is_local_machine(remote)
