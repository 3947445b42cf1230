"""The guard before every request, at its exact limits; the application behind it is a stub."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from app.core.settings import Settings
from app.web import security
from app.web.security import SecurityMiddleware, allowed_hosts

LIMIT = 1000
Header = tuple[str, str]


@dataclass
class Behind:
    """Reads the body and answers; remembers what reached it."""

    headers: dict[str, str] = field(default_factory=dict)
    fails: str = ""
    """before or after the answer has started."""
    scopes: list[Scope] = field(default_factory=list)
    n_bytes: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if scope["type"] != "http":
            return
        more = True
        while more:
            message = await receive()
            self.n_bytes += len(message["body"])
            more = message["more_body"]
        if self.fails == "before":
            raise RuntimeError("nobody expected this")
        await Response("fine", headers=self.headers)(scope, receive, send)
        if self.fails == "after":
            raise RuntimeError("nobody expected this")


def refuse(_request: Request, status: int, sentence: str) -> Response:
    return PlainTextResponse(sentence, status)


def pass_through(scope: Scope, behind: Behind, body: Sequence[bytes] = (b"",)) -> list[Message]:
    """What the guard sends."""
    sent: list[Message] = []
    pieces = [
        {"type": "http.request", "body": piece, "more_body": place < len(body) - 1} for place, piece in enumerate(body)
    ]

    async def receive() -> Message:
        return pieces.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    hosts = frozenset({"localhost", "127.0.0.1", "::1", "models.lan"})
    asyncio.run(SecurityMiddleware(behind, hosts, "/notes", refuse)(scope, receive, send))
    return sent


def request(*headers: Header, method: str = "GET", path: str = "/", scheme: str = "http") -> Scope:
    own = () if any(name == "host" for name, _ in headers) else (("host", "localhost"),)
    encoded = [(name.encode(), value.encode()) for name, value in (*own, *headers)]
    return {"type": "http", "method": method, "path": path, "scheme": scheme, "headers": encoded, "query_string": b""}


def status(scope: Scope, body: Sequence[bytes] = (b"",), behind: Behind | None = None) -> int:
    start, *_ = pass_through(scope, behind or Behind(), body)
    return int(start["status"])


def headers_of(message: Message) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in message["headers"]}


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MAX_BODY_BYTES", LIMIT)


@pytest.mark.parametrize(
    ("length", "expected"),
    [("0", 200), ("1000", 200), ("1001", 413), ("-1", 400), ("1e3", 400), ("", 400), ("²", 400)],
)
def test_a_stated_length_is_held_against_the_limit_before_anything_is_read(length: str, expected: int) -> None:
    behind = Behind()
    assert status(request(("content-length", length)), behind=behind) == expected
    assert len(behind.scopes) == (expected == 200)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [([1000], 200), ([1001], 413), ([400, 600], 200), ([400, 601], 413), ([400, 600, 1], 413), ([1, 0, 999], 200)],
)
def test_what_arrives_is_counted_over_all_pieces(pieces: list[int], expected: int) -> None:
    behind = Behind()
    assert status(request(), [b"x" * n_bytes for n_bytes in pieces], behind) == expected
    assert behind.n_bytes <= LIMIT


def test_a_websocket_is_closed_and_the_start_of_the_application_is_passed_on() -> None:
    behind = Behind()
    assert pass_through({"type": "websocket"}, behind) == [{"type": "websocket.close", "code": 1008}]
    assert behind.scopes == []
    lifespan: Scope = {"type": "lifespan"}
    assert pass_through(lifespan, behind) == []
    assert behind.scopes == [lifespan]


def test_what_lies_behind_knows_the_sub_path() -> None:
    behind = Behind()
    status(request(), behind=behind)
    assert behind.scopes[0]["root_path"] == "/notes"


def test_an_unexpected_fault_is_a_sentence_and_its_traceback_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    start, body = pass_through(request(path="/runs"), Behind(fails="before"))
    assert start["status"] == 500
    assert headers_of(start)["x-frame-options"] == "DENY"
    assert b"Roofmark's log" in body["body"]
    assert b"nobody expected" not in body["body"]
    assert "GET /runs failed" in caplog.text
    assert "nobody expected this" in caplog.text


def test_a_fault_in_a_started_answer_is_not_hidden() -> None:
    with pytest.raises(RuntimeError, match="nobody expected"):
        pass_through(request(), Behind(fails="after"))


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (["localhost"], 200),
        (["LocalHost:8765"], 200),
        (["[::1]:8765"], 200),
        (["models.lan"], 200),
        (["localhost:99999"], 200),
        (["localhost:100000"], 400),
        (["localhost:"], 400),
        (["localhost:80x"], 400),
        (["::1"], 400),
        ([""], 400),
        ([], 400),
        (["localhost", "localhost"], 400),
        (["localhost", "evil.example"], 400),
        (["evil.example"], 403),
        (["localhost.evil.example"], 403),
        (["xlocalhost"], 403),
        (["127.0.0.2"], 403),
    ],
)
def test_one_host_that_is_allowed(hosts: list[str], expected: int) -> None:
    scope = request(*(("host", host) for host in hosts))
    if not hosts:
        scope["headers"] = []
    behind = Behind()
    assert status(scope, behind=behind) == expected
    assert len(behind.scopes) == (expected == 200)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "post", "PROPFIND"])
def test_every_method_but_the_safe_ones_needs_an_own_origin(method: str) -> None:
    foreign, own = ("origin", "http://evil.example"), ("origin", "http://localhost")
    assert status(request(foreign, method=method)) == 403
    assert status(request(own, method=method)) == 200
    for safe in ("GET", "HEAD", "OPTIONS"):
        assert status(request(foreign, method=safe)) == 200


@pytest.mark.parametrize(
    ("scheme", "host", "origin", "expected"),
    [
        ("http", "localhost", "http://localhost", 200),
        ("http", "localhost", "http://localhost:80", 200),
        ("http", "localhost", "http://localhost:443", 403),
        ("https", "localhost", "https://localhost:443", 200),
        ("https", "localhost:443", "https://localhost", 200),
        ("https", "localhost", "http://localhost", 403),
        ("http", "localhost", "https://localhost", 403),
        ("http", "localhost:8765", "http://localhost:8765", 200),
        ("http", "localhost:8765", "http://localhost:8766", 403),
        ("http", "localhost:8765", "http://localhost", 403),
        ("http", "localhost", "HTTP://LOCALHOST", 200),
        ("http", "models.lan", "http://localhost", 403),  # both are allowed, and yet two sites
        ("http", "localhost", "localhost", 403),
        ("http", "localhost", "null", 403),
        ("http", "localhost", "", 403),
    ],
)
def test_an_origin_is_own_when_scheme_host_and_port_agree(scheme: str, host: str, origin: str, expected: int) -> None:
    assert status(request(("host", host), ("origin", origin), method="POST", scheme=scheme)) == expected


@pytest.mark.parametrize(
    ("origins", "site", "expected"),
    [
        (0, None, 200),  # a program
        (0, "same-origin", 403),
        (0, "none", 403),
        (1, None, 200),
        (1, "same-origin", 200),
        (1, "none", 200),
        (1, "same-site", 403),
        (1, "cross-site", 403),
        (2, None, 403),
        (2, "same-origin", 403),
    ],
)
def test_what_browsers_say_of_where_a_request_comes_from(origins: int, site: str | None, expected: int) -> None:
    headers = [("origin", "http://localhost")] * origins + ([("sec-fetch-site", site)] if site else [])
    assert status(request(*headers, method="POST")) == expected


@pytest.mark.parametrize(
    ("headers", "cache_control"),
    [({}, "no-store"), ({"etag": '"1"'}, "no-cache"), ({"cache-control": "max-age=60", "etag": '"1"'}, "max-age=60")],
)
def test_nothing_is_kept_without_being_asked_for_again(headers: dict[str, str], cache_control: str) -> None:
    start, *_ = pass_through(request(), Behind(headers))
    assert headers_of(start)["cache-control"] == cache_control


@pytest.mark.parametrize(
    ("path", "referrer", "robots"),
    [("/s/abc", "no-referrer", "noindex"), ("/notes/s/abc", "no-referrer", "noindex"), ("/sx", "same-origin", None)],
)
def test_public_pages_have_their_own_headers(path: str, referrer: str, robots: str | None) -> None:
    start, *_ = pass_through(request(path=path), Behind())
    headers = headers_of(start)
    assert headers["referrer-policy"] == referrer
    assert headers.get("x-robots-tag") == robots
    assert headers["content-security-policy"] == security.CONTENT_SECURITY_POLICY


def test_the_names_that_are_allowed() -> None:
    settings = Settings().model_copy(update={"host": "[FD12::5]", "allowed_hosts": ["Models.LAN"]})
    assert allowed_hosts(settings) == {"localhost", "127.0.0.1", "::1", "fd12::5", "models.lan"}


def test_the_limit_of_a_body_is_20_megabytes() -> None:
    assert security._too_large().startswith("The request is larger than 20 MB")
