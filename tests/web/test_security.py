"""What holds for every route: hosts, origins, headers, no inline code, no key in an answer, and a login."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from sqlmodel import select
from starlette.testclient import TestClient

from app.core.errors import BadInput
from app.core.secrets import Secrets
from app.core.settings import Settings
from app.db import servers
from app.db.database import Database
from app.db.tables import Config
from app.share import links, run
from app.web import security
from app.web.security import CONTENT_SECURITY_POLICY, check_listen
from tests.seed import seed
from tests.web.conftest import API_KEY, browser
from tests.web.notebook import BASE_URL
from tests.web.walk import UNSAFE, addresses

PASSWORD = "correct horse battery staple"
PUBLIC = "/s/"
OPEN = {
    ("GET", "/login"),
    ("POST", "/login"),
    ("POST", "/language"),
    ("GET", "/health"),
    ("GET", "/static/css/app.css"),
}


@pytest.fixture
def names(settings: Settings, database: Database) -> dict[str, str]:
    """What the addresses name: a done run, its server with an API key, a suite, a share of the run."""
    with database.write() as session:
        public_id = seed(session, runs=3, configs_used=1, detailed=1)[-1]
        (server, *_) = servers.list_servers(session)
        servers.edit_server(session, server.slug, api_key_encrypted=Secrets(settings).encrypt(API_KEY))
        fingerprint = session.exec(select(Config.fingerprint)).first()
        share = links.publish(session, run.snapshot(session, public_id))
    path_values = {"public_id": public_id, "slug": server.slug, "key": "triple", "model_id": "1"}
    return path_values | {"fingerprint": str(fingerprint), "share": share}


@pytest.fixture
def locked(settings: Settings, database: Database) -> Iterator[TestClient]:
    with browser(settings.model_copy(update={"password": SecretStr(PASSWORD)}), database) as client:
        yield client


def walk(client: TestClient, names: dict[str, str]) -> list[tuple[str, str]]:
    assert isinstance(client.app, FastAPI)
    paths = list(addresses(client.app, **names))
    assert len(paths) > 40
    return paths


def test_no_route_answers_under_a_foreign_name(client: TestClient, names: dict[str, str]) -> None:
    for method, path in walk(client, names):
        for host in ("evil.example", "evil.example:8765", "127.0.0.1.evil.example:8765", ""):
            answer = client.request(method, path, headers={"host": host, "origin": f"http://{host}"})
            assert answer.status_code in (400, 403), (method, path, host)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://localhost.attacker.com:8765"},
        {"origin": "https://127.0.0.1:8765"},
        {"origin": "http://127.0.0.1:8766"},
        {"origin": "http://127.0.0.1"},
        {"origin": "http://localhost:8765"},
        {"origin": "http://127.0.0.1:8765/"},
        {"origin": "http://127.0.0.1:8765@evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": BASE_URL, "sec-fetch-site": "cross-site"},
        {"origin": BASE_URL, "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_nothing_is_changed_for_another_site(
    settings: Settings, database: Database, names: dict[str, str], headers: dict[str, str]
) -> None:
    with browser(settings, database, has_origin=False) as client:
        for method, path in walk(client, names):
            if method in UNSAFE:
                content = {"content-type": "text/plain"}
                assert client.request(method, path, headers=headers | content).status_code == 403, (method, path)


def test_two_origins_are_none(client: TestClient) -> None:
    pair = [("origin", BASE_URL), ("origin", "http://evil.example")]
    assert client.post("/machines", headers=pair, data={"name": "x"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": BASE_URL},
        {"origin": BASE_URL, "hx-request": "true"},
        {"origin": BASE_URL, "sec-fetch-site": "same-origin"},
        {"host": "localhost:8765", "origin": "http://localhost:8765"},
        {"host": "LOCALHOST:8765", "origin": "http://localhost:8765"},
        {"host": "localhost", "origin": "http://localhost"},
        {"host": "localhost:80", "origin": "http://localhost"},
        {"host": "[::1]:8765", "origin": "http://[::1]:8765"},
        {"host": "models.lan", "origin": "http://models.lan"},
    ],
)
def test_own_pages_and_programs_may(settings: Settings, database: Database, headers: dict[str, str]) -> None:
    known_settings = settings.model_copy(update={"allowed_hosts": ["models.lan"]})
    with browser(known_settings, database, has_origin=False) as client:
        answer = client.post("/machines", data={"name": "box"}, headers=headers, follow_redirects=False)
        assert answer.status_code == 303


@pytest.mark.parametrize("host", ["127.0.0.1:8765, evil.example", "evil.example#127.0.0.1", "127.0.0.1:", "::1", "a b"])
def test_a_malformed_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/health", headers={"host": host}).status_code in (400, 403)


def test_every_answer_has_the_headers(client: TestClient, names: dict[str, str]) -> None:
    foreign = client.get("/", headers={"host": "evil.example"})
    for answer in (foreign, *(client.request(method, path) for method, path in walk(client, names))):
        assert answer.status_code != 500
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        is_public = answer.request.url.path.startswith(PUBLIC)
        assert answer.headers["referrer-policy"] == ("no-referrer" if is_public else "same-origin")
        assert answer.headers.get("x-robots-tag") == ("noindex" if is_public else None)
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == ("no-cache" if "etag" in answer.headers else "no-store")


def test_no_page_has_inline_code_or_asks_another_site(client: TestClient, names: dict[str, str]) -> None:
    pages = 0
    for method, path in walk(client, names):
        answer = client.request(method, path, headers={"hx-request": "true"} if "checks" in path else {})
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        pages += 1
        html = answer.text
        for script in re.finditer(r"<script([^>]*)>(.*?)</script>", html, re.DOTALL):
            assert "src=" in script[1] or 'type="application/json"' in script[1], (path, script[0][:100])
        assert not re.search(r"<style|\sstyle\s*=|\son\w+\s*=|\shx-on|javascript:", html), (method, path)
        assert not re.search(r'(src|href|action)="(https?:)?//', html), (method, path)
    assert pages > 25


def test_no_answer_holds_an_api_key(settings: Settings, client: TestClient, names: dict[str, str]) -> None:
    encrypted = Secrets(settings).encrypt("x")[:10]
    form = {"base_url": "http://127.0.0.1:9", "api_key": API_KEY, "name": "", "machine": "nonesuch"}
    for method, path in walk(client, names):
        answer = client.request(method, path, data=form) if method in UNSAFE else client.get(path)
        assert API_KEY not in answer.text + str(answer.headers), (method, path)
        assert encrypted not in answer.text, (method, path)


def test_without_the_password_nothing_is_told(locked: TestClient, names: dict[str, str]) -> None:
    for method, path in walk(locked, names):
        answer = locked.request(method, path, follow_redirects=False)
        if (method, path) in OPEN:
            assert answer.status_code in (200, 401, 422)
        elif path.startswith(PUBLIC):
            assert answer.status_code == 200
            assert "set-cookie" not in answer.headers
        elif method == "GET" and not path.startswith("/api"):
            assert answer.status_code == 303, (method, path)
            assert answer.headers["location"].startswith("/login?next=")
        else:
            assert answer.status_code == 401, (method, path)
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY


def test_the_password_opens_a_session_until_log_out(locked: TestClient) -> None:
    wrong = locked.post("/login", data={"password": "guess"})
    assert wrong.status_code == 401
    assert "Wrong password" in wrong.text
    right = locked.post("/login", data={"password": PASSWORD, "next": "/runs?sort=decode"}, follow_redirects=False)
    assert right.headers["location"] == "/runs?sort=decode"
    cookie = right.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert locked.get("/runs", follow_redirects=False).status_code == 200
    locked.post("/logout")
    assert locked.get("/runs", follow_redirects=False).status_code == 303


@pytest.mark.parametrize("target", ["//evil.example", "http://evil.example", "/\\evil.example", "/\nx", "runs"])
def test_log_in_leads_to_no_other_site(locked: TestClient, target: str) -> None:
    answer = locked.post("/login", data={"password": PASSWORD, "next": target}, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_programs_send_the_password_as_a_token(locked: TestClient) -> None:
    assert locked.get("/api/v1/runs", headers={"authorization": f"Bearer {PASSWORD}"}).status_code == 200
    refused = locked.get("/api/v1/runs", headers={"authorization": "Bearer guess"})
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert "message" in refused.json()["error"]


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}])
def test_what_is_refused_before_a_session_is_read_is_a_page_too(locked: TestClient, headers: dict[str, str]) -> None:
    answer = locked.post("/machines", headers=headers)
    assert answer.status_code == 403
    assert "Refused" in answer.text
    assert "<nav" not in answer.text


def test_a_session_of_another_password_or_none_is_worth_nothing(
    settings: Settings, database: Database, locked: TestClient
) -> None:
    locked.post("/login", data={"password": PASSWORD})
    cookie = locked.cookies["roofmark"]
    with browser(settings.model_copy(update={"password": SecretStr("other")}), database) as client:
        client.cookies.set("roofmark", cookie)
        assert client.get("/runs", follow_redirects=False).status_code == 303
        client.cookies.set("roofmark", "eyJpc19pbiI6IHRydWV9.forged")
        assert client.get("/runs", follow_redirects=False).status_code == 303


def test_too_large_a_body_is_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MAX_BODY_BYTES", 1000)
    assert client.post("/suites", data={"prompt": "x" * 2000}).status_code == 413

    def chunks() -> Iterator[bytes]:
        yield from [b"prompt=" + b"x" * 600] * 3

    form = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post("/suites", content=chunks(), headers=form).status_code == 413


@pytest.mark.parametrize(
    ("values", "is_fine"),
    [
        ({"host": "127.0.0.1"}, True),
        ({"host": "127.8.0.1"}, True),
        ({"host": "localhost"}, True),
        ({"host": "::1"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "::"}, False),
        ({"host": "192.168.1.5"}, False),
        ({"host": "box.lan"}, False),
        ({"host": ""}, False),
        ({"host": "0.0.0.0", "password": SecretStr("x")}, True),
        ({"host": "0.0.0.0", "allow_no_password": True}, True),
    ],
)
def test_it_listens_to_others_only_when_told_so(settings: Settings, values: dict[str, Any], is_fine: bool) -> None:
    changed_settings = settings.model_copy(update=values)
    if is_fine:
        check_listen(changed_settings)
    else:
        with pytest.raises(BadInput, match="ROOFMARK_PASSWORD"):
            check_listen(changed_settings)


def test_logging_out_ends_a_stolen_session_too(locked: TestClient) -> None:
    locked.post("/login", data={"password": PASSWORD})
    stolen = dict(locked.cookies)
    assert locked.get("/runs", follow_redirects=False).status_code == 200
    locked.post("/logout")
    locked.cookies.clear()
    locked.cookies.update(stolen)
    assert locked.get("/runs", follow_redirects=False).status_code == 303


def test_a_password_may_hold_any_character(settings: Settings, database: Database) -> None:
    with browser(settings.model_copy(update={"password": SecretStr("pässwörd")}), database) as client:
        token = "Bearer pässwörd".encode()
        assert client.get("/api/v1/runs", headers={b"authorization": token}).status_code == 200
        assert client.get("/api/v1/runs", headers={"authorization": "Bearer password"}).status_code == 401


@pytest.mark.parametrize("path", ["/suites", "/api/v1/runs", "/machines"])
def test_a_body_without_a_length_is_bounded_too(client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(security, "MAX_BODY_BYTES", 1000)

    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            yield b"title=" + b"x" * 100

    answer = client.post(path, content=pieces(), headers={"content-type": "application/x-www-form-urlencoded"})
    assert answer.status_code == 413
    assert "larger than" in answer.text


@pytest.mark.parametrize("path", ["/servers/new?url=http://127.0.0.1:9", "/servers/discover"])
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_no_foreign_page_makes_roofmark_reach_out(client: TestClient, path: str, site: str) -> None:
    answer = client.get(path, headers={"sec-fetch-site": site})
    assert answer.status_code == 403
    assert "only from Roofmark's own pages" in answer.text.replace("&#39;", "'")
