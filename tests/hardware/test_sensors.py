"""Sensors of cards and processors that are not here: NVML and the kernel's files are made by hand."""

import shutil
import struct
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from app.hardware import sensors
from app.hardware.processes import listener_pids
from app.hardware.sensor_process import MAX_READINGS, SensorProcess, sensor_columns
from app.hardware.sensors import SensorReading, SensorValues, amd_source, nvml_source, rapl_sources, read_sensors
from app.hardware.server_memory import ServerMemory
from tests.ports import free_port
from tests.waiting import until


class NVMLError(Exception):
    pass


def nvml(reasons: int = 0, silent: str = "") -> Any:
    """NVML with one card; what is named in `silent` is not supported."""

    def answer(name: str, value: object) -> Any:
        def ask(*_: object) -> object:
            if silent and silent in name:
                raise NVMLError("Not Supported")
            return value

        return ask

    answers = {
        "nvmlDeviceGetHandleByIndex": "handle",
        "nvmlDeviceGetPowerUsage": 215_500,
        "nvmlDeviceGetTemperature": 71,
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=9_000_000_000),
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=98),
        "nvmlDeviceGetClockInfo": 1695,
        "nvmlDeviceGetCurrentClocksThrottleReasons": reasons,
    }
    constants = {"NVML_TEMPERATURE_GPU": 0, "NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2, "NVMLError": NVMLError}
    return SimpleNamespace(**constants, **{name: answer(name, value) for name, value in answers.items()})


def test_a_card_tells_everything() -> None:
    reading = read_sensors([nvml_source(nvml(reasons=0x20 | 0x4 | 0x1), 1)])
    assert reading.values == {
        "gpu1.power_w": 215.5,
        "gpu1.temperature_c": 71,
        "gpu1.memory_used_bytes": 9e9,
        "gpu1.load_percent": 98,
        "gpu1.clock_mhz": 1695,
        "gpu1.memory_clock_mhz": 1695,
    }
    assert reading.throttles == ("gpu1: power limit", "gpu1: temperature")  # an idle card (0x1) is not held back


@pytest.mark.parametrize("silent", ["Power", "Temperature", "Memory", "Utilization", "ClockInfo", "Throttle"])
def test_what_a_card_does_not_tell_is_absent(silent: str) -> None:
    whole, less = read_sensors([nvml_source(nvml(4), 0)]), read_sensors([nvml_source(nvml(4, silent), 0)])
    assert less.values.items() <= whole.values.items()
    assert (less.values, less.throttles) != (whole.values, whole.throttles)


def write(folder: Path, **files: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n")
    return folder


def test_an_amd_card_tells_everything_in_files(tmp_path: Path) -> None:
    device = write(tmp_path / "card1" / "device", mem_info_vram_used=4_000_000_000, gpu_busy_percent=97)
    write(device / "hwmon" / "hwmon3", power1_average=180_000_000, temp1_input=64_000, freq1_input=2_400_000_000)
    write(tmp_path / "card0" / "device")  # another driver's
    write(device / "hwmon" / "hwmon3", power1_cap=300_000_000)
    (source,) = sensors.gpu_sources(tmp_path)
    assert read_sensors([source]).values == {
        "gpu0.power_w": pytest.approx(180),
        "gpu0.temperature_c": pytest.approx(64),
        "gpu0.memory_used_bytes": 4e9,
        "gpu0.load_percent": 97,
        "gpu0.clock_mhz": pytest.approx(2400),
    }
    write(device / "hwmon" / "hwmon3", power1_average="n/a", power1_input=170_000_000)
    assert read_sensors([amd_source(device, 0)]).values["gpu0.power_w"] == pytest.approx(170)


def test_processor_power_is_energy_over_time_and_the_counter_may_wrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, start in ((0, 1_000_000), (1, 999_000_000)):
        name = f"package-{package}"
        write(tmp_path / f"intel-rapl:{package}", name=name, energy_uj=start, max_energy_range_uj=1_000_000_000)
    write(tmp_path / "intel-rapl:0:0", name="core", energy_uj=5, max_energy_range_uj=10)  # a part of the package
    write(tmp_path / "intel-rapl:2", name="psys", energy_uj=5, max_energy_range_uj=10)  # holds the packages
    clock = iter([0.0, 0.0, 2.0, 2.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    packages = list(rapl_sources(tmp_path))
    write(tmp_path / "intel-rapl:0", energy_uj=61_000_000)  # 60 J in 2 s
    write(tmp_path / "intel-rapl:1", energy_uj=39_000_000)  # 1 J until it wrapped, 39 J since
    assert read_sensors(packages).values == {"cpu_power_w": pytest.approx(30 + 20)}


def test_counters_that_may_not_be_read_are_absent(tmp_path: Path) -> None:
    write(tmp_path / "intel-rapl:0", name="package-0", max_energy_range_uj=10)
    assert list(rapl_sources(tmp_path)) == []


@pytest.mark.parametrize("error", [OSError, ValueError, RuntimeError, KeyError, AttributeError, NVMLError])
def test_a_source_that_fails_later_takes_no_other_with_it(error: type[Exception]) -> None:
    def broken(readings: SensorValues) -> None:
        raise error("the card fell off the bus")

    assert "ram_available_bytes" in read_sensors([broken, *sensors.system_sources()]).values


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gpu0.power_w", 4_294_967.295),
        ("gpu0.power_w", -1.0),
        ("gpu1.temperature_c", 65_535.0),
        ("gpu0.load_percent", 65_535.0),
        ("gpu0.clock_mhz", float("nan")),
        ("cpu_power_w", 1e7),
    ],
)
def test_what_no_hardware_can_do_is_not_a_figure(name: str, value: float) -> None:
    def odd(readings: SensorValues) -> None:
        readings.values |= {name: value, "ram_available_bytes": 1.0}

    assert read_sensors([odd]).values == {"ram_available_bytes": 1.0}


def test_swap_that_the_system_hides_is_absent_and_not_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden() -> Any:
        warnings.warn("'sin' and 'sout' swap memory stats couldn't be determined", RuntimeWarning, stacklevel=1)
        return SimpleNamespace(used=0, sin=0, sout=0)

    monkeypatch.setattr("psutil.swap_memory", hidden)
    values = read_sensors(sensors.system_sources()).values
    assert "ram_available_bytes" in values
    assert not {"swap_used_bytes", "swapped_bytes"} & set(values)


def test_a_lost_card_keeps_its_number_and_others_are_counted_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = nvml()

    def handle(index: int) -> str:
        if index == 0:
            raise NVMLError("GPU is lost")
        return "handle"

    two = SimpleNamespace(
        **{**vars(made), "nvmlInit": int, "nvmlDeviceGetCount": lambda: 2, "nvmlDeviceGetHandleByIndex": handle}
    )
    monkeypatch.setattr(sensors, "load_nvml", lambda: two)
    for number in (10, 9):  # in the order of their numbers, not of their names
        write(tmp_path / f"card{number}" / "device", mem_info_vram_used=number, gpu_busy_percent=number)
    (tmp_path / "card9-DP-1").mkdir()
    values = read_sensors(sensors.gpu_sources(tmp_path)).values
    assert {name.partition(".")[0] for name in values} == {"gpu1", "gpu2", "gpu3"}
    assert (values["gpu2.load_percent"], values["gpu3.load_percent"]) == (9, 10)


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetCount"])
def test_a_driver_that_does_not_answer_has_no_cards(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise NVMLError("Driver/library version mismatch")

    answers = {**vars(nvml()), "nvmlInit": int, "nvmlDeviceGetCount": int, broken: refuse}
    monkeypatch.setattr(sensors, "load_nvml", lambda: SimpleNamespace(**answers))
    assert sensors.gpu_sources(tmp_path) == []


@pytest.mark.parametrize(
    ("reasons", "why"),
    [
        (0x1, ()),  # idle
        (0x2, ()),  # clocks that somebody set
        (0x10, ()),  # in step with other cards
        (0x100, ()),  # clocks of a display
        (0x4, ("gpu0: power limit",)),
        (0x8, ("gpu0: hardware slowdown",)),
        (0x20, ("gpu0: temperature",)),
        (0x60, ("gpu0: temperature",)),
        (0x80, ("gpu0: power brake",)),
    ],
)
def test_reasons_in_words(reasons: int, why: tuple[str, ...]) -> None:
    assert read_sensors([nvml_source(nvml(reasons), 0)]).throttles == why


def gpu_metrics(revisions: tuple[int, int], at: int, status: int) -> bytes:
    content = bytearray(at + 8)
    struct.pack_into("<HBB", content, 0, len(content), *revisions)
    struct.pack_into("<Q", content, at, status)
    return bytes(content)


@pytest.mark.parametrize(("revisions", "at"), [((1, 3), 112), ((2, 2), 120), ((2, 4), 120)])
@pytest.mark.parametrize(
    ("status", "why"),
    [
        (0, ()),
        (1 << 1, ("gpu0: power limit",)),
        (1 << 22, ("gpu0: current limit",)),
        (1 << 36 | 1 << 0, ("gpu0: power limit", "gpu0: temperature")),
        (1 << 56, ()),  # neither
        (2**64 - 1, ()),  # not told
    ],
)
def test_throttlers_of_an_amd_card(
    revisions: tuple[int, int], at: int, status: int, why: tuple[str, ...], tmp_path: Path
) -> None:
    device = write(tmp_path, mem_info_vram_used=1)
    (device / "gpu_metrics").write_bytes(gpu_metrics(revisions, at, status))
    assert read_sensors([amd_source(device, 0)]).throttles == why


@pytest.mark.parametrize("content", [b"", b"\x01", gpu_metrics((1, 3), 40, 0)[:60], gpu_metrics((9, 9), 112, 255)])
def test_metrics_of_another_shape_tell_nothing(content: bytes, tmp_path: Path) -> None:
    device = write(tmp_path, mem_info_vram_used=1)
    (device / "gpu_metrics").write_bytes(content)
    reading = read_sensors([amd_source(device, 0)])
    assert (reading.values["gpu0.memory_used_bytes"], reading.throttles) == (1, ())


@pytest.mark.parametrize("has_metrics", [True, False])
def test_a_chip_with_graphics_draws_its_power_once(has_metrics: bool, tmp_path: Path) -> None:
    """Its driver tells the power of the whole chip, which the processor's counter has already where it is readable."""
    device = write(tmp_path / "device", mem_info_vram_used=512, mem_info_gtt_used=9_000)
    write(device / "hwmon" / "hwmon1", temp1_input=50_000)
    write(device / "hwmon" / "hwmon2", power1_input=55_000_000)  # another of its monitors
    if has_metrics:
        (device / "gpu_metrics").write_bytes(gpu_metrics((2, 2), 120, 0))
    values = read_sensors([amd_source(device, 0)]).values
    assert values == {"cpu_power_w": 55, "gpu0.temperature_c": 50, "gpu0.memory_used_bytes": 9_512}

    def processor_power(readings: SensorValues) -> None:
        readings.values["cpu_power_w"] = 61.0

    assert read_sensors([processor_power, amd_source(device, 0)]).values["cpu_power_w"] == 61


def test_files_that_vanish_or_may_not_be_read_are_absent(tmp_path: Path) -> None:
    device = write(tmp_path / "device", mem_info_vram_used=512, gpu_busy_percent=5)
    monitor = write(device / "hwmon" / "hwmon3", power1_average=1_000_000, power1_cap=9)
    card = amd_source(device, 0)
    assert read_sensors([card]).values["gpu0.power_w"] == 1
    (monitor / "power1_average").unlink()
    (monitor / "power1_average").mkdir()  # reading it is refused
    assert read_sensors([card]).values == {"gpu0.memory_used_bytes": 512, "gpu0.load_percent": 5}
    shutil.rmtree(device)  # pulled out
    assert read_sensors([card]).values == {}


def test_an_intel_card_is_a_counter_of_energy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = write(tmp_path / "card0" / "device")
    counter = write(device / "hwmon" / "hwmon0", energy1_input=1_000_000)
    write(tmp_path / "card1" / "device")  # within a processor
    times = iter([0.0, 2.0, 4.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    sources = sensors.gpu_sources(tmp_path)
    write(counter, energy1_input=201_000_000)
    assert read_sensors(sources).values == {"gpu0.power_w": 100}
    write(counter, energy1_input=5)  # its driver was loaded anew: nobody knows what it drew
    assert read_sensors(sources).values == {}


def test_this_machine_has_memory_and_a_processor() -> None:
    values = read_sensors(sensors.find_sources()).values
    assert values["ram_available_bytes"] > 0
    assert 0 <= values["cpu_load_percent"] <= 100


def test_a_watch_takes_readings_in_a_process_of_its_own_and_ends_it() -> None:
    start_s = time.time()
    with SensorProcess() as watch:
        child = watch._child
        assert child is not None
        until(lambda: len(watch.between(start_s, time.time())) >= 2)
        readings = watch.between(start_s, time.time())
        assert all(start_s <= reading.at_s <= time.time() for reading in readings)
        assert watch.between(time.time() + 60, time.time() + 61) == []
        assert watch.between(start_s, time.time() + 61) == []  # forgotten
    assert child.poll() is not None


@pytest.mark.parametrize(
    "printed",
    [b"5\n", b"null\n", b"[1, 2]\n", b'{"at_s": 1', b'{"what": 1}\n', b"\xff\xfe\n", b"Segmentation fault\n", b"\n\n"],
)
def test_garbage_from_the_process_loses_no_more_than_its_line(printed: bytes, tmp_path: Path) -> None:
    with SensorProcess() as watch:
        child = watch._child
        assert child is not None
        child.kill()
        child.wait()
        watch._path.write_bytes(printed)
        assert watch.between(0, 1e12) == []
        with watch._path.open("ab") as more:
            more.write(b'\n{"at_s": 7.0, "values": {"x": 1}, "throttles": ["y"]}\n')
        assert [reading.at_s for reading in watch.between(0, 1e12)] == [7.0]
    assert watch.has_readings


def test_a_process_that_does_not_end_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(timeout: float) -> None:
        raise subprocess.TimeoutExpired("python", timeout)

    with SensorProcess() as watch:
        child = watch._child
        assert child is not None
        monkeypatch.setattr(child, "wait", hangs)  # within a driver, in the kernel
    monkeypatch.undo()
    child.wait()


def test_a_watch_that_cannot_start_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.hardware.sensor_process.sys.executable", "/nowhere/python")
    with SensorProcess() as watch:
        assert watch.between(0, 1e12) == []


def test_columns_have_a_place_for_every_reading_and_are_bounded() -> None:
    readings = [
        SensorReading(100 + n / 2, {"cpu_load_percent": n} | ({"gpu0.power_w": 5} if n else {})) for n in range(3)
    ]
    assert sensor_columns(readings, 100) == {
        "at_ms": [0, 500, 1000],
        "values": {"cpu_load_percent": [0, 1, 2], "gpu0.power_w": [None, 5, 5]},
        "throttles": [],
        "throttled": {},
    }
    columns = sensor_columns([SensorReading(100, {"x": 1}, ("gpu0: temperature",)), SensorReading(101, {"x": 1})], 100)
    assert (columns["throttles"], columns["throttled"]) == (["gpu0: temperature"], {"gpu0: temperature": [True, False]})
    assert sensor_columns([], 100) == {}
    many = sensor_columns([SensorReading(float(n), {"x": n}) for n in range(10 * MAX_READINGS)], 0)
    assert len(many["at_ms"]) == len(many["values"]["x"]) == MAX_READINGS


def test_the_memory_of_the_processes_behind_a_port_is_added_up() -> None:
    """A server of 64 MB with a child of 64 MB, both of which really hold it."""
    program = (
        "import socket, subprocess, sys\n"
        "held = bytearray(b'x') * (64 << 20)\n"
        "if sys.argv[1] == 'server':\n"
        "    listener = socket.create_server(('127.0.0.1', int(sys.argv[2])))\n"
        "    child = subprocess.Popen([sys.executable, '-c', sys.argv[3], 'child'])\n"
        "sys.stdin.read()\n"
    )
    port = free_port()
    command = [sys.executable, "-c", program, "server", str(port), program]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as server:
        try:
            family = psutil.Process(server.pid)
            until(lambda: bool(listener_pids(port)) and len(family.children()) == 1)
            until(lambda: family.children()[0].memory_info().rss > 64 << 20)
            readings = sensors.SensorValues()
            ServerMemory(port)(readings)
            assert readings.values["server_memory_bytes"] > 2 * (64 << 20)
        finally:
            for child in family.children():
                child.kill()
            server.kill()


def test_a_port_without_a_server_has_no_memory() -> None:
    readings = sensors.SensorValues()
    ServerMemory(free_port())(readings)
    assert readings.values == {}
