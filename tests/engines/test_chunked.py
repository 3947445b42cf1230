"""Chunked bodies: however they are framed and cut, the same bytes with the times of their reads.

Nothing broken passes for a whole answer, and what stands behind an answer does not pass for the next one.
"""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ServerError
from app.core.settings import Settings
from app.engines.http import ServerClient, network
from app.engines.http.network import GuardedBackend, TimedStream
from app.engines.http.problems import BodyError
from tests.replay import read_request

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Reads(httpcore.NetworkStream):
    """A connection, and its socket, on which each read gives the next of these pieces and then the end."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self.count = 0

    def recv(self, _: int) -> bytes:
        self.count += 1
        return self.pieces[self.count - 1] if self.count <= len(self.pieces) else b""

    def gettimeout(self) -> None:
        return None

    def settimeout(self, _: float | None) -> None:
        pass

    def setsockopt(self, *_: int) -> None:
        raise OSError("this socket has no options")

    def shutdown(self, _: int) -> None:
        pass

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        pass

    def close(self) -> None:
        pass

    def get_extra_info(self, info: str) -> Any:
        return self if info == "socket" else None


def read(*pieces: bytes) -> list[tuple[int, bytes]]:
    """The body of an answer that is received in these pieces: in which read (from 1) each part of it arrived."""
    reads = Reads(pieces)
    with pytest.MonkeyPatch.context() as patch, ServerClient("http://127.0.0.1:1", None, Settings()) as client:
        patch.setattr(GuardedBackend, "connect_tcp", lambda backend, *_, **__: TimedStream(reads, backend._limit))
        patch.setattr(network, "perf_counter_ns", lambda: reads.count)
        with client.stream("/", {}, first_byte_timeout_s=5) as answer:
            return [(answer.received_ns, piece) for piece in answer.pieces()]


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[begin:end] for begin, end in pairwise(edges)]


@st.composite
def framed(draw: st.DrawFn) -> tuple[bytes, bytes, list[int]]:
    """A body, one of its framings, and where in the framing each byte of the body is."""
    parts = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
    wire = b""
    places: list[int] = []
    for part in parts:
        zeros = b"0" * draw(st.integers(0, 3))
        size = b"%x" % len(part)
        extension = draw(st.sampled_from([b"", b";a=b", b" ", b'; name="x"']))
        wire += zeros + draw(st.sampled_from([size, size.upper()])) + extension + b"\r\n"
        places += range(len(wire), len(wire) + len(part))
        wire += part + b"\r\n"
    trailers = draw(st.sampled_from([b"", b"X-Time: 1\r\n", b"A: 1\r\nB: 2\r\n"]))
    return b"".join(parts), wire + b"0\r\n" + trailers + b"\r\n", places


@given(framed(), st.lists(st.integers(0, 400), max_size=12))
def test_every_byte_of_every_framing_has_the_time_of_its_read(
    example: tuple[bytes, bytes, list[int]], cuts: list[int]
) -> None:
    body, wire, places = example
    pieces = cut(HEAD + wire, cuts)
    number_of_read = [number for number, piece in enumerate(pieces, 1) for _ in piece]
    rows = read(*pieces)
    assert b"".join(piece for _, piece in rows) == body
    arrivals = [number for number, piece in rows for _ in piece]
    assert arrivals == [number_of_read[len(HEAD) + place] for place in places]


@given(framed(), st.integers(0, 400))
def test_a_body_that_ends_early_is_broken(example: tuple[bytes, bytes, list[int]], place: int) -> None:
    _, wire, _ = example
    with pytest.raises(BodyError):
        read(HEAD, *cut(wire[: place % len(wire)], [place // 2]))


BROKEN = [
    b"<html>\r\n", b"data: {}\n\n", b"-5\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"5\r\nhello!\r\n0\r\n\r\n", b"5\nhello\n0\n\n",
    b"1" * 21 + b"\r\n", b"5;" + b"x" * 120_000, b"0\r\n" + b"a: b\r\n" * 20_000, b"\r\n5\r\nhello\r\n0\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("wire", BROKEN)
def test_broken_framing_is_no_answer(wire: bytes) -> None:
    with pytest.raises(BodyError):
        read(HEAD, *cut(wire, range(0, len(wire), 1000)))


@pytest.mark.parametrize("wire", BROKEN)
def test_broken_framing_is_one_sentence(wire: bytes) -> None:
    sentence = r"^The connection was lost during the answer to /\.$"
    with serving(HEAD + wire, closes=True) as (client, _), pytest.raises(ServerError, match=sentence):
        client.get("/")


ANSWER = HEAD + b"2\r\n{}\r\n0\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"


@contextmanager
def serving(*writes: bytes, closes: bool = False) -> Iterator[tuple[ServerClient, list[int]]]:
    """A server that answers each request with these writes; which connection each of the requests came on."""
    listener = socket.create_server(("127.0.0.1", 0))
    came_on: list[int] = []

    def talk(connection: socket.socket, number: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as reader, suppress(OSError):  # the client went away
            while read_request(reader) is not None:
                came_on.append(number)
                for write in writes:
                    connection.sendall(write)
                if closes:
                    connection.shutdown(socket.SHUT_WR)

    def accept() -> None:
        number = 0
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:  # closed
                return
            threading.Thread(target=talk, args=(connection, number), daemon=True).start()
            number += 1

    threading.Thread(target=accept, daemon=True).start()
    with listener, ServerClient(f"http://127.0.0.1:{listener.getsockname()[1]}", None, Settings()) as client:
        yield client, came_on
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "writes",
    [
        (ANSWER,),
        (EARLY + ANSWER,),
        (EARLY[:-2], EARLY[-2:] + ANSWER[:30], ANSWER[30:]),
        tuple(ANSWER[place : place + 1] for place in range(len(ANSWER))),
    ],
)
def test_a_connection_is_used_again_however_the_answer_was_cut(writes: tuple[bytes, ...]) -> None:
    with serving(*writes) as (client, came_on):
        assert [client.get_json("/") for _ in range(3)] == [{}, {}, {}]
    assert came_on == [0, 0, 0]


UNASKED = [ANSWER.replace(b"{}", b"[]"), b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 200", b"\r\n", b"0\r\n\r\n"]
"""What a server may write behind an answer, although nobody asked."""


@pytest.mark.parametrize("unasked", UNASKED)
@pytest.mark.parametrize("answer", [ANSWER, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"])
def test_what_came_after_an_answer_is_not_taken_for_the_next_one(answer: bytes, unasked: bytes) -> None:
    with serving(answer + unasked) as (client, came_on):
        assert [client.get_json("/") for _ in range(3)] == [{}, {}, {}]
    assert max(came_on) == 2  # a busy server may read what came on an earlier connection last


@pytest.mark.parametrize("unasked", UNASKED[:2])
def test_a_whole_answer_that_nobody_asked_for_keeps_nothing_from_being_posted(unasked: bytes) -> None:
    """It is there before the next request is written, which then goes to a new connection, once."""
    with serving(ANSWER + unasked) as (client, came_on):
        assert [client.post_json("/", {}) for _ in range(3)] == [{}, {}, {}]
    assert sorted(came_on) == [0, 1, 2]


@pytest.mark.parametrize("unasked", UNASKED[2:])
def test_what_came_after_an_answer_is_no_answer_to_what_was_posted(unasked: bytes) -> None:
    with serving(ANSWER + unasked) as (client, came_on):
        assert client.post_json("/", {}) == {}
        with pytest.raises(ServerError, match="does not answer in HTTP"):  # what was posted may be at work there
            client.post_json("/", {})
        assert client.post_json("/", {}) == {}
    assert max(came_on) == 1
