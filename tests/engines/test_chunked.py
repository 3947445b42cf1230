"""Chunked bodies: however they are framed and cut, the same bytes; nothing broken passes for a whole answer."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.settings import Settings
from app.engines.http import ServerClient, chunked


def decoded(*reads: bytes) -> tuple[bytes, bytes]:
    """The body, and what came after it."""
    left = iter(reads)
    pieces = chunked.pieces(lambda _: next(left, b""))
    body = b""
    while True:
        try:
            piece = next(pieces)
        except StopIteration as end:
            return body, end.value
        assert piece
        body += piece


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[begin:end] for begin, end in pairwise(edges)]


@st.composite
def framed(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A body, and one of its framings."""
    parts = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=6))
    wire = b""
    for part in parts:
        zeros = b"0" * draw(st.integers(0, 3))
        size = b"%x" % len(part)
        extension = draw(st.sampled_from([b"", b";a=b", b" ", b'; name="x"']))
        wire += zeros + draw(st.sampled_from([size, size.upper()])) + extension + b"\r\n" + part + b"\r\n"
    trailers = draw(st.sampled_from([b"", b"X-Time: 1\r\n", b"A: 1\r\nB: 2\r\n"]))
    return b"".join(parts), wire + b"0\r\n" + trailers + b"\r\n"


@given(framed(), st.lists(st.integers(0, 400), max_size=12), st.binary(max_size=5))
def test_every_framing_in_every_cutting_gives_the_body(
    example: tuple[bytes, bytes], places: list[int], after: bytes
) -> None:
    body, wire = example
    assert decoded(*cut(wire + after, places))[0] == body
    assert decoded(wire + after) == (body, after)


@given(framed(), st.integers(0, 400))
def test_a_body_that_ends_early_is_broken(example: tuple[bytes, bytes], place: int) -> None:
    _, wire = example
    with pytest.raises(httpcore.RemoteProtocolError):
        decoded(*cut(wire[: place % len(wire)], [place // 2]))


@pytest.mark.parametrize(
    "wire",
    [
        b"<html>\r\n", b"data: {}\n\n", b"-5\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"5\r\nhello!\r\n0\r\n\r\n", b"5\nhello\n0\n\n",
        b"1" * 17 + b"\r\n", b"5;" + b"x" * 70_000, b"0\r\n" + b"a: b\r\n" * 20_000,
        b"\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
)  # fmt: skip
def test_broken_framing_is_no_answer(wire: bytes) -> None:
    with pytest.raises(httpcore.RemoteProtocolError):
        decoded(*cut(wire, list(range(0, len(wire), 1000))))


def test_what_came_before_the_fault_is_kept() -> None:
    reads = iter([b"5\r\nhello\r\n", b"nonsense\r\n"])
    pieces = chunked.pieces(lambda _: next(reads, b""))
    assert next(pieces) == b"hello"
    with pytest.raises(httpcore.RemoteProtocolError):
        next(pieces)


ANSWER = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"


@contextmanager
def serving(*writes: bytes) -> Iterator[tuple[ServerClient, list[int]]]:
    """A server that answers each request with these writes; which connection each of the requests came on."""
    listener = socket.create_server(("127.0.0.1", 0))
    came_on: list[int] = []

    def talk(connection: socket.socket, number: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while connection.recv(65536):
                came_on.append(number)
                for write in writes:
                    connection.sendall(write)

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


def test_what_came_after_an_answer_is_not_taken_for_the_next_one() -> None:
    with serving(ANSWER + ANSWER.replace(b"{}", b"[]")) as (client, came_on):
        assert [client.get_json("/"), client.get_json("/")] == [{}, {}]
    assert came_on == [0, 1]
