"""Sockets to servers on their own: which addresses, how much is read at once, whose time limit counts."""

import ipaddress
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpcore
import pytest

from app.core.errors import ServerError, ServerErrorKind
from app.engines.http import network
from app.engines.http.network import Deadline, GuardedBackend, SocketStream, is_forbidden


@pytest.mark.parametrize(
    ("address", "forbidden"),
    [
        # the first and the last of each network, and their neighbours
        ("169.253.255.255", False), ("169.254.0.0", True), ("169.254.255.255", True), ("169.255.0.0", False),
        ("223.255.255.255", False), ("224.0.0.0", True), ("239.255.255.255", True), ("240.0.0.0", True),
        ("100.100.100.199", False), ("100.100.100.200", True), ("100.100.100.201", False),
        ("168.63.129.15", False), ("168.63.129.16", True), ("168.63.129.17", False),
        ("192.0.0.191", False), ("192.0.0.192", True), ("192.0.0.193", False),
        ("fe7f:ffff::1", False), ("fe80::", True), ("febf:ffff::1", True), ("fec0::1", False),
        ("fd00:ec2::253", False), ("fd00:ec2::254", True), ("fd00:ec2::255", False),
        ("fd20:ce::254", True), ("fd20:ce::255", False), ("feff::1", False), ("ff00::", True),
        # IPv4 within IPv6, in each of its spellings: forbidden is what the inner address is
        ("::ffff:100.100.100.200", True), ("::ffff:10.0.0.1", False),
        ("::168.63.129.16", True), ("::10.0.0.1", False),
        ("64:ff9b::192.0.0.192", True), ("64:ff9b::192.0.0.193", False),
        ("64:ff9b::10.0.0.1", False), ("64:ff9b:0:0:0:1:a9fe:a9fe", False),
        ("2002:e000:1::1", True), ("2002:a00:1::a9fe:a9fe", False),
        ("::1:a9fe:a9fe", False),
    ],
)  # fmt: skip
def test_which_addresses_are_forbidden(address: str, forbidden: bool) -> None:
    assert is_forbidden(ipaddress.ip_address(address)) is forbidden


@pytest.fixture
def pair() -> Iterator[tuple[SocketStream, socket.socket, Deadline]]:
    """Our end of a connection, and the server's."""
    ours, theirs = socket.socketpair()
    deadline = Deadline()
    with ours, theirs:
        theirs.settimeout(5)
        yield SocketStream(ours, deadline), theirs, deadline


Pair = tuple[SocketStream, socket.socket, Deadline]


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\n\n", b"\n\r\n"])
def test_no_read_goes_beyond_the_end_of_a_head(pair: Pair, end: bytes) -> None:
    stream, theirs, _ = pair
    head, body = b"HTTP/1.1 200 OK\r\nserver: x" + end, b"body\r\n\r\nand more"
    stream.write(b"GET / HTTP/1.1\r\n\r\n")
    theirs.sendall(head + body)
    assert stream.read(65536, 5) == head
    stream.end_head()
    assert stream.read(4) == b"body"
    assert stream.read(65536) == body[4:]


@pytest.mark.parametrize("cut", range(1, 9))
def test_the_end_of_a_head_may_come_in_two_pieces(pair: Pair, cut: int) -> None:
    stream, theirs, _ = pair
    head = b"a: bc\r\n\r\n"
    stream.write(b"x")
    theirs.sendall(head[:cut])
    assert stream.read(65536, 5) == head[:cut]
    theirs.sendall(head[cut:] + b"body")
    assert stream.read(65536, 5) == head[cut:]
    stream.end_head()
    assert stream.read(65536) == b"body"


def test_a_head_that_comes_byte_by_byte_before_a_body(pair: Pair) -> None:
    stream, theirs, _ = pair
    stream.write(b"x")
    for byte in b"a: b\r\n\r\n":
        theirs.sendall(bytes([byte]))
        assert stream.read(65536, 5) == bytes([byte])
    theirs.sendall(b"\nbody")
    assert stream.read(65536, 5) == b"\nbody"  # the end of a head was before it


def test_two_heads_are_read_one_after_the_other(pair: Pair) -> None:
    """`100 Continue` comes before the real one."""
    stream, theirs, _ = pair
    stream.write(b"x")
    theirs.sendall(b"one\r\n\r\ntwo\r\n\r\nbody")
    assert [stream.read(65536, 5), stream.read(65536, 5)] == [b"one\r\n\r\n", b"two\r\n\r\n"]


def test_what_was_put_back_is_read_first(pair: Pair) -> None:
    stream, theirs, _ = pair
    theirs.sendall(b"later")
    stream.unread(b"second")
    stream.unread(b"first ")
    assert [stream.read(8), stream.read(100), stream.read(100, 5)] == [b"first se", b"cond", b"later"]


def timeout_of(stream: SocketStream) -> float | None:
    connected: socket.socket = stream.get_extra_info("socket")
    return connected.gettimeout()


def test_whose_time_limit_counts(pair: Pair) -> None:
    """That of the response in place of the request's; never more than the deadline leaves."""
    stream, theirs, deadline = pair
    theirs.sendall(b"1234567")
    limits = []
    for request_s, response_s, deadline_s in (
        (7.0, None, None), (7.0, 9.0, None), (7.0, 3.0, None), (7.0, None, 1000.0), (1000.0, None, 500.0),
        (None, None, 500.0), (None, None, None),
    ):  # fmt: skip
        stream.read_timeout_s = response_s
        deadline.at_ns = None
        if deadline_s is not None:
            deadline.set(deadline_s)
        assert len(stream.read(1, request_s)) == 1
        limits.append(timeout_of(stream))
        if deadline_s is None:
            assert stream._timeout_s == limits[-1]
    assert limits[:4] == [7.0, 9.0, 3.0, 7.0]
    assert all(limit is not None and 400 < limit <= 500 for limit in limits[4:6])
    assert limits[6] is None


def test_after_the_deadline_nothing_is_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, theirs, deadline = pair
    theirs.sendall(b"x")
    now_ns = 10_000_000_000
    monkeypatch.setattr(network, "perf_counter_ns", lambda: now_ns)
    deadline.set(2.5)
    assert deadline.at_ns == 12_500_000_000
    assert deadline.left_s() == 2.5
    now_ns = 12_499_999_999
    assert deadline.left_s() == pytest.approx(1e-9)
    now_ns = 12_500_000_000
    with pytest.raises(httpcore.ReadTimeout, match="deadline"):
        stream.read(1, 5)


def test_times_are_taken_at_the_first_write_and_after_each_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, theirs, _ = pair
    clock = iter(range(1, 100))
    monkeypatch.setattr(network, "perf_counter_ns", lambda: next(clock))
    stream.write(b"head")
    stream.write(b"body")
    assert (stream.sent_ns, stream.received_ns) == (1, 0)
    theirs.sendall(b"ok\n\n12")
    stream.read(65536, 5)
    assert stream.received_ns == 2
    stream.end_head()
    assert stream.read(1) == b"1"
    assert stream.read(1) == b"2"  # both were there already
    assert stream.received_ns == 2
    stream.write(b"next")
    assert stream.sent_ns == 3
    assert theirs.recv(100) == b"headbodynext"


def test_waiting_and_broken_sockets_are_httpcores_faults(pair: Pair) -> None:
    stream, theirs, _ = pair
    with pytest.raises(httpcore.ReadTimeout):
        stream.read(1, 0.01)
    with pytest.raises(httpcore.WriteTimeout):
        stream.write(b"x" * 50_000_000, 0.01)
    theirs.close()
    with pytest.raises(httpcore.WriteError):
        stream.write(b"x", 5)
    stream.close()
    stream.close()
    with pytest.raises(httpcore.ReadError):
        stream.read(1, 5)


def test_closing_ends_the_connection_for_the_other_side(pair: Pair) -> None:
    stream, theirs, _ = pair
    duplicate = stream.get_extra_info("socket").dup()  # closing alone would leave it open
    with duplicate:
        stream.close()
        assert theirs.recv(1) == b""
        assert stream.get_extra_info("socket").fileno() == -1


def test_whether_something_waits_to_be_read(pair: Pair) -> None:
    stream, theirs, _ = pair
    assert stream.get_extra_info("is_readable") is False
    theirs.sendall(b"x")
    assert stream.get_extra_info("is_readable") is True
    assert stream.get_extra_info("ssl_object") is None


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def resolves(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Makes every name have these addresses; gives the names that were asked for."""
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


def test_the_next_address_is_tried_and_the_one_that_connected_stays(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def create_connection(address: tuple[str, int], timeout: float | None) -> socket.socket:
        tried.append(address[0])
        if address[0] != "127.0.0.1":
            raise ConnectionRefusedError
        connected = socket.socket()
        connected.settimeout(timeout)
        connected.connect(address)
        return connected

    monkeypatch.setattr(socket, "create_connection", create_connection)
    asked = resolves(monkeypatch, "192.0.2.1", "169.254.1.1", "192.0.2.1", "127.0.0.1", "192.0.2.3")
    backend, port = GuardedBackend(1, Deadline()), listener.getsockname()[1]
    stream = backend.connect_tcp("llm.example", port, 5)
    assert stream.get_extra_info("server_addr") == ("127.0.0.1", port)
    assert stream.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert tried == ["192.0.2.1", "127.0.0.1"]
    stream.close()
    backend.connect_tcp("llm.example", port, 5).close()
    assert tried == ["192.0.2.1", "127.0.0.1", "127.0.0.1"]
    assert asked == ["llm.example"]
    # another name is looked up on its own
    backend.connect_tcp("other.example", port, 5).close()
    assert asked == ["llm.example", "other.example"]


def trouble(backend: GuardedBackend, host: str, port: int = 9) -> tuple[ServerErrorKind, str]:
    with pytest.raises(ServerError) as caught:
        backend.connect_tcp(host, port, 5)
    return caught.value.trouble, str(caught.value)


@pytest.mark.parametrize("host", ["metadata", "METADATA.goog", "metadata.google.internal."])
def test_a_name_of_a_metadata_service_is_not_even_looked_up(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolves(monkeypatch, "127.0.0.1")
    assert trouble(GuardedBackend(1, Deadline()), host)[0] is ServerErrorKind.FORBIDDEN_ADDRESS
    assert asked == []


def test_only_the_own_port_of_the_own_machine_is_roofmark_itself(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    assert trouble(GuardedBackend(port, Deadline()), "127.0.0.1", port) == (
        ServerErrorKind.FORBIDDEN_ADDRESS,
        "That is the address of Roofmark itself.",
    )
    GuardedBackend(port + 1, Deadline()).connect_tcp("127.0.0.1", port, 5).close()


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (TimeoutError(), ServerErrorKind.TIMEOUT, "did not answer the connection in time"),
        (ConnectionRefusedError(111, "Connection refused"), ServerErrorKind.REFUSED, "Nothing listens on"),
        (OSError(113, "No route to host"), ServerErrorKind.UNREACHABLE, "cannot be reached: No route to host."),
        (OSError("odd"), ServerErrorKind.UNREACHABLE, "cannot be reached: odd."),
    ],
)
@pytest.mark.parametrize(("host", "place"), [("::1", "[::1]:9"), ("192.0.2.7", "192.0.2.7:9")])
def test_why_nothing_connects(
    fault: OSError, kind: ServerErrorKind, words: str, host: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_connection(*_: object) -> None:
        raise fault

    monkeypatch.setattr(socket, "create_connection", create_connection)
    caught = trouble(GuardedBackend(1, Deadline()), host)
    assert caught[0] is kind
    assert words in caught[1]
    assert place in caught[1]


@pytest.mark.parametrize(
    ("host", "container", "hint"),
    [
        ("localhost", True, True),
        ("LOCALHOST", True, True),
        ("127.0.0.1", True, True),
        ("localhost", False, False),
        ("192.0.2.7", True, False),
    ],
)
def test_a_container_is_another_localhost(
    host: str, container: bool, hint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_connection(*_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(network, "in_container", lambda: container)
    monkeypatch.setattr(socket, "create_connection", create_connection)
    said = trouble(GuardedBackend(1, Deadline()), host)[1]
    assert ("host.docker.internal:9 " in said) is hint


def test_tls_that_is_refused_closes_the_socket(pair: Pair) -> None:
    stream, theirs, _ = pair
    context = ssl.create_default_context()
    theirs.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ServerError, match=r"does not speak TLS there: try http://"):
        stream.start_tls(context, "llm.example", 5)
    assert stream.get_extra_info("socket").fileno() == -1


def test_tls_that_nobody_answers(pair: Pair) -> None:
    stream, _theirs, _ = pair
    with pytest.raises(ServerError) as caught:
        stream.start_tls(ssl.create_default_context(), "llm.example", 0.01)
    assert caught.value.trouble is ServerErrorKind.TIMEOUT
    assert "TLS handshake was not answered" in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "mark", "expected"),
    [({}, "", False), ({"container": "podman"}, "", True), ({}, "/.dockerenv", True), ({}, "/run/.containerenv", True)],
)
def test_a_container_is_known_by_any_of_its_marks(
    environment: dict[str, str], mark: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(Path, "exists", lambda path: str(path) == mark)
    assert network.in_container.__wrapped__() is expected
