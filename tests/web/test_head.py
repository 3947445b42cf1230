"""HEAD is answered wherever GET is: the same status and headers, and no body."""

from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlmodel import select

from app.db import servers
from app.db.database import Database
from app.db.tables import Config
from app.share import links, run
from tests.seed import seed
from tests.web.notebook import add_run
from tests.web.walk import addresses


def test_every_address_that_knows_get_knows_head(client: TestClient, database: Database) -> None:
    with database.write() as session:
        public_id = seed(session, runs=3, configs_used=1, detailed=1)[-1]
        (server, *_) = servers.list_servers(session)
        fingerprint = str(session.exec(select(Config.fingerprint)).first())
        share = links.publish(session, run.snapshot(session, public_id))
    names = {"public_id": public_id, "slug": server.slug, "key": "triple", "model_id": "1"}
    names |= {"fingerprint": fingerprint, "share": share}
    assert isinstance(client.app, FastAPI)
    asked = 0
    for method, path in addresses(client.app, **names):
        if method != "GET" or "discover" in path:
            continue
        get, head = (client.request(method, path, follow_redirects=False) for method in ("GET", "HEAD"))
        assert head.status_code == get.status_code, path
        assert head.content == b"", path
        for name in ("content-type", "location", "content-security-policy"):
            assert head.headers.get(name) == get.headers.get(name), (path, name)
        asked += 1
    assert asked > 25


def test_where_get_is_unknown_head_is_too(client: TestClient) -> None:
    assert client.head("/machines/accelerators").status_code == client.get("/machines/accelerators").status_code
    assert client.head("/logout").status_code == 405
    assert client.head("/nothing/here").status_code == 404


def test_a_stream_does_not_begin_for_head(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=1, configs_used=1, detailed=0)
    running = add_run(database, status="running")
    answer = client.head(f"/runs/{running}/events")  # which would go on as long as the run does
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
