"""Connections to servers on their own: which addresses, what limits a read, which times are taken."""

import ipaddress
import os
import select
import socket
import ssl
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter_ns, sleep, time_ns

import httpcore
import pytest

from app.core.errors import ServerError, ServerErrorKind
from app.engines.http import network, problems
from app.engines.http.network import GuardedBackend, ReadLimit, TimedStream, is_forbidden


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
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


Pair = tuple[TimedStream, socket.socket, ReadLimit]


@pytest.fixture
def pair(listener: socket.socket) -> Iterator[Pair]:
    """Our end of a connection, and the server's."""
    limit = ReadLimit()
    stream = GuardedBackend(1, limit).connect_tcp("127.0.0.1", listener.getsockname()[1], 5)
    server = listener.accept()[0]
    with stream.get_extra_info("socket"), server:
        server.settimeout(5)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield stream, server, limit


def timeout_of(stream: TimedStream) -> float | None:
    connected: socket.socket = stream.get_extra_info("socket")
    return connected.gettimeout()


def test_the_limit_of_a_read_is_what_was_set_last(pair: Pair) -> None:
    stream, server, limit = pair
    server.sendall(b"1234")
    assert len(stream.read(1, 1000.0)) == 1
    timeouts = [timeout_of(stream)]
    for set_limit, seconds in ((limit.pause_at_most, 7.0), (limit.end_in, 500.0), (limit.pause_at_most, 3.0)):
        set_limit(seconds)
        assert len(stream.read(1, 1000.0)) == 1
        timeouts.append(timeout_of(stream))
    assert (timeouts[0], timeouts[1], timeouts[3]) == (None, 7.0, 3.0)
    assert timeouts[2] is not None
    assert 400 < timeouts[2] <= 500


def test_a_write_has_the_time_limit_of_its_request(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, server, limit = pair
    limit.pause_at_most(7.0)
    limits: list[float | None] = []
    monkeypatch.setattr(stream._stream, "write", lambda _, timeout: limits.append(timeout))
    server.sendall(b"12")
    stream.read(1)
    stream.write(b"x", 9.0)
    stream.read(1)
    assert (limits, timeout_of(stream)) == ([9.0], 7.0)


def test_after_the_deadline_nothing_is_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, server, limit = pair
    server.sendall(b"x")
    now_ns = 10_000_000_000
    monkeypatch.setattr(network, "perf_counter_ns", lambda: now_ns)
    limit.end_in(2.5)
    assert limit.timeout_s() == 2.5
    now_ns = 12_499_999_999
    assert limit.timeout_s() == pytest.approx(1e-9)
    now_ns = 12_500_000_000
    with pytest.raises(httpcore.ReadTimeout, match="deadline"):
        stream.read(1, 5)
    limit.end_at(12_500_000_001)
    assert limit.timeout_s() == pytest.approx(1e-9)


def test_a_request_is_timed_when_all_of_it_is_written_and_an_answer_after_each_read(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The making of a request and its pieces, which other streams can delay, do not move t0."""
    stream, server, _ = pair
    clock = iter(range(1, 100))
    monkeypatch.setattr(network, "perf_counter_ns", lambda: next(clock))
    monkeypatch.setattr(network, "_age_ns", lambda _: 0)
    stream.write(b"head")
    stream.write(b"body")
    assert (stream.sent_ns, stream.received_ns) == (0, 0)
    server.sendall(b"12")
    assert (stream.read(1), stream.sent_ns, stream.received_ns) == (b"1", 1, 2)
    assert server.recv(64) == b"headbody"
    assert (stream.read(1), stream.sent_ns, stream.received_ns) == (b"2", 1, 3)
    stream.write(b"next")
    server.sendall(b"3")
    assert (stream.read(1), stream.sent_ns, stream.received_ns) == (b"3", 4, 5)


def _refuse(*_: object) -> None:
    raise httpcore.WriteError("refused")


def test_a_request_that_is_refused_before_its_end_may_still_have_an_answer(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, server, _ = pair
    monkeypatch.setattr(stream._stream, "write", _refuse)
    stream.write(b"too long")
    server.sendall(b"413")
    assert stream.read(64) == b"413"
    stream.write(b"next")
    server.close()
    with pytest.raises(httpcore.WriteError):
        stream.read(64)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux states arrivals")
def test_a_read_that_comes_late_delays_no_arrival(pair: Pair) -> None:
    """One of several: a pause of this process between its two clocks may make one arrival late, never early."""
    stream, server, _ = pair

    def arrives_before_it_is_read() -> bool:
        sent_ns = perf_counter_ns()
        server.sendall(b"token")
        select.select([stream.get_extra_info("socket")], [], [])
        sleep(0.001)
        read_ns = perf_counter_ns()
        assert stream.read(64) == b"token"
        assert stream.received_ns >= sent_ns
        return stream.received_ns < read_ns

    assert any(arrives_before_it_is_read() for _ in range(50))


@pytest.mark.parametrize(
    "control",
    [[], [(socket.SOL_SOCKET, 35, b"short")], [(socket.SOL_SOCKET, 1, bytes(16))], [(0, 35, bytes(16))]],
)
def test_an_arrival_that_the_system_does_not_state_is_that_of_the_read(control: list[tuple[int, int, bytes]]) -> None:
    assert network._age_ns(control) == 0


def test_a_clock_that_was_set_back_makes_no_arrival_later_than_its_read() -> None:
    ahead = struct.pack("@ll", time_ns() // 10**9 + 3600, 0)
    assert network._age_ns([(socket.SOL_SOCKET, 35, ahead)]) == 0


def test_waiting_and_broken_sockets_are_httpcores_faults(pair: Pair) -> None:
    stream, server, limit = pair
    limit.pause_at_most(0.01)
    with pytest.raises(httpcore.ReadTimeout):
        stream.read(1)
    stream.write(b"x" * 50_000_000, 0.01)
    with pytest.raises(httpcore.WriteTimeout):
        stream.read(1)
    server.close()  # with data that it has not read, so that the connection is reset
    stream.write(b"x" * 50_000_000, 5)
    with pytest.raises(httpcore.WriteError):
        stream.read(1)
    stream.close()
    stream.close()
    with pytest.raises(httpcore.ReadError):
        stream.read(1, 5)


def test_closing_ends_the_connection_for_the_other_side(pair: Pair) -> None:
    stream, server, _ = pair
    duplicate = stream.get_extra_info("socket").dup()  # closing alone would leave it open
    with duplicate:
        stream.close()
        assert server.recv(1) == b""
        assert stream.get_extra_info("socket").fileno() == -1


def test_whether_something_waits_to_be_read(pair: Pair) -> None:
    stream, server, _ = pair
    assert stream.get_extra_info("is_readable") is False
    server.sendall(b"x")
    assert stream.get_extra_info("is_readable") is True
    assert stream.get_extra_info("ssl_object") is None


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

    def create_connection(address: tuple[str, int], timeout: float | None, **_: object) -> socket.socket:
        tried.append(address[0])
        if address[0] != "127.0.0.1":
            raise ConnectionRefusedError
        connected = socket.socket()
        connected.settimeout(timeout)
        connected.connect(address)
        return connected

    monkeypatch.setattr(socket, "create_connection", create_connection)
    asked = resolves(monkeypatch, "192.0.2.1", "169.254.1.1", "192.0.2.1", "127.0.0.1", "192.0.2.3")
    backend, port = GuardedBackend(1, ReadLimit()), listener.getsockname()[1]
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
    assert trouble(GuardedBackend(1, ReadLimit()), host)[0] is ServerErrorKind.FORBIDDEN_ADDRESS
    assert asked == []


def test_only_the_own_port_of_the_own_machine_is_roofmark_itself(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    assert trouble(GuardedBackend(port, ReadLimit()), "127.0.0.1", port) == (
        ServerErrorKind.FORBIDDEN_ADDRESS,
        "That is the address of Roofmark itself.",
    )
    GuardedBackend(port + 1, ReadLimit()).connect_tcp("127.0.0.1", port, 5).close()


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
    def create_connection(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(socket, "create_connection", create_connection)
    caught = trouble(GuardedBackend(1, ReadLimit()), host)
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
    def create_connection(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(problems, "in_container", lambda: container)
    monkeypatch.setattr(socket, "create_connection", create_connection)
    sentence = trouble(GuardedBackend(1, ReadLimit()), host)[1]
    assert ("host.docker.internal:9 " in sentence) is hint


def test_tls_that_is_refused_closes_the_socket(pair: Pair) -> None:
    stream, server, _ = pair
    context = ssl.create_default_context()
    server.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ServerError, match=r"does not speak TLS there: try http://"):
        stream.start_tls(context, "llm.example", 5)
    assert stream.get_extra_info("socket").fileno() == -1


def test_tls_that_nobody_answers(pair: Pair) -> None:
    stream, _, _ = pair
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
    assert problems.in_container.__wrapped__() is expected
