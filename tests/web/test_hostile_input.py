"""Addresses and forms that no page of ours sends: an answer, and never a fault of the server."""

import pytest
from starlette.testclient import TestClient

from app.core.errors import BadInput
from app.core.settings import Settings
from app.db.database import Database
from tests.databases import on_both
from tests.seed import seed

FILTERS = ("config", "machine", "model", "server", "suite", "engine", "label", "q", "with", "since", "name", "run")
PATHS = ("/", "/runs", "/runs.csv", "/history", "/models", "/models/named", "/explore", "/explore/context", "/compare")
HOSTILE = ("a/../<b>?#", "\x00", "\ud83d", "9" * 30, "\u202e" * 300)


@on_both
@pytest.mark.parametrize("path", ["/views/{}", "/views/{}/delete", "/notes/{}", "/notes/{}/delete"])
def test_a_number_that_no_row_has_is_no_fault(client: TestClient, path: str) -> None:
    for number in (1 << 31, 10**20, -1):
        response = client.post(path.format(number), data={"name": "x", "text": "x", "at": "2026-11-20"})
        assert response.status_code in (404, 422)


@on_both
def test_a_hostile_filter_is_no_fault(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed(session, runs=2, configs_used=2, detailed=0)
    faults = [
        (path, name, value, response.status_code)
        for path in PATHS
        for name in FILTERS
        for value in HOSTILE
        if (response := client.get(path, params={name: value.encode("utf-8", "surrogatepass")})).status_code >= 500
    ]
    assert faults == []


@on_both
def test_hostile_texts_of_notes_and_views_are_stored_or_refused(client: TestClient) -> None:
    for text in HOSTILE:
        sent = text.encode("utf-8", "surrogatepass")
        for path, fields in (
            ("/notes", {"text": sent, "at": "2026-11-20"}),
            ("/notes", {"text": "x", "at": sent}),
            ("/notes", {"text": "x", "at": "2026-11-20", "machine": sent}),
            ("/views", {"name": sent, "page": "runs", "query": "q=x"}),
            ("/views", {"name": "x", "page": "runs", "query": sent}),
            ("/views", {"name": "x", "page": sent, "query": ""}),
            ("/runs/chosen/label", {"run": sent, "labels": "x"}),
        ):
            response = client.post(path, data=fields, follow_redirects=False)
            assert response.status_code < 500, (path, fields)
            assert response.headers.get("location", "/").startswith("/"), (path, fields)
            assert not response.headers.get("location", "/").startswith("//")
    assert client.get("/history").status_code == client.get("/runs").status_code == client.get("/").status_code == 200


@pytest.mark.parametrize(
    "address",
    ["https://me:hunter2@bench.lan", "https://bench.lan x", 'https://bench.lan"><b>', "https://bench.lan:99999"],
)
def test_a_public_address_holds_nothing_that_a_link_must_not(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("ROOFMARK_PUBLIC_URL", address)
    with pytest.raises(BadInput) as caught:
        Settings()
    assert "hunter2" not in str(caught.value)
