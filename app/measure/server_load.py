"""Reads the load that the server reports while requests are timed, in a process of its own.

The child (`python -m app.measure.server_load`) reads one line of JSON that names the server, takes a reading at once
and then at most twice a second, and rests ten times as long as the answer took, so that a slow engine is asked less
often.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from statistics import fmean

from app import engines
from app.core.errors import ServerError
from app.core.i18n import _
from app.core.server_metrics import ServerMetric
from app.core.settings import Settings
from app.core.units import plural
from app.engines.base import LOAD_GAUGES, Engine
from app.engines.http import ServerClient
from app.hardware.sensor_process import INTERVAL_S, SensorProcess, stdin_closed
from app.hardware.sensors import SensorReading

REST_RATIO = 10
_REQUEST_GAUGES = ("requests_running", "requests_waiting")
FIRST_READING_TIMEOUT_S = 3.0
"""How long a run waits for the child, whose start would otherwise take processor time from the timed part."""


@contextmanager
def watch_server_load(
    engine: Engine, client: ServerClient, api_key: str | None, settings: Settings
) -> Iterator[SensorProcess | None]:
    """Returns the process that reads the server's load; None when the server does not report it or sensors are off.

    The API key goes through the child's standard input, so that no list of processes shows it.
    """
    if not settings.sensors or not _has_load_gauges(engine, client):
        yield None
        return
    target = {
        "engine": engine.key,
        "url": client.base_url,
        "api_key": api_key,
        "api_prefix": client.api_prefix,
        "model": client.model,
        "backend": client.backend,
    }
    with SensorProcess(__name__, json.dumps(target).encode() + b"\n", settings.to_env()) as process:
        process.wait_for_first(FIRST_READING_TIMEOUT_S)
        yield process


def _has_load_gauges(engine: Engine, client: ServerClient) -> bool:
    try:
        return bool(engine.load(client))
    except ServerError:  # the run reports the server's error
        return False


def load_metrics(readings: Sequence[SensorReading]) -> list[ServerMetric]:
    """Returns mean and highest value of each gauge while the run's requests were processed.

    A reading without any request was taken a moment before the first of a round came, or after the last had ended.
    """
    readings_at_work = [reading.values for reading in readings if _is_at_work(reading.values)]
    metrics = []
    for name, unit in LOAD_GAUGES.items():
        values = [gauges[name] for gauges in readings_at_work if name in gauges]
        if values:
            how = _(
                "reported by the server while requests were processed, {readings}",
                readings=plural(len(values), "reading"),
            )
            metrics += [
                ServerMetric(name, "mean", unit, fmean(values), how),
                ServerMetric(name, "max", unit, max(values), how),
            ]
    return metrics


def _is_at_work(gauges: Mapping[str, float]) -> bool:
    requests = [gauges[name] for name in _REQUEST_GAUGES if name in gauges]
    return not requests or sum(requests) > 0


def main() -> None:
    """Prints readings of the server's load as lines of JSON until standard input is closed."""
    target = json.loads(sys.stdin.buffer.readline())
    ended = stdin_closed()
    engine = engines.find(target.pop("engine"))
    with ServerClient(**target, settings=Settings()) as client:
        while True:
            started_s = time.monotonic()
            try:
                gauges = engine.load(client)
            except ServerError:  # it may answer the next time
                gauges = {}
            print(json.dumps(asdict(SensorReading(time.time(), gauges))), flush=True)
            if ended.wait(max(INTERVAL_S, REST_RATIO * (time.monotonic() - started_s))):
                return


if __name__ == "__main__":
    main()
