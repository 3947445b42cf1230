"""Addresses, base URLs, and every fault of a server as one sentence."""

import gzip
import ipaddress
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadInput, RoofmarkError, ServerError, ServerErrorKind
from app.core.settings import Settings
from app.engines.http import ServerClient, network, normalise_base_url, problems
from tests.engines.conftest import Connect
from tests.replay import Request, Script


@pytest.mark.parametrize(
    ("typed", "base"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("localhost", "http://localhost"),
        (" http://Example.ORG:8080/ ", "http://example.org:8080"),
        ("http://h:8080/v1", "http://h:8080"),
        ("http://h:8080/v1/", "http://h:8080"),
        ("http://h:8080/v1/chat/completions", "http://h:8080"),
        ("http://h:8080/v1/models", "http://h:8080"),
        ("http://h:11434/api/chat", "http://h:11434"),
        ("http://h:8080/props", "http://h:8080"),
        ("http://h:8080/S03", "http://h:8080/S03"),
        ("https://h/llm/v1", "https://h/llm"),
        ("https://h/llm/v1/completions/", "https://h/llm"),
        ("https://h/api/v1", "https://h/api"),
        ("https://h/v10", "https://h/v10"),
        ("http://h:8080/#/chat", "http://h:8080"),
        ("[::1]:8000/v1", "http://[::1]:8000"),
        ("https://münchen.example/v1", "https://xn--mnchen-3ya.example"),
    ],
)
def test_base_url(typed: str, base: str) -> None:
    assert normalise_base_url(typed) == base
    assert normalise_base_url(base) == base


@pytest.mark.parametrize(
    "typed",
    [
        "", "   ", "http://", "file:///etc/passwd", "gopher://127.0.0.1:6379/_x", "unix:///var/run/docker.sock", "ftp://h",
        "file:/etc/passwd", "javascript:alert(1)", "http://user:pw@192.168.1.20:8080", "http://h:0", "http://h:70000", "http://h:",
        "http://h:x", "http://a b", "http://a%20b", "http://h?x=1", "http://[::1", "\x00", "http://h\nx", "http://<h>", "http://0251.0376.0251.0376/",
    ],
)  # fmt: skip
def test_no_base_url(typed: str) -> None:
    with pytest.raises(BadInput) as caught:
        normalise_base_url(typed)
    assert str(caught.value).endswith(".")


@given(
    st.text(max_size=30) | st.from_regex(r"(https?://)?[a-z0-9.:\[\]@-]{1,12}(/[a-z0-9/?#%-]{0,20})?", fullmatch=True)
)
def test_any_text_is_a_base_url_or_bad_input(text: str) -> None:
    try:
        base = normalise_base_url(text)
    except BadInput:  # refused in a sentence, as the test allows
        return
    assert normalise_base_url(base) == base
    assert base.startswith(("http://", "https://"))
    assert not base.endswith("/")


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "169.254.0.1", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254", "::169.254.169.254",
        "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1", "100.100.100.200", "224.0.0.1", "255.255.255.255", "ff02::1",
    ],
)  # fmt: skip
def test_forbidden_addresses(address: str) -> None:
    assert network.is_forbidden(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "192.168.1.20", "10.0.0.1", "172.17.0.1", "100.64.0.1", "8.8.8.8", "fd12::1", "2001:db8::1",
     "::ffff:192.168.1.2"],
)  # fmt: skip
def test_allowed_addresses(address: str) -> None:
    assert not network.is_forbidden(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "http://metadata.google.internal/",
        "http://Metadata.Google.Internal./", "http://2852039166/", "http://0xA9FEA9FE/",
        "http://169.254.43518/", "http://[::ffff:169.254.169.254]/", "http://[::ffff:a9fe:a9fe]/", "http://[fe80::1]/",
    ],
)  # fmt: skip
def test_forbidden_in_any_spelling(url: str) -> None:
    with ServerClient(url, None, Settings()) as client, pytest.raises(ServerError) as caught:
        client.get("/v1/models")
    assert caught.value.trouble is ServerErrorKind.FORBIDDEN_ADDRESS


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes every name resolve to the given addresses, one list per look-up."""

    def resolve(*answers: list[str]) -> None:
        left: Iterator[list[str]] = iter(answers)

        def getaddrinfo(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in next(left)]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    return resolve


def test_a_name_that_leads_to_a_forbidden_address(names: Callable[..., None]) -> None:
    names(["169.254.169.254"])
    with ServerClient("http://llm.example", None, Settings()) as client, pytest.raises(ServerError) as caught:
        client.get("/")
    assert caught.value.trouble is ServerErrorKind.FORBIDDEN_ADDRESS


def test_the_checked_address_is_pinned(monkeypatch: pytest.MonkeyPatch, connect: Connect) -> None:
    replay, _ = connect({"/": Script.json({"ok": True})})
    real, answers = socket.getaddrinfo, iter(["127.0.0.1", "169.254.169.254"])

    def getaddrinfo(host: str, *rest: int, **more: int) -> object:
        return real(next(answers) if host == "llm.example" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with ServerClient(f"http://llm.example:{replay.port}", None, Settings()) as client:
        assert [client.get_json("/"), client.get_json("/")] == [{"ok": True}] * 2
    assert next(answers) == "169.254.169.254"
    assert replay.requests[0].headers["host"] == f"llm.example:{replay.port}"


def test_roofmark_itself_is_not_measured(connect: Connect) -> None:
    replay, _ = connect({"/": Script.json({})})
    settings = Settings().model_copy(update={"port": replay.port})
    with ServerClient(replay.url, None, settings) as client, pytest.raises(ServerError) as caught:
        client.get("/")
    assert caught.value.trouble is ServerErrorKind.FORBIDDEN_ADDRESS
    assert replay.requests == []


def problem(client: ServerClient, path: str = "/v1/models") -> ServerError:
    with pytest.raises(ServerError) as caught:
        client.get_json(path)
    assert str(caught.value).endswith(".")
    assert "secret" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("script", "trouble", "words"),
    [
        (
            Script.text("<html>secret</html>", content_type="text/html"),
            ServerErrorKind.NOT_LLM,
            "An HTML page came back",
        ),
        (Script.text("<!doctype html>secret", 404), ServerErrorKind.NOT_LLM, "An HTML page came back"),
        (Script.text("<html>secret", 502), ServerErrorKind.SERVER_ERROR, "HTTP 502"),
        (Script.text("no json", content_type="text/plain"), ServerErrorKind.NOT_LLM, "not JSON"),
        (Script.json({"error": "Unauthorized"}, 401), ServerErrorKind.NEEDS_KEY, "wants an API key"),
        (Script.json({}, 403), ServerErrorKind.NEEDS_KEY, "wants an API key"),
        (Script.json({"detail": "Not Found"}, 404), ServerErrorKind.NOT_LLM, "has no /v1/models (HTTP 404): Not Found"),
        (Script.json({"error": {"message": "boom"}}, 500), ServerErrorKind.SERVER_ERROR, "HTTP 500: boom"),
        (Script.text("Internal Server Error", 500), ServerErrorKind.SERVER_ERROR, "Internal Server Error"),
        (Script.json({"error": '{"error": {"message": "deep"}}'}, 500), ServerErrorKind.SERVER_ERROR, "deep"),
        (
            Script.json({"detail": [{"loc": ["body", "x"], "msg": "bad"}]}, 422),
            ServerErrorKind.SERVER_ERROR,
            "body.x: bad",
        ),
        (Script.json({"error": "x" * 5000}, 500), ServerErrorKind.SERVER_ERROR, "x…."),
        (Script.text("Oops\nsecret", 500), ServerErrorKind.SERVER_ERROR, "HTTP 500: Oops."),
        (
            Script.json({"error": {"message": "Loading model", "code": 503}}, 503),
            ServerErrorKind.LOADING,
            "still loading",
        ),
        (Script.json({"error": "overloaded"}, 429), ServerErrorKind.BUSY, "busy"),
        (Script(status=302, headers={"location": "http://169.254.169.254/"}), ServerErrorKind.NOT_LLM, "redirects"),
        (Script([(0, b"{")], end="rst"), ServerErrorKind.SERVER_ERROR, "lost"),
        (Script([(0, b"{")], end="hang"), ServerErrorKind.TIMEOUT, "did not come to its end"),
        (Script(end="mute"), ServerErrorKind.TIMEOUT, "did not answer within"),
        (Script([(0, b"\x1f\x8bgarbage")], headers={"content-encoding": "gzip"}), ServerErrorKind.SERVER_ERROR, "lost"),
    ],
)
def test_faults(connect: Connect, script: Script, trouble: ServerErrorKind, words: str) -> None:
    replay, client = connect({"/": script}, probe_timeout_s=0.3)
    caught = problem(client)
    assert caught.trouble is trouble
    assert words in str(caught)
    assert len(replay.requests) == 1


def test_a_rejected_key(connect: Connect) -> None:
    replay, client = connect({"/": Script.json({}, 401)}, key="sk-1")
    assert "rejected the API key" in str(problem(client))
    assert replay.requests[0].headers["authorization"] == "Bearer sk-1"


def test_a_key_that_no_header_can_carry() -> None:
    with pytest.raises(BadInput):
        ServerClient("http://h", "key\r\nx: y", Settings())


def test_compressed_answers_are_read_though_not_asked_for(connect: Connect) -> None:
    body = gzip.compress(json.dumps({"ok": True}).encode())
    replay, client = connect({"/": Script([(0, body)], headers={"content-encoding": "gzip"}, framing="length")})
    assert client.get_json("/") == {"ok": True}
    assert replay.requests[0].headers["accept-encoding"] == "identity"


def test_too_large_answers(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engines.http.answer.MAX_ANSWER_BYTES", 1000)
    _, client = connect({"/": Script.text("x" * 2000)})
    assert "too large" in str(problem(client))


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("container", [False, True])
def test_refused(closed_port: int, container: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "in_container", lambda: container)
    with ServerClient(f"http://localhost:{closed_port}", None, Settings()) as client:
        caught = problem(client)
    assert caught.trouble is ServerErrorKind.REFUSED
    assert ("host.docker.internal" in str(caught)) == container


def test_unknown_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    for host, hint in (("nowhere.invalid", False), ("host.docker.internal", True)):
        with ServerClient(f"http://{host}", None, Settings()) as client:
            caught = problem(client)
        assert caught.trouble is ServerErrorKind.UNREACHABLE
        assert ("host-gateway" in str(caught)) == hint


def serve_raw(data: bytes) -> socket.socket:
    """A listener whose backlog holds one connection that `data` answers."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with listener, listener.accept()[0] as connection:
            connection.recv(65536)
            connection.sendall(data)

    threading.Thread(target=answer, daemon=True).start()
    return listener


@pytest.mark.parametrize(
    ("scheme", "data", "trouble", "words"),
    [
        ("http", b"", ServerErrorKind.SERVER_ERROR, "closed the connection without an answer"),
        ("http", b"SSH-2.0-OpenSSH_9.2\r\nInvalid\r\n\r\n", ServerErrorKind.NOT_LLM, "does not answer in HTTP"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", ServerErrorKind.UNREACHABLE, "try http://"),
        ("https", b"", ServerErrorKind.UNREACHABLE, "TLS"),
    ],
)
def test_not_http(scheme: str, data: bytes, trouble: ServerErrorKind, words: str) -> None:
    port = serve_raw(data).getsockname()[1]
    with ServerClient(f"{scheme}://127.0.0.1:{port}", None, Settings()) as client:
        caught = problem(client)
    assert caught.trouble is trouble
    assert words in str(caught)


def test_a_kept_connection_that_died_is_opened_again() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"

    def serve() -> None:
        with listener:
            with listener.accept()[0] as first:
                first.recv(65536)
                first.sendall(answer)
                # the second request is read, and dropped
                first.recv(65536)
            with listener.accept()[0] as second:
                second.recv(65536)
                second.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with ServerClient(f"http://127.0.0.1:{listener.getsockname()[1]}", None, Settings()) as client:
        assert [client.get_json("/"), client.get_json("/")] == [{}, {}]
    thread.join()


def test_no_file_of_the_person_is_used(connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    replay, client = connect({"/": lambda request: Script.json(dict(request.headers))})
    assert "authorization" not in client.get_json("/")
    assert isinstance(replay.requests[0], Request)


def test_errors_are_roofmark_errors() -> None:
    assert issubclass(ServerError, RoofmarkError)
