"""Watching something while something else is being timed: in a process of its own, which writes into a file.

The child is a module that prints a `Reading` as a line of JSON now and then, and ends when its standard input does. The
one here (`python -m app.hardware.watch`) reads this machine's sensors twice a second.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from app.hardware import sensors
from app.hardware.sensors import SensorReading

INTERVAL_S = 0.5
ENDING_S = 2.0
MAX_READINGS = 600
"""Kept of one request: five minutes whole, of a longer one every second, third, ... reading."""

log = logging.getLogger(__name__)


class SensorProcess:
    """Watches for as long as its block lasts. A watch that cannot start sees nothing: measuring goes on."""

    def __init__(self, module: str = __name__, told: bytes = b"", environment: Mapping[str, str] | None = None) -> None:
        """`told` is what the child reads first; `environment` is what it has besides ours."""
        self._module, self._told, self._environment = module, told, {**os.environ, **(environment or {})}
        self._folder = tempfile.TemporaryDirectory(prefix="roofmark-")
        self._path = Path(self._folder.name) / "readings.jsonl"
        self._child: subprocess.Popen[bytes] | None = None
        self._written: IO[bytes] | None = None
        self._readings: list[SensorReading] = []
        self.has_seen = False
        """Whether there was any reading at all."""

    def __enter__(self) -> Self:
        try:
            with self._path.open("wb") as output:
                self._child = subprocess.Popen(  # noqa: S603  # our own interpreter and module
                    [sys.executable, "-m", self._module],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    env=self._environment,
                )
            assert self._child.stdin is not None
            self._child.stdin.write(self._told)
            self._child.stdin.flush()
            self._written = self._path.open("rb")
        except OSError:
            log.warning("%s cannot watch", self._module, exc_info=True)
        return self

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._child is not None:
            assert self._child.stdin is not None
            self._child.stdin.close()
            self._child.kill()  # it has nothing to lose
            try:
                self._child.wait(ENDING_S)
            except subprocess.TimeoutExpired:  # a driver that hangs in the kernel lets no process go
                log.warning("the process that reads the sensors does not end")
        if self._written is not None:
            self._written.close()
        self._folder.cleanup()

    def wait_for_first(self, seconds: float) -> None:
        """Until the child has taken a reading, has ended, or the time is over."""
        deadline = time.monotonic() + seconds
        while self._child is not None and self._child.poll() is None and time.monotonic() < deadline:
            if self._path.stat().st_size:
                return
            time.sleep(0.02)

    def between(self, start_s: float, end_s: float) -> list[SensorReading]:
        """Readings of that time (seconds since 1970); earlier ones are forgotten."""
        if self._written is not None:
            for line in self._written.read().splitlines():
                try:
                    self._readings.append(SensorReading(**json.loads(line)))
                except (ValueError, TypeError):  # half of a line, or what a driver printed: the next one is whole
                    continue
        self.has_seen = self.has_seen or bool(self._readings)
        self._readings = [reading for reading in self._readings if reading.at_s >= start_s]
        return [reading for reading in self._readings if reading.at_s <= end_s]


def sensor_columns(readings: Sequence[SensorReading], start_s: float) -> dict[str, Any]:
    """As a sample keeps them: `at_ms` after `start_s`, one list for each quantity (null where it was not told).

    `throttled` has such a list for each reason of `throttles`: whether it held just then.
    """
    if not readings:
        return {}
    step = -(-len(readings) // MAX_READINGS)
    kept = readings[::step]
    names = sorted({name for reading in kept for name in reading.values})
    throttles = sorted({why for reading in readings for why in reading.throttles})
    return {
        "at_ms": [round((reading.at_s - start_s) * 1000) for reading in kept],
        "values": {name: [reading.values.get(name) for reading in kept] for name in names},
        "throttles": throttles,
        "throttled": {why: [why in reading.throttles for reading in kept] for why in throttles},
    }


def stdin_closed() -> threading.Event:
    """Set when whoever started this process has closed its input, or is gone."""
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.buffer.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    return ended


def main() -> None:
    ended = stdin_closed()
    found = sensors.find_sources()
    while not ended.wait(INTERVAL_S):
        print(json.dumps(asdict(sensors.read_sensors(found))), flush=True)


if __name__ == "__main__":
    main()
