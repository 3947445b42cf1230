"""How busy a server is while it is measured: read by a process of its own."""

import time
from collections.abc import Mapping

import pytest

from app.core.settings import Settings
from app.engines import find
from app.engines.base import LOAD_GAUGES
from app.engines.http import ServerClient
from app.hardware.sensors import SensorReading
from app.measure import server_load
from tests.replay import Request, Script, serve
from tests.waiting import until

KEY = "sk-of-nobody"


def read(*values: Mapping[str, float]) -> dict[tuple[str, str], float]:
    metrics = server_load.load_metrics([SensorReading(float(index), gauges) for index, gauges in enumerate(values)])
    return {(metric.name, metric.statistic): metric.value for metric in metrics if metric.value is not None}


def test_mean_and_highest_of_what_was_told() -> None:
    assert read({"requests_running": 1, "kv_cache_use": 0.5}, {}, {"requests_running": 4}) == {
        ("requests_running", "mean"): 2.5,
        ("requests_running", "max"): 4,
        ("kv_cache_use", "mean"): 0.5,
        ("kv_cache_use", "max"): 0.5,
    }
    (first, _) = server_load.load_metrics([SensorReading(0.0, {"requests_running": 1.0})])
    assert first.provenance == "reported by the server while requests were processed, 1 reading"
    assert read() == read({}) == {}


def test_a_reading_before_or_after_a_round_is_none_of_it() -> None:
    idle = {"requests_running": 0.0, "requests_waiting": 0.0, "kv_cache_use": 0.0}
    assert read(idle, {**idle, "requests_waiting": 2.0, "kv_cache_use": 0.4}, idle) == {
        ("requests_running", "mean"): 0,
        ("requests_running", "max"): 0,
        ("requests_waiting", "mean"): 2,
        ("requests_waiting", "max"): 2,
        ("kv_cache_use", "mean"): 0.4,
        ("kv_cache_use", "max"): 0.4,
    }
    assert read({"requests_running": 0.0}) == read(idle) == {}
    assert read({"kv_cache_use": 0.0}) == {("kv_cache_use", "mean"): 0, ("kv_cache_use", "max"): 0}


def test_a_child_asks_the_server_with_its_key_and_ends_with_the_run() -> None:
    def metrics(request: Request) -> Script:
        allowed = request.headers.get("authorization") == f"Bearer {KEY}"
        return Script.text('vllm:num_requests_running{engine="0"} 3\n') if allowed else Script(status=401)

    settings, began_s = Settings(sensors=True), time.time()
    with serve({"/metrics": metrics}) as replay, ServerClient(replay.url, KEY, settings) as client:
        with server_load.watch_server_load(find("vllm"), client, KEY, settings) as watch:
            assert watch is not None
            child = watch._child
            assert child is not None
            assert KEY not in str(child.args)
            until(lambda: len(watch.between(began_s, time.time())) >= 2)
            readings = watch.between(began_s, time.time())
        assert child.poll() is not None
    assert [reading.values for reading in readings[:2]] == [{"requests_running": 3}] * 2
    assert readings[1].at_s - readings[0].at_s >= 0.4


@pytest.mark.parametrize(
    ("engine", "sensors", "answer"),
    [
        ("vllm", True, Script.text("nothing 1\n")),
        ("vllm", True, Script(status=404)),
        ("tgi", True, Script.text("vllm:num_requests_running 1\n")),
        ("vllm", False, Script.text("vllm:num_requests_running 1\n")),
    ],
)
def test_who_does_not_tell_is_not_watched(engine: str, sensors: bool, answer: Script) -> None:
    settings = Settings(sensors=sensors)
    with (
        serve({"/metrics": answer}) as replay,
        ServerClient(replay.url, None, settings) as client,
        server_load.watch_server_load(find(engine), client, None, settings) as watch,
    ):
        assert watch is None


def test_what_may_be_told_has_a_unit() -> None:
    assert set(LOAD_GAUGES.values()) == {"", "share"}
