"""Sockets to measured servers: the address is checked, then pinned; arrival times are taken right at `recv`."""

import ipaddress
import os
import re
import selectors
import socket
import ssl
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import httpcore

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _, joined

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
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104  # compared with, never bound


def is_forbidden(address: Address) -> bool:
    """Whether nothing that can be measured lives there: link-local, cloud metadata, multicast, in any spelling."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and (address in _NAT64 or int(address) >> 32 == 0):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None and is_forbidden(inner):
            return True
    return any(address.version == network.version and address in network for network in _FORBIDDEN_NETWORKS)


@lru_cache(maxsize=1)
def in_container() -> bool:
    return "container" in os.environ or any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))


class Deadline:
    """Until when the server may go on answering; without it, a byte now and then would renew any timeout for ever."""

    at_ns: int | None = None
    """`perf_counter_ns`; None for no limit."""

    def set(self, seconds: float) -> None:
        self.at_ns = perf_counter_ns() + int(seconds * 1e9)

    def left_s(self) -> float:
        """Raises httpcore.ReadTimeout when nothing is left."""
        left_ns = 0 if self.at_ns is None else self.at_ns - perf_counter_ns()
        if left_ns <= 0:
            raise httpcore.ReadTimeout("the deadline has passed")
        return left_ns / 1e9


_HEAD_END = re.compile(rb"\n\r?\n")
_HEAD_END_BYTES = 3


class SocketStream(httpcore.NetworkStream):
    """One connected socket.

    While the head of a response is being read, no `read` goes beyond a head's end: so the body can be read by somebody
    else than who read the head, who would have its first bytes in a buffer of his own.
    """

    read_timeout_s: float | None = None
    """Set while a response is being read, it replaces the timeout that the request began with."""
    received_ns = 0
    """When the last `recv` returned (`perf_counter_ns`)."""
    sent_ns = 0
    """Just before the first byte of the last request was written."""

    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        self._socket = connected
        self._deadline = deadline
        self._timeout_s = connected.gettimeout()
        self._head_tail: bytes | None = None
        """The last bytes of the head so far; None while none is being read."""
        self._kept = b""
        """Received, and not yet read."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._head_tail is not None:
            return self._read_head(self._head_tail, max_bytes, timeout)
        if self._kept:
            data, self._kept = self._kept[:max_bytes], self._kept[max_bytes:]
            return data
        return self._receive(max_bytes, timeout)

    def end_head(self) -> None:
        """From now on the body is read."""
        self._head_tail = None

    def unread(self, data: bytes) -> None:
        """The next `read` gives `data`."""
        self._kept = data + self._kept

    def _read_head(self, tail: bytes, max_bytes: int, timeout: float | None) -> bytes:
        data = self._kept or self._receive(max_bytes, timeout)
        end = _HEAD_END.search(tail + data)
        cut = end.end() - len(tail) if end else len(data)
        self._kept = data[cut:]
        self._head_tail = b"" if end else (tail + data)[-_HEAD_END_BYTES:]
        return data[:cut]

    def _receive(self, max_bytes: int, timeout: float | None) -> bytes:
        limit = self.read_timeout_s
        if limit is None:
            limit = timeout
        if self._deadline.at_ns is not None:
            left_s = self._deadline.left_s()
            limit = left_s if limit is None else min(limit, left_s)
        try:
            # setting it anew for every read would cost a system call each
            if limit != self._timeout_s:
                self._set_timeout(limit)
            data = self._socket.recv(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error
        self.received_ns = perf_counter_ns()
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        is_first = self._head_tail is None
        self._head_tail = b""  # what comes back begins with a head
        try:
            self._set_timeout(timeout)
            if is_first:
                self.sent_ns = perf_counter_ns()
            self._socket.sendall(buffer)
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    def _set_timeout(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)
        self._timeout_s = seconds

    def close(self) -> None:
        try:
            # closing alone would not wake a thread that is waiting in `recv`
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # not connected any more
        self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "SocketStream":
        try:
            self._set_timeout(timeout)
            return SocketStream(ssl_context.wrap_socket(self._socket, server_hostname=server_hostname), self._deadline)
        except OSError as error:
            self.close()
            raise _tls_problem(error) from error

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            with selectors.DefaultSelector() as selector:
                selector.register(self._socket, selectors.EVENT_READ)
                return bool(selector.select(0))
        if info == "server_addr":
            return self._socket.getpeername()
        if info == "socket":
            return self._socket
        return None


class GuardedBackend(httpcore.NetworkBackend):
    """Connects to allowed addresses only, and to the same one again once it has connected.

    Raises ServerError itself: what went wrong while connecting is best known here.
    """

    def __init__(self, own_port: int, deadline: Deadline) -> None:
        self._own_port = own_port
        self._deadline = deadline
        self._pinned: tuple[str, Address] | None = None

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002  # httpcore's signature
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002  # as above
    ) -> SocketStream:
        fault = OSError("no address")
        for address in self._addresses(host, port):
            try:
                connected = socket.create_connection((str(address), port), timeout)
            except OSError as error:
                fault = error
                continue
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if port == self._own_port and connected.getsockname()[0] == connected.getpeername()[0]:
                connected.close()
                raise ServerError(_("That is the address of Roofmark itself."), ServerErrorKind.FORBIDDEN_ADDRESS)
            self._pinned = (host, address)
            return SocketStream(connected, self._deadline)
        raise _connect_problem(host, port, fault) from fault

    def _addresses(self, host: str, port: int) -> list[Address]:
        if self._pinned is not None and self._pinned[0] == host:
            return [self._pinned[1]]
        if host.lower().rstrip(".") in _FORBIDDEN_NAMES:
            raise _forbidden()
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ServerError(
                joined(_("The name {host} cannot be resolved.", host=host), _resolve_hint(host)),
                ServerErrorKind.UNREACHABLE,
            ) from error
        # one name can have several addresses; a link-local one beside a LAN one is usual for names of the local network
        addresses = [ipaddress.ip_address(entry[4][0]) for entry in found]
        allowed = [address for address in dict.fromkeys(addresses) if not is_forbidden(address)]
        if not allowed:
            raise _forbidden()
        return allowed


def _forbidden() -> ServerError:
    return ServerError(
        _("That address is link-local or a cloud's metadata service: no model server can be measured there."),
        ServerErrorKind.FORBIDDEN_ADDRESS,
    )


def _connect_problem(host: str, port: int, error: OSError) -> ServerError:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(error, TimeoutError):
        return ServerError(_("{place} did not answer the connection in time.", place=place), ServerErrorKind.TIMEOUT)
    if isinstance(error, ConnectionRefusedError):
        return ServerError(
            joined(_("Nothing listens on {place}: the connection was refused.", place=place), _local_hint(host, port)),
            ServerErrorKind.REFUSED,
        )
    return ServerError(
        _("{place} cannot be reached: {why}.", place=place, why=_(str(error.strerror or error))),
        ServerErrorKind.UNREACHABLE,
    )


def _local_hint(host: str, port: int) -> str:
    if host.lower() not in _LOCAL_NAMES or not in_container():
        return ""
    return _(
        "Inside a container, {host} is the container itself: use http://host.docker.internal:{port} "
        "(with extra_hosts: host.docker.internal:host-gateway) and let the server listen "
        "on 0.0.0.0 (Ollama: OLLAMA_HOST=0.0.0.0).",
        host=host,
        port=port,
    )


def _resolve_hint(host: str) -> str:
    if host.lower() != "host.docker.internal":
        return ""
    return _("On Linux, start the container with --add-host=host.docker.internal:host-gateway.")


def _tls_problem(error: OSError) -> ServerError:
    if isinstance(error, TimeoutError):
        return ServerError(_("The TLS handshake was not answered in time."), ServerErrorKind.TIMEOUT)
    if isinstance(error, ssl.SSLCertVerificationError):
        return ServerError(
            _("The server's TLS certificate is not trusted: {words}.", words=error.verify_message),
            ServerErrorKind.UNREACHABLE,
        )
    if isinstance(error, ssl.SSLError):
        return ServerError(
            _("The server does not speak TLS there: try http:// instead of https://."), ServerErrorKind.UNREACHABLE
        )
    return ServerError(_("The server closed the connection during the TLS handshake."), ServerErrorKind.UNREACHABLE)
