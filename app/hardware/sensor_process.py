"""Reading sensors while something is being timed: in a process of its own, which writes its readings into a file.

The child is a module that prints a `SensorReading` as a line of JSON now and then, and ends when its standard input is
closed. This module is one (`python -m app.hardware.sensor_process`): it reads this machine's sensors twice a second.
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

from app.hardware.sensors import SensorReading, find_sources, read_sensors
from app.hardware.server_memory import ServerMemory

INTERVAL_S = 0.5
EXIT_TIMEOUT_S = 2.0
MAX_READINGS = 600
"""The most readings kept of one request: all of five minutes; of a longer request every second, third, ... reading."""

log = logging.getLogger(__name__)


class SensorProcess:
    """Reads sensors while its block runs. A process that cannot start reads nothing, and measuring goes on."""

    def __init__(
        self, module: str = __name__, stdin_payload: bytes = b"{}\n", environment: Mapping[str, str] | None = None
    ) -> None:
        """`stdin_payload` is what the child reads first; `environment` is added to this process's environment."""
        self._module, self._stdin_payload = module, stdin_payload
        self._environment = {**os.environ, **(environment or {})}
        self._folder = tempfile.TemporaryDirectory(prefix="roofmark-")
        self._path = Path(self._folder.name) / "readings.jsonl"
        self._child: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._readings: list[SensorReading] = []
        self.has_readings = False
        """Whether there has been any reading."""

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
            self._child.stdin.write(self._stdin_payload)
            self._child.stdin.flush()
            self._output = self._path.open("rb")
        except OSError:  # a run goes on without sensors
            log.warning("%s cannot be started", self._module, exc_info=True)
        return self

    @property
    def pid(self) -> int | None:
        """The child's process id; None where it could not start."""
        return self._child.pid if self._child else None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._child is not None:
            assert self._child.stdin is not None
            self._child.stdin.close()
            self._child.kill()  # it has nothing to lose
            try:
                self._child.wait(EXIT_TIMEOUT_S)
            except subprocess.TimeoutExpired:  # a driver that hangs in the kernel lets no process go
                log.warning("the process that reads the sensors does not end")
        if self._output is not None:
            self._output.close()
        self._folder.cleanup()

    def wait_for_first(self, seconds: float) -> None:
        """Waits until the child has taken a reading or ended, or the timeout is over."""
        deadline_s = time.monotonic() + seconds
        while self._child is not None and self._child.poll() is None and time.monotonic() < deadline_s:
            if self._path.stat().st_size:
                return
            time.sleep(0.02)

    def between(self, start_s: float, end_s: float) -> list[SensorReading]:
        """Returns the readings between two times (seconds since 1970) and forgets earlier ones."""
        if self._output is not None:
            for line in self._output.read().splitlines():
                try:
                    self._readings.append(SensorReading(**json.loads(line)))
                except (ValueError, TypeError):  # half of a line, or what a driver printed: the next one is whole
                    continue
        self.has_readings = self.has_readings or bool(self._readings)
        self._readings = [reading for reading in self._readings if reading.at_s >= start_s]
        return [reading for reading in self._readings if reading.at_s <= end_s]


def sensor_columns(readings: Sequence[SensorReading], start_s: float) -> dict[str, Any]:
    """Returns the readings as a sample stores them: `at_ms` after `start_s`, and one list per quantity (null: not
    reported).

    `throttled` holds one list per throttle reason: whether it was active at each reading. Empty without readings.
    """
    if not readings:
        return {}
    step = -(-len(readings) // MAX_READINGS)
    thinned = readings[::step]
    names = sorted({name for reading in thinned for name in reading.values})
    throttles = sorted({reason for reading in readings for reason in reading.throttles})
    return {
        "at_ms": [round((reading.at_s - start_s) * 1000) for reading in thinned],
        "values": {name: [reading.values.get(name) for reading in thinned] for name in names},
        "throttles": throttles,
        "throttled": {reason: [reason in reading.throttles for reading in thinned] for reason in throttles},
    }


def stdin_closed() -> threading.Event:
    """Returns an event that is set when the parent process has closed this process's standard input, or is gone."""
    closed = threading.Event()

    def wait_for_end_of_input() -> None:
        sys.stdin.buffer.read()
        closed.set()

    threading.Thread(target=wait_for_end_of_input, daemon=True).start()
    return closed


def main() -> None:
    """Prints a reading of this machine's sensors as a line of JSON twice a second, until standard input is closed.

    Its first line says what to read besides: `{"server_port": 8080}` for the memory of the server there.
    """
    target = json.loads(sys.stdin.buffer.readline() or b"{}")
    closed = stdin_closed()
    sources = find_sources()
    if (port := target.get("server_port")) is not None:
        sources.append(ServerMemory(port))
    while not closed.wait(INTERVAL_S):
        print(json.dumps(asdict(read_sensors(sources))), flush=True)


if __name__ == "__main__":
    main()
