"""How much system memory the processes of one server hold, for servers on this machine."""

import psutil

from app.hardware.processes import listener_pids, processes
from app.hardware.sensors import SensorValues

RELISTED_AFTER = 10
"""The number of readings after which children that were started since are looked for."""


class ServerMemory:
    """The source of `server_memory_bytes`: the resident memory of the processes that listen on a port, and of their
    children.

    Resident memory counts the parts of a model's file that are mapped and in memory. Pages that several of the
    processes share count for each of them.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._processes: list[psutil.Process] = []
        self._readings = 0

    def __call__(self, readings: SensorValues) -> None:
        """Adds the sum, unless the system does not show the processes. Raises psutil.Error for one that belongs to
        somebody else."""
        if self._readings % RELISTED_AFTER == 0 or not self._processes:
            self._processes = self._family()
        self._readings += 1
        sizes = [size for process in self._processes if (size := _resident_bytes(process)) is not None]
        if sizes:
            readings.values["server_memory_bytes"] = sum(sizes)

    def _family(self) -> list[psutil.Process]:
        listeners = list(processes(listener_pids(self._port)))
        return [*listeners, *(child for listener in listeners for child in listener.children(recursive=True))]


def _resident_bytes(process: psutil.Process) -> int | None:
    try:
        size: int = process.memory_info().rss
    except psutil.NoSuchProcess:  # it has ended since
        return None
    return size
