"""A server that plays scripted answers with their timing, on a free port of 127.0.0.1.

    with serve({"/v1/models": Script.json({"data": []})}) as replay:
        ServerClient(replay.url, ...)

Offsets are milliseconds after the whole request was read; `pace` stretches or shrinks them all. `case("S03")` and
`capture("vllm", "models")` read the recorded answers beside this file.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    422: "Unprocessable",
    503: "Unavailable",
}
_HOP_BY_HOP = {"transfer-encoding", "content-length", "connection", "keep-alive"}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Script:
    """One answer."""

    rows: Sequence[tuple[float, bytes]] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    headers_ms: float = 0
    http: str = "1.1"
    framing: str = "chunked"
    """`chunked`, `close` (the end of the connection ends the body) or `length`."""
    end: str = "clean"
    """`clean`, `rst` (reset), `hang` (nothing more, connection open), or `mute` (not even headers)."""

    @staticmethod
    def json(value: Any, status: int = 200, **headers: str) -> "Script":
        return Script([(0, json.dumps(value).encode())], status, {"content-type": "application/json"} | headers)

    @staticmethod
    def text(text: str, status: int = 200, content_type: str = "text/plain") -> "Script":
        return Script([(0, text.encode())], status, {"content-type": content_type})

    @staticmethod
    def sse(*pieces: bytes, step_ms: float = 1, **how: Any) -> "Script":
        rows = [(step_ms * (position + 1), piece) for position, piece in enumerate(pieces)]
        return Script(rows, headers={"content-type": "text/event-stream"}, **how)


Answerer = Callable[[Request], Script]


def case_rows(name: str) -> tuple[list[tuple[float, bytes]], dict[str, Any]]:
    """Rows and `expected.json` of a case."""
    rows = json.loads((HERE / "cases" / f"{name}.stream.json").read_text())
    expected = json.loads((HERE / "cases" / f"{name}.expected.json").read_text())
    return [(ms, text.encode("latin-1")) for ms, text in rows], expected


def case(name: str) -> Answerer:
    """Answers a probe with one model, and everything posted with the case; `rules` refuse bodies that hold a text."""
    rows, expected = case_rows(name)
    how = expected["transport"]

    def answer(request: Request) -> Script:
        if request.method == "GET":
            models = {"object": "list", "data": [{"id": "syn-1", "object": "model"}]}
            return Script.json(models) if request.path.endswith("/v1/models") else Script(status=404)
        for rule in how.get("rules", ()):
            if rule["if_body_has"].encode() in request.body:
                return Script.json(rule["body"], rule["status"])
        return Script(
            rows, how["status"], how["headers"], how.get("headers_ms") or 0, how["http"], how["framing"], how["end"]
        )

    return answer


def capture(folder: str, name: str) -> Script:
    """A recorded answer of a real server."""
    document = json.loads((HERE / "captures" / folder / f"{name}.json").read_text())
    headers = {key: value for key, value in document["headers"] or [] if key.lower() not in _HOP_BY_HOP}
    rows = [(ms or 0, text.encode("latin-1")) for ms, text in document["chunks"]]
    return Script(rows, document["status"] or 200, headers, document.get("headers_ms") or 0)


class Replay:
    """The running server: its base URL and the requests it got."""

    def __init__(self, routes: Mapping[str, Script | Answerer], pace: float, port: int = 0) -> None:
        self.requests: list[Request] = []
        self._routes = routes
        self._pace = pace
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def posted(self) -> list[Any]:
        return [request.json() for request in self.requests if request.method == "POST"]

    def close(self) -> None:
        self._closing.set()
        # wakes accept()
        socket.create_connection(("127.0.0.1", self.port)).close()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._closing.is_set():
                connection.close()
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                request = read_request(reader)
                if request is not None:
                    self.requests.append(request)
                    self._play(connection, self._script(request))
            except OSError:
                pass  # the client went away

    def _script(self, request: Request) -> Script:
        best = max((path for path in self._routes if request.path.startswith(path)), key=len, default=None)
        if best is None:
            return Script.json({"detail": "Not Found"}, 404)
        script = self._routes[best]
        return script if isinstance(script, Script) else script(request)

    def _play(self, connection: socket.socket, script: Script) -> None:
        start = time.monotonic()

        def wait_until(ms: float) -> None:
            self._closing.wait(max(0.0, start + ms * self._pace / 1000 - time.monotonic()))

        if script.end == "mute":
            self._closing.wait()
            return
        wait_until(script.headers_ms)
        headers = dict(script.headers)
        if script.framing == "chunked":
            headers["transfer-encoding"] = "chunked"
        elif script.framing == "length":
            headers["content-length"] = str(sum(len(data) for _, data in script.rows))
        headers["connection"] = "close"
        top = [f"HTTP/{script.http} {script.status} {REASONS.get(script.status, 'Other')}"]
        top += [f"{key}: {value}" for key, value in headers.items()]
        connection.sendall("\r\n".join([*top, "", ""]).encode("latin-1"))
        for ms, data in script.rows:
            wait_until(ms)
            connection.sendall(b"%x\r\n%s\r\n" % (len(data), data) if script.framing == "chunked" else data)
        if script.end == "hang":
            self._closing.wait()
        elif script.end == "rst":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # what was sent must arrive before the reset discards it
            time.sleep(0.02)
        elif script.framing == "chunked":
            connection.sendall(b"0\r\n\r\n")


def read_request(reader: Any) -> Request | None:
    """The next request of a connection; None when there is no other one."""
    first = reader.readline().decode("latin-1").split()
    if len(first) != 3:
        return None
    headers = {}
    while line := reader.readline().decode("latin-1").strip():
        key, _, value = line.partition(":")
        headers[key.lower()] = value.strip()
    return Request(first[0], first[1], headers, reader.read(int(headers.get("content-length", 0))))


@contextmanager
def serve(routes: Mapping[str, Script | Answerer], pace: float = 1.0, port: int = 0) -> Iterator[Replay]:
    """Serves `routes` (path prefix to answer, the longest one wins; anything else is 404) on a port, else a free
    one."""
    replay = Replay(routes, pace, port)
    try:
        yield replay
    finally:
        replay.close()
