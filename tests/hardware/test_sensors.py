"""Sensors of cards and processors that are not here: NVML and the kernel's files are made by hand."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.hardware import sensors
from app.hardware.sensors import Found, Reading, amd_card, nvml_card, read
from app.hardware.watch import MAX_READINGS, Watch, columns
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
    found = read([nvml_card(nvml(reasons=0x20 | 0x4 | 0x1), 1)])
    assert found.values == {
        "gpu1.power_w": 215.5,
        "gpu1.temperature_c": 71,
        "gpu1.memory_used_bytes": 9e9,
        "gpu1.load_percent": 98,
        "gpu1.clock_mhz": 1695,
        "gpu1.memory_clock_mhz": 1695,
    }
    assert found.throttles == ("gpu1: power limit", "gpu1: temperature")  # an idle card (0x1) is not held back


@pytest.mark.parametrize("silent", ["Power", "Temperature", "Memory", "Utilization", "ClockInfo", "Throttle"])
def test_what_a_card_does_not_tell_is_absent(silent: str) -> None:
    whole, less = read([nvml_card(nvml(4), 0)]), read([nvml_card(nvml(4, silent), 0)])
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
    (source,) = sensors._amd(tmp_path)
    assert read([source]).values == {
        "gpu0.power_w": pytest.approx(180),
        "gpu0.temperature_c": pytest.approx(64),
        "gpu0.memory_used_bytes": 4e9,
        "gpu0.load_percent": 97,
        "gpu0.clock_mhz": pytest.approx(2400),
    }
    write(device / "hwmon" / "hwmon3", power1_average="n/a", power1_input=170_000_000)
    assert read([amd_card(device, 0)]).values["gpu0.power_w"] == pytest.approx(170)


def test_processor_power_is_energy_over_time_and_the_counter_may_wrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, start in ((0, 1_000_000), (1, 999_000_000)):
        write(tmp_path / f"intel-rapl:{package}", energy_uj=start, max_energy_range_uj=1_000_000_000)
    write(tmp_path / "intel-rapl:0:0", energy_uj=5, max_energy_range_uj=10)  # a part of the package
    clock = iter([0.0, 0.0, 2.0, 2.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    packages = list(sensors._rapl(tmp_path))
    write(tmp_path / "intel-rapl:0", energy_uj=61_000_000)  # 60 J in 2 s
    write(tmp_path / "intel-rapl:1", energy_uj=39_000_000)  # 1 J until it wrapped, 39 J since
    assert read(packages).values == {"cpu_power_w": pytest.approx(30 + 20)}


def test_counters_that_may_not_be_read_are_absent(tmp_path: Path) -> None:
    write(tmp_path / "intel-rapl:0", max_energy_range_uj=10)
    assert list(sensors._rapl(tmp_path)) == []


def test_a_source_that_fails_later_takes_no_other_with_it() -> None:
    def broken(found: Found) -> None:
        raise OSError("the card fell off the bus")

    assert "ram_available_bytes" in read([broken, sensors.read_system]).values


def test_this_machine_has_memory_and_a_processor() -> None:
    values = read(sensors.sources()).values
    assert values["ram_available_bytes"] > 0
    assert 0 <= values["cpu_load_percent"] <= 100


def test_a_watch_takes_readings_in_a_process_of_its_own_and_ends_it() -> None:
    start_s = time.time()
    with Watch() as watch:
        child = watch._child
        assert child is not None
        until(lambda: len(watch.between(start_s, time.time())) >= 2)
        seen = watch.between(start_s, time.time())
        assert all(start_s <= reading.at_s <= time.time() for reading in seen)
        assert watch.between(time.time() + 60, time.time() + 61) == []
        assert watch.between(start_s, time.time() + 61) == []  # forgotten
    assert child.poll() is not None


def test_a_watch_that_cannot_start_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.hardware.watch.sys.executable", "/nowhere/python")
    with Watch() as watch:
        assert watch.between(0, 1e12) == []


def test_columns_have_a_place_for_every_reading_and_are_bounded() -> None:
    readings = [Reading(100 + n / 2, {"cpu_load_percent": n} | ({"gpu0.power_w": 5} if n else {})) for n in range(3)]
    assert columns(readings, 100) == {
        "at_ms": [0, 500, 1000],
        "values": {"cpu_load_percent": [0, 1, 2], "gpu0.power_w": [None, 5, 5]},
        "throttles": [],
    }
    assert columns([], 100) == {}
    many = columns([Reading(float(n), {"x": n}) for n in range(10 * MAX_READINGS)], 0)
    assert len(many["at_ms"]) == len(many["values"]["x"]) == MAX_READINGS
