"""Nobody waits for ever: not for headers that drip, not for keep-alives, not for a server that never stops writing."""

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.core.errors import ServerError, ServerErrorKind
from app.core.samples import Status
from app.core.settings import Settings
from app.engines import find
from app.engines.base import CompletionRequest
from app.engines.http import ServerClient
from app.engines.protocol.sse import Frame
from app.engines.protocol.trace_builder import is_alive
from tests.engines.conftest import Connect
from tests.engines.streams import chunk, sse, usage
from tests.replay import Script

CHAT = "/v1/chat/completions"
OPENAI = find("openai")


@contextmanager
def dripping(head: bytes, drop: bytes) -> Iterator[str]:
    """A server that begins every answer and then lets a little drip, for as long as somebody listens."""
    listener = socket.create_server(("127.0.0.1", 0))
    closing = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65536)
                connection.sendall(head)
                while not closing.wait(0.05):
                    connection.sendall(drop)
            except OSError:
                pass  # the client has had enough

    def accept() -> None:
        while not closing.is_set():
            connection, _ = listener.accept()
            threads.append(threading.Thread(target=drip, args=(connection,), daemon=True))
            threads[-1].start()

    threads = [threading.Thread(target=accept, daemon=True)]
    threads[0].start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        closing.set()
        socket.create_connection(listener.getsockname()).close()
        for thread in threads:
            thread.join()
        listener.close()


HEAD = b"HTTP/1.1 200 OK\r\n"
DRIPS = {
    "status line": (b"HTTP", b"1"),
    "headers": (HEAD, b"x: y\r\n"),
    "body": (HEAD + b"content-length: 100000\r\n\r\n", b" "),
}


@pytest.mark.parametrize("name", DRIPS)
def test_a_dripping_answer_is_given_up(name: str) -> None:
    settings = Settings().model_copy(update={"probe_timeout_s": 0.3, "first_byte_timeout_s": 0.3})
    with dripping(*DRIPS[name]) as url, ServerClient(url, None, settings) as client:
        with pytest.raises(ServerError) as caught:
            client.get("/v1/models")
        assert caught.value.trouble is ServerErrorKind.TIMEOUT
        trace = OPENAI.play(client, CompletionRequest("hello", 8, "m"))
    assert trace.status is Status.FAILED


KEEP_ALIVES = {
    "comments": [b": ping\n\n"],
    "comments after a blank line": [b"\n: ping\n"],
    "comments in pieces": [b":", b" ping\n", b"\n"],
    "named events": [b"event: ping\ndata: {}\n\n"],
    "empty deltas": [sse(chunk(""))],
    "words": [b"data: ping\n\n"],
    "blank lines": [b"\n"],
    "no choice": [sse(b'{"choices": []}')],
}


@pytest.mark.parametrize("name", KEEP_ALIVES)
def test_keep_alives_do_not_keep_an_answer_alive(connect: Connect, name: str) -> None:
    pieces = itertools.islice(itertools.cycle(KEEP_ALIVES[name]), 400)
    _, client = connect({CHAT: Script.sse(sse(chunk("a")), *pieces, step_ms=20)}, idle_timeout_s=0.3)
    trace = OPENAI.play(client, CompletionRequest("hello", 8, "m"))
    assert trace.status is Status.INCOMPLETE
    assert "stood still" in str(trace.error)
    assert len(trace.events) < 300


def test_tokens_among_keep_alives_keep_it_alive(connect: Connect) -> None:
    pieces = [piece for _ in range(6) for piece in (sse(chunk("a"))[:9], sse(chunk("a"))[9:], *[b": ping\n\n"] * 3)]
    end = sse(chunk(finish="stop", **usage(40, 6)), b"[DONE]")
    _, client = connect({CHAT: Script.sse(*pieces, end, step_ms=40)}, idle_timeout_s=0.8)
    trace = OPENAI.play(client, CompletionRequest("hello", 6, "m"))
    assert (trace.status, trace.output_tokens) == (Status.OK, 6)


@pytest.mark.parametrize(
    ("data", "alive"),
    [
        (chunk("a"), True),
        (chunk(finish="stop"), True),
        (chunk(**usage(9, 1)), True),
        (b"[DONE]", True),
        (chunk(""), False),
        (chunk(**usage(0, 0)), False),
        (b"{}", False),
        (b"", False),
        (b"ping", False),
    ],
)
def test_signs_of_life(data: bytes, alive: bool) -> None:
    assert is_alive(Frame(0, data)) is alive


@pytest.mark.parametrize("per_piece", [1, 50])
def test_a_server_that_ignores_the_limit_is_stopped_soon(connect: Connect, per_piece: int) -> None:
    pieces = [sse(chunk("word ")) * per_piece] * (6000 // per_piece)
    _, client = connect({CHAT: Script.sse(*pieces, step_ms=0)})
    trace = OPENAI.play(client, CompletionRequest("hello", 16, "m"))
    assert trace.status is Status.INCOMPLETE
    assert "far more than was asked for" in str(trace.error)
    assert (trace.output_tokens or 0) < 1500


def test_a_few_tokens_too_many_are_read(connect: Connect) -> None:
    _, client = connect({CHAT: Script.sse(sse(*[chunk("x" * 300)] * 60, chunk(finish="stop", **usage(40, 60))))})
    assert OPENAI.play(client, CompletionRequest("hello", 16, "m")).output_tokens == 60


@pytest.mark.parametrize(("method", "requests"), [("GET", 3), ("POST", 2)])
def test_what_was_sent_whole_is_not_sent_twice(method: str, requests: int) -> None:
    """A kept connection on which the server reads the second request, and closes without an answer."""
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
    listener = socket.create_server(("127.0.0.1", 0))
    seen: list[bytes] = []

    def serve() -> None:
        with listener.accept()[0] as first:
            seen.append(first.recv(65536))
            first.sendall(answer)
            seen.append(first.recv(65536))
            while b"POST" in seen[-1] and b"hello" not in seen[-1]:
                seen[-1] += first.recv(65536)
        listener.settimeout(0.5)
        try:
            with listener.accept()[0] as second:
                seen.append(second.recv(65536))
                second.sendall(answer)
        except TimeoutError:
            pass  # nobody came again

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener, ServerClient(f"http://127.0.0.1:{listener.getsockname()[1]}", None, Settings()) as client:
        client.get("/")
        if method == "GET":
            assert client.get_json("/") == {}
        else:
            with pytest.raises(ServerError, match="closed the connection without an answer"):
                client.post("/", {"prompt": "hello"})
        thread.join()
    assert len(seen) == requests
