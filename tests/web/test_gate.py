"""What the gate lets through without the password, and how it asks for it; the pages behind it are a stub."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import SecretStr
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from app.core.errors import StorageError
from app.core.settings import Settings
from app.db.database import Database
from app.web.login import AuthMiddleware, Sessions, session_key
from tests.web.conftest import browser

PASSWORD = "correct horse"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(_delay_s: float) -> None: ...

    monkeypatch.setattr("app.web.login.asyncio.sleep", sleep)


def gate(path: str, authorization: str = "", session: dict[str, str] | None = None, root_path: str = "") -> Message:
    """The start of the answer: 200 comes from behind the gate."""
    sent: list[Message] = []

    async def behind(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("inside")(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    state = SimpleNamespace(
        settings=Settings().model_copy(update={"password": SecretStr(PASSWORD)}),
        sessions=SimpleNamespace(token="current"),
        routes={"login": [SimpleNamespace(url_path_for=lambda _name: "/login")]},
    )
    headers = [(b"host", b"localhost"), (b"accept", b"*/*")]
    if authorization:
        headers.append((b"authorization", authorization.encode()))
    scope: Scope = {
        "type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers, "scheme": "http",
        "root_path": root_path, "app": SimpleNamespace(state=state), "server": ("localhost", 80),
        "session": session or {},
    }  # fmt: skip
    asyncio.run(AuthMiddleware(behind, PASSWORD)(scope, receive, send))
    return sent[0]


@pytest.mark.parametrize(
    ("path", "is_open"),
    [
        ("/health", True),
        ("/login", True),
        ("/language", True),
        ("/static/css/app.css", True),
        ("/s/abc", True),
        ("/", False),
        ("/healthy", False),
        ("/login/x", False),
        ("/static", False),
        ("/staticx", False),
        ("/s", False),
        ("/suites", False),
        ("/runs", False),
        ("/api/v1/runs", False),
    ],
)
@pytest.mark.parametrize("root_path", ["", "/notes"])
def test_what_is_open_to_everybody(path: str, is_open: bool, root_path: str) -> None:
    for address in {path, root_path + path}:
        assert (gate(address, root_path=root_path)["status"] == 200) == is_open


@pytest.mark.parametrize(
    ("authorization", "is_right"),
    [
        (f"Bearer {PASSWORD}", True),
        (f"bearer {PASSWORD}", True),
        (f"BEARER   {PASSWORD} ", True),
        (f"Basic {PASSWORD}", False),
        (f"{PASSWORD}", False),
        (f" {PASSWORD}", False),
        (f"Bearer{PASSWORD}", False),
        ("Bearer ", False),
        ("Bearer", False),
        (f"Bearer {PASSWORD}x", False),
        (f"Bearer {PASSWORD[:-1]}", False),
        (f"Bearer {PASSWORD.upper()}", False),
    ],
)
def test_a_token_is_the_password_after_the_word_bearer(authorization: str, is_right: bool) -> None:
    assert (gate("/api/v1/runs", authorization)["status"] == 200) == is_right


@pytest.mark.parametrize(
    ("session", "is_right"),
    [({"token": "current"}, True), ({"token": "older"}, False), ({"x": "y"}, False), ({}, False)],
)
def test_a_session_holds_the_current_token(session: dict[str, str], is_right: bool) -> None:
    assert (gate("/runs", session=session)["status"] == 200) == is_right


@pytest.fixture
def locked(settings: Settings) -> Settings:
    return settings.model_copy(update={"password": SecretStr(PASSWORD)})


def test_it_asks_each_in_its_own_way(locked: Settings, database: Database) -> None:
    with browser(locked, database) as client:
        page = client.get("/runs?sort=decode&label=a b", follow_redirects=False)
        assert (page.status_code, page.headers["location"]) == (
            303,
            "/login?next=%2Fruns%3Fsort%3Ddecode%26label%3Da%2520b",
        )
        bare = client.get("/runs", follow_redirects=False)
        assert bare.headers["location"] == "/login?next=%2Fruns"
        part = client.get("/runs", headers={"hx-request": "true"})
        assert (part.status_code, part.headers["hx-redirect"]) == (401, "/login")
        form = client.post("/machines", data={"name": "box"})
        assert (form.status_code, form.headers["hx-redirect"]) == (401, "/login")
        assert "log in again" in form.text
        program = client.get("/api/v1/runs")
        assert (program.status_code, program.headers["www-authenticate"]) == (401, "Bearer")
        assert "hx-redirect" not in program.headers


def log_in(client: TestClient, password: str = PASSWORD, target: str = "") -> tuple[int, str | None]:
    answer = client.post("/login", data={"password": password, "next": target}, follow_redirects=False)
    return answer.status_code, answer.headers.get("location")


def test_the_page_to_log_in(locked: Settings, database: Database) -> None:
    with browser(locked, database) as client:
        fresh = client.get("/login", params={"next": "/runs?sort=decode"}, follow_redirects=False)
        assert fresh.status_code == 200
        assert "Wrong password" not in fresh.text
        assert 'value="/runs?sort=decode"' in fresh.text
        wrong = client.post("/login", data={"password": "guess", "next": "/runs"}, follow_redirects=False)
        assert wrong.status_code == 401
        assert "Wrong password" in wrong.text
        assert 'value="/runs"' in wrong.text
        assert log_in(client, "") == (401, None)
        assert client.get("/runs", follow_redirects=False).status_code == 303
        assert log_in(client) == (303, "/")
        # whoever is inside already is led on
        for target, location in (("", "/"), ("/runs", "/runs"), ("//evil.example", "/")):
            answer = client.get("/login", params={"next": target}, follow_redirects=False)
            assert (answer.status_code, answer.headers["location"]) == (303, location)


def test_without_a_password_there_is_nothing_to_log_in_to(settings: Settings, database: Database) -> None:
    with browser(settings, database) as client:
        assert log_in(client, "anything", "/runs") == (303, "/")
        assert client.post("/logout", follow_redirects=False).status_code == 303
        assert not (settings.data_dir / "sessions").exists()


def test_sessions_outlive_a_restart_and_end_with_a_log_out(settings: Settings) -> None:
    first = Sessions(settings)
    assert len(first.token) == 22  # 16 random bytes
    assert Sessions(settings).token == first.token
    before = first.token
    first.renew()
    assert first.token != before
    assert Sessions(settings).token == first.token


def test_an_empty_file_of_sessions_is_no_token(settings: Settings) -> None:
    """Else an empty token in a session would be worth something."""
    settings.data_dir.mkdir(parents=True)
    (settings.data_dir / "sessions").write_text("")
    assert len(Sessions(settings).token) == 22


def test_sessions_that_cannot_be_written_are_a_sentence(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="sessions cannot be written: File exists"):
        Sessions(settings.model_copy(update={"data_dir": tmp_path / "file"}))


def test_another_password_signs_with_another_key(locked: Settings) -> None:
    other_settings = locked.model_copy(update={"password": SecretStr("other")})
    assert session_key(locked) == session_key(locked.model_copy())
    assert session_key(locked) != session_key(other_settings)
