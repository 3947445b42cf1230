"""The processes of a server on this machine: which one listens on its port, and how it and its relatives were started.

Only the environment variables that a caller names are read, and nothing is kept: what of a command line may be stored
is decided by `app.engines.process`.
"""

import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import psutil

log = logging.getLogger(__name__)

MAX_ANCESTORS = 3
"""How far above the listening process a launcher may be that was given the command line."""
_FORWARDERS = frozenset((
    "ssh", "sshd", "autossh", "socat", "kubectl", "nginx", "caddy", "haproxy", "traefik", "envoy", "httpd", "apache2",
    "cloudflared", "tailscaled", "stunnel", "docker-proxy", "rootlesskit", "rootlessport", "slirp4netns", "pasta",
    "gvproxy", "com.docker.backend", "conmon", "wslrelay",
))  # fmt: skip
"""Programs that listen for a server that runs somewhere else: in a container, behind a proxy, on another machine."""


@dataclass(frozen=True)
class ServerProcess:
    """One process of a server, as the system shows it."""

    pid: int
    started_at: float
    """Seconds since the epoch."""
    program: str
    """The name of its program; empty where that is unknown."""
    arguments: tuple[str, ...] | None = field(default=None, repr=False)
    """Its command line; None where it belongs to another user, or the system hides it. It may hold secrets."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Those of the variables asked for that it has; empty where it cannot be read."""
    folder: str | None = None
    """Its working folder."""
    is_environment_known: bool = False
    is_listener: bool = False

    @property
    def is_forwarder(self) -> bool:
        """Whether it only hands on what a server says that runs somewhere else."""
        return PurePath(self.program).name.lower().removesuffix(".exe") in _FORWARDERS


def listener_pids(port: int, address: str | None = None) -> list[int]:
    """The ids of the processes that listen on a port; empty unless all are known: without rights, a system hides the
    owners of connections.

    Where several addresses of this machine have a listener on that port, only that of `address` counts.
    """
    pairs = _listeners(port)
    at_address = [(ip, pid) for ip, pid in pairs if ip == address]
    pids = {pid for _ip, pid in at_address or pairs}
    return [] if None in pids else sorted(pid for pid in pids if pid is not None)


def _listeners(port: int) -> list[tuple[str, int | None]]:
    try:
        connections = [(connection, connection.pid) for connection in psutil.net_connections("tcp")]
    except psutil.Error:  # macOS shows a person only the connections of their own processes, one process at a time
        connections = [
            (connection, process.pid) for process in psutil.process_iter() for connection in _connections(process)
        ]
    return [
        (connection.laddr.ip, pid)
        for connection, pid in connections
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
    ]


def _connections(process: psutil.Process) -> Sequence[Any]:
    try:
        return process.net_connections("tcp")
    except (psutil.Error, OSError):  # another user's, or it has just ended
        return ()


def server_processes(port: int, variables: Collection[str], address: str | None = None) -> list[ServerProcess]:
    """The process that listens on a port, its descendants, and its nearest ancestors, in that order; of the environment
    of each only these variables.

    Empty where the system does not show it, and where it is Roofmark's own process or one that started it: those
    measure nothing but themselves.
    """
    try:
        own_family = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
        pids = listener_pids(port, address)
        if not pids or own_family & set(pids):
            return []
        listener = psutil.Process(pids[0])
        descendants, ancestors = listener.children(recursive=True), listener.parents()[:MAX_ANCESTORS]
    except (psutil.Error, OSError) as error:
        log.info("the process that listens on port %d cannot be read: %s", port, error)
        return []
    outside = [process for process in ancestors if process.pid > 1 and process.pid not in own_family]
    return [
        server_process
        for process in (listener, *descendants, *outside)
        if (server_process := _read(process, variables, is_listener=process is listener)) is not None
    ]


def _read(process: psutil.Process, variables: Collection[str], *, is_listener: bool) -> ServerProcess | None:
    try:
        with process.oneshot():
            pid, started_at, program = process.pid, process.create_time(), _program(process)
            arguments, environment = _arguments(process), _environment(process)
            return ServerProcess(
                pid=pid,
                started_at=started_at,
                program=program,
                arguments=arguments,
                environment={name: environment[name] for name in variables if name in environment},
                folder=_folder(process),
                is_environment_known=bool(environment),
                is_listener=is_listener,
            )
    except (psutil.Error, OSError):  # it has just ended
        return None


def _program(process: psutil.Process) -> str:
    try:
        return PurePath(process.exe()).name or process.name()
    except (psutil.Error, OSError):  # another user's: its name is known all the same
        return process.name()


def _arguments(process: psutil.Process) -> tuple[str, ...] | None:
    try:
        return tuple(process.cmdline()) or None
    except (psutil.Error, OSError):  # another user's
        log.info("the command line of process %d, which belongs to somebody else, cannot be read", process.pid)
        return None


def _environment(process: psutil.Process) -> Mapping[str, str]:
    try:
        return process.environ()
    except (psutil.Error, OSError):  # another user's, or a system that hides it
        log.info("the environment of process %d cannot be read", process.pid)
        return {}


def _folder(process: psutil.Process) -> str | None:
    try:
        return process.cwd() or None
    except (psutil.Error, OSError):  # another user's
        return None


def processes(pids: Sequence[int]) -> Iterator[psutil.Process]:
    """The processes with these ids that still run."""
    for pid in pids:
        try:
            yield psutil.Process(pid)
        except psutil.Error:  # a process that has ended, or is another user's
            continue
