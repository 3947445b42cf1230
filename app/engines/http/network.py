"""Connections to measured servers: each address is checked and then pinned; times are taken right at the socket."""

import ipaddress
import socket
import ssl
from collections.abc import Iterable
from time import perf_counter_ns
from typing import Any

import httpcore

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.engines.http import problems

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_FORBIDDEN_NETWORKS = tuple(
    ipaddress.ip_network(text)
    for text in (
        "169.254.0.0/16",  # link-local, and the metadata service of most clouds
        "fe80::/10",
        "fd00:ec2::254/128",  # further metadata services, by cloud
        "fd20:ce::254/128",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
        "224.0.0.0/4",  # multicast, reserved, broadcast
        "240.0.0.0/4",
        "ff00::/8",
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_FORBIDDEN_NAMES = frozenset({"metadata.google.internal", "metadata.goog", "metadata"})


def is_forbidden(address: Address) -> bool:
    """Whether no model server can be at this address: link-local, cloud metadata or multicast, in any spelling."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and (address in _NAT64 or int(address) >> 32 == 0):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None and is_forbidden(inner):
            return True
    return any(address.version == network.version and address in network for network in _FORBIDDEN_NETWORKS)


class ReadLimit:
    """How long the server may take to send more: until a deadline, or for no longer pause than this.

    The deadline is there because a byte now and then would renew a timeout of single reads for ever.
    """

    def __init__(self) -> None:
        self._deadline_ns: int | None = None
        self._max_pause_s: float | None = None

    def end_at(self, deadline_ns: int) -> None:
        """Sets a deadline (`perf_counter_ns`) for everything that is still to come."""
        self._deadline_ns = deadline_ns

    def end_in(self, seconds: float) -> None:
        """Sets a deadline that begins to run now."""
        self.end_at(perf_counter_ns() + int(seconds * 1e9))

    def pause_at_most(self, seconds: float) -> None:
        """Limits each single read, however many there are."""
        self._deadline_ns, self._max_pause_s = None, seconds

    def timeout_s(self) -> float | None:
        """Seconds that the next read may take, None for no limit. Raises httpcore.ReadTimeout after the deadline."""
        if self._deadline_ns is None:
            return self._max_pause_s
        left_ns = self._deadline_ns - perf_counter_ns()
        if left_ns <= 0:
            raise httpcore.ReadTimeout("the deadline has passed")
        return left_ns / 1e9


class TimedStream(httpcore.NetworkStream):
    """A connection that notes when it sent and received, and reads under a limit. Times are `perf_counter_ns`."""

    def __init__(self, stream: httpcore.NetworkStream, limit: ReadLimit) -> None:
        self._stream = stream
        self._socket: socket.socket = stream.get_extra_info("socket")
        self._limit = limit
        self.sent_ns = 0
        """Just before the first byte of the last request was written."""
        self.received_ns = 0
        """When the last read returned."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # the limit can be changed
        """Does what httpcore's stream does for less processor time: that one makes a second system call."""
        limit_s = self._limit.timeout_s()
        try:
            if limit_s != self._socket.gettimeout():
                self._socket.settimeout(limit_s)
            data = self._socket.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error
        self.received_ns = perf_counter_ns()
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self.sent_ns <= self.received_ns:  # a request is written in several pieces
            self.sent_ns = perf_counter_ns()
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        try:
            # closing alone would not wake a thread that is waiting for data
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # not connected any more
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "TimedStream":
        """Raises ServerError."""
        try:
            return TimedStream(self._stream.start_tls(ssl_context, server_hostname, timeout), self._limit)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            raise problems.tls_problem(error.__cause__) from error

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class GuardedBackend(httpcore.NetworkBackend):
    """Connects to allowed addresses only, and to the same one again once it has connected."""

    def __init__(self, own_port: int, limit: ReadLimit) -> None:
        self._own_port = own_port
        self._limit = limit
        self._backend = httpcore.SyncBackend()
        self._pinned: tuple[str, Address] | None = None

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> TimedStream:
        """Raises ServerError: what went wrong while connecting is best known here."""
        cause: BaseException | None = None
        for address in self._addresses(host, port):
            try:
                stream = self._backend.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                cause = error.__cause__
                continue
            connected = stream.get_extra_info("socket")
            if port == self._own_port and connected.getsockname()[0] == connected.getpeername()[0]:
                stream.close()
                raise ServerError(_("That is the address of Roofmark itself."), ServerErrorKind.FORBIDDEN_ADDRESS)
            self._pinned = (host, address)
            return TimedStream(stream, self._limit)
        raise problems.connect_problem(host, port, cause) from cause

    def _addresses(self, host: str, port: int) -> list[Address]:
        if self._pinned is not None and self._pinned[0] == host:
            return [self._pinned[1]]
        if host.lower().rstrip(".") in _FORBIDDEN_NAMES:
            raise problems.forbidden_address()
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise problems.resolve_problem(host) from error
        # a name can have several addresses; a link-local one beside a LAN one is usual for names of the local network
        addresses = [ipaddress.ip_address(entry[4][0]) for entry in entries]
        allowed = [address for address in dict.fromkeys(addresses) if not is_forbidden(address)]
        if not allowed:
            raise problems.forbidden_address()
        return allowed
