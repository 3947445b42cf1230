"""Connections to measured servers: each address is checked and then pinned; times are taken right at the socket."""

import ipaddress
import socket
import ssl
import struct
import sys
from collections.abc import Iterable
from time import perf_counter_ns, time_ns
from typing import Any

import httpcore

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.engines.http import problems

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SO_TIMESTAMPNS = 35
"""Linux's number of the option, on all but SPARC and PA-RISC; Python has no name for it."""
_STAMP = struct.Struct("@ll")
_STAMP_SPACE = socket.CMSG_SPACE(_STAMP.size)

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


def _enable_stamps(connection: socket.socket) -> bool:
    """Asks the system to state arrivals; whether it will."""
    if sys.platform != "linux" or isinstance(connection, ssl.SSLSocket):
        return False
    try:
        connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:  # a sandbox without the option: the read's own time is taken
        return False
    return True


def _age_ns(control: Iterable[tuple[int, int, bytes]]) -> int:
    """How long ago data arrived, by the system's control messages; 0 where they do not say."""
    for level, kind, stamp in control:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(stamp) == _STAMP.size:
            seconds, nanoseconds = _STAMP.unpack(stamp)
            return max(0, time_ns() - int(seconds) * 1_000_000_000 - int(nanoseconds))
    return 0


class TimedStream(httpcore.NetworkStream):
    """A connection that notes when it sent and received, and reads under a limit. Times are `perf_counter_ns`.

    Other streams and a busy machine must not move a time. A request is written in one piece, just after its time was
    taken. Linux states when data arrived at the socket, however late this thread gets to read it; elsewhere, and under
    TLS, a time is that of the read which returned the data.
    """

    def __init__(self, stream: httpcore.NetworkStream, limit: ReadLimit) -> None:
        self._stream = stream
        self._socket: socket.socket = stream.get_extra_info("socket")
        self._limit = limit
        self.sent_ns = 0
        """Just before the last request was written."""
        self.received_ns = 0
        """When the last data that was read had arrived."""
        self._has_stamps = _enable_stamps(self._socket)
        self._request = bytearray()
        """What is to be written."""
        self._write_timeout_s: float | None = None

    @property
    def is_unsent(self) -> bool:
        """A request waits for the read that writes it."""
        return bool(self._request)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # the limit can be changed
        """Writes the request that is waiting, then reads.

        Raises httpcore.WriteError when the request could not be written whole and no answer came: a server may refuse
        a request before its end.
        """
        if not self._request:
            return self._read(max_bytes)
        try:
            self._write_request()
        except (httpcore.WriteError, httpcore.WriteTimeout) as unwritten:
            try:
                data = self._read(max_bytes)
            except (httpcore.ReadError, httpcore.ReadTimeout):
                raise unwritten from None
            if not data:
                raise
            return data
        return self._read(max_bytes)

    def _read(self, max_bytes: int) -> bytes:
        """Does what httpcore's stream does for less processor time: that one makes a second system call."""
        limit_s = self._limit.timeout_s()
        control: Iterable[tuple[int, int, bytes]] = ()
        try:
            if limit_s != self._socket.gettimeout():
                self._socket.settimeout(limit_s)
            if self._has_stamps:
                data, control, _, _ = self._socket.recvmsg(max_bytes, _STAMP_SPACE)
            else:
                data = self._socket.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error
        age_ns = _age_ns(control)  # first: a pause between the two clocks makes the time later, never too early
        self.received_ns = max(self.received_ns, perf_counter_ns() - age_ns)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Keeps the piece until the answer is asked for: httpcore writes a request in several."""
        self._request += buffer
        self._write_timeout_s = timeout

    def _write_request(self) -> None:
        request = bytes(self._request)
        self._request.clear()
        self.sent_ns = perf_counter_ns()
        self._stream.write(request, self._write_timeout_s)

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
                cause = error.__cause__  # raised below, where no other address answers either
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
