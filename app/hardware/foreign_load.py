"""Measures how much of this machine's processor time other programs take: all busy time, less that of the server and of
Roofmark.

Times are read at two moments and subtracted. One reading costs some milliseconds, most of them for the list of
processes, so readings are only taken while nothing is timed.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import psutil

from app.hardware.processes import listener_pids, processes

_GUEST = ("guest", "guest_nice")
"""Included in user time already."""
_IDLE = ("idle", "iowait")
_ProcessId = tuple[int, float]
"""A process number and its start time: numbers are reused."""


class CpuTimes(NamedTuple):
    """Seconds of processor time up to one moment."""

    total_s: float
    busy_s: float
    by_process: Mapping[_ProcessId, float]
    """The times of the server's and Roofmark's processes, including children that have ended."""
    roots: frozenset[_ProcessId]
    """The processes whose children are listed as well."""
    is_server_known: bool


class ForeignLoad(NamedTuple):
    """What other programs took of this machine's processors."""

    share: float
    """The share of all processors. It includes the server's own load when the server's processes are unknown."""
    is_server_known: bool


class CpuMeter:
    """Reads processor times, with those of one server's processes listed separately."""

    def __init__(self, port: int | None, own_pids: Sequence[int] = ()) -> None:
        """`port` is where the server listens on this machine; `own_pids` are Roofmark's processes besides the current
        one."""
        self._port = port
        self.own_pids = own_pids
        self._servers: list[psutil.Process] = []

    def read(self) -> CpuTimes:
        """Reads the times now; this takes some milliseconds."""
        servers = self._listening()
        helpers = list(processes(self.own_pids))
        by_process: dict[_ProcessId, float] = {}
        for process in [psutil.Process(), *_with_children([*servers, *helpers])]:
            try:
                by_process[_process_id(process)] = sum(
                    process.cpu_times()[:4]
                )  # with ended children, where the system tells
            except psutil.Error:  # it has just ended
                continue
        roots = frozenset(_process_id(process) for process in [*servers, *helpers])
        times = psutil.cpu_times()._asdict()
        total_s = sum(seconds for name, seconds in times.items() if name not in _GUEST)
        idle_s = sum(times.get(name, 0.0) for name in _IDLE)
        return CpuTimes(total_s, total_s - idle_s, by_process, roots, bool(servers))

    def _listening(self) -> list[psutil.Process]:
        """The processes that listen on the server's port; empty when the system does not report them."""
        if self._port is not None and not (self._servers and all(server.is_running() for server in self._servers)):
            self._servers = list(processes(listener_pids(self._port)))
        return self._servers


def foreign_load(before: CpuTimes, after: CpuTimes) -> ForeignLoad | None:
    """Returns the load of other programs between two readings, or None when it is unknown: no time has passed, or a
    process ended and its times are lost.

    On Linux a child that ended leaves its times to its parent; elsewhere its end makes the reading unusable.
    """
    elapsed_s = after.total_s - before.total_s
    ended = before.by_process.keys() - after.by_process.keys()
    if elapsed_s <= 0 or before.roots - after.roots or (ended and not psutil.LINUX):
        return None
    appeared = after.roots - before.roots
    if appeared:  # it had been running for an unknown time before
        return None
    own_s = sum(after.by_process.values()) - sum(before.by_process.values())
    share = (after.busy_s - before.busy_s - own_s) / elapsed_s
    return ForeignLoad(min(1.0, max(0.0, share)), before.is_server_known and after.is_server_known)


def _process_id(process: psutil.Process) -> _ProcessId:
    return process.pid, process.create_time()


def _with_children(roots: Sequence[psutil.Process]) -> Iterator[psutil.Process]:
    """Returns processes with their children. A server inside the current process brings none of its children, which
    belong to whoever started them."""
    for root in roots:
        yield root
        try:
            yield from root.children(recursive=True) if root.pid != os.getpid() else ()
        except psutil.Error:  # a process that has ended, or is another user's
            continue
