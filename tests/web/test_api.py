"""The JSON API: the same documents and rules as everywhere, errors as one sentence."""

import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.db.database import Database
from app.schemas.run_document import run_document
from tests.seed import seed


def message(answer: Any) -> str:
    assert set(answer.json()) == {"error"}
    return str(answer.json()["error"]["message"])


def test_runs_are_filtered_and_paged(client: TestClient, database: Database) -> None:
    with database.write() as session:
        ids = seed(session, runs=12, detailed=1)
    page = client.get("/api/v1/runs?per_page=5&page=3").json()
    assert (page["total"], page["page"], page["per_page"]) == (12, 3, 5)
    assert [run["id"] for run in page["runs"]] == ids[::-1][10:]
    assert client.get("/api/v1/runs?status=failed").json()["total"] == 0


def test_a_run_is_its_document(client: TestClient, database: Database) -> None:
    with database.write() as session:
        public_id = seed(session, runs=1, detailed=1)[0]
    with database.read() as session:
        assert client.get(f"/api/v1/runs/{public_id}").json() == run_document(session, public_id)


def test_a_run_is_queued_and_cancelled(client: TestClient, server: str) -> None:
    new_run = {"server": server, "suite": "triple", "repetitions": 2, "note": "by a program"}
    made = client.post("/api/v1/runs", json=new_run)
    assert made.status_code == 201
    document = made.json()
    assert made.headers["location"] == f"/api/v1/runs/{document['run']['id']}"
    assert (document["run"]["status"], document["run"]["note"]) == ("queued", "by a program")
    cancelled = client.post(f"{made.headers['location']}/cancel")
    assert cancelled.json()["run"]["status"] == "cancelled"
    again = client.post(f"{made.headers['location']}/cancel")
    assert again.status_code == 409
    assert "ended already" in message(again)


def test_several_runs_of_the_same_are_queued_together(client: TestClient, server: str) -> None:
    made = client.post("/api/v1/runs", json={"server": server, "runs": 3, "note": "thrice"}).json()
    assert len(set(made["queued"])) == 3
    assert made["queued"][0] == made["run"]["id"]
    queued = client.get("/api/v1/runs?status=queued").json()
    assert [(run["id"], run["note"]) for run in queued["runs"]][::-1] == [
        (public_id, "thrice") for public_id in made["queued"]
    ]
    assert client.post("/api/v1/runs", json={"server": server}).json()["queued"] != made["queued"]


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({}, 422, "Server: Field required."),
        ({"server": "nonesuch"}, 404, "There is no server called"),
        ({"server": "llama", "suite": "nonesuch"}, 422, "There is no suite"),
        ({"server": "llama", "repetitions": "many"}, 422, "Repetitions:"),
        ({"server": "llama", "repetitions": 0}, 422, "Repetitions must be between"),
        ({"server": "llama", "runs": 0}, 422, "From 1 to 20 runs can be queued at once, not 0."),
        ({"server": "llama", "runs": 21}, 422, "From 1 to 20 runs can be queued at once, not 21."),
        ({"server": "llama", "speed": 9}, 422, "Speed:"),
        ([], 422, ""),
        ("text", 422, ""),
    ],
)
def test_bad_input_is_one_sentence(client: TestClient, server: str, body: Any, status: int, sentence: str) -> None:
    answer = client.post("/api/v1/runs", json=body)
    assert answer.status_code == status
    assert sentence in message(answer)


def test_what_is_no_json_is_one_sentence(client: TestClient) -> None:
    answer = client.post("/api/v1/runs", content=b"{", headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert message(answer)


@pytest.mark.parametrize("path", ["/api/v1/runs/nonesuch", "/api/v1/nonesuch", "/api/nonesuch"])
def test_an_unknown_address_is_json_too(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert message(answer)


def test_the_openapi_document_and_its_page_load_nothing_from_elsewhere(client: TestClient) -> None:
    assert "/api/v1/runs" in client.get("/api/v1/openapi.json").json()["paths"]
    page = client.get("/docs").text
    assert 'data-openapi="/api/v1/openapi.json"' in page
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert sources
    assert all(source.startswith(("/", "#")) for source in sources)
    assert client.get("/redoc").status_code == 404


@pytest.mark.parametrize("field", ["server", "suite", "model", "note"])
def test_half_a_character_is_refused(client: TestClient, server: str, field: str) -> None:
    body = json.dumps({"server": server, field: "\ud800"})
    answer = client.post("/api/v1/runs", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert "invalid character" in answer.json()["error"]["message"]


@pytest.mark.parametrize(("field", "length"), [("note", 10_001), ("model", 301)])
def test_texts_have_a_longest_length(client: TestClient, server: str, field: str, length: int) -> None:
    answer = client.post("/api/v1/runs", json={"server": server, field: "x" * length})
    assert answer.status_code == 422
    assert "longer than" in answer.json()["error"]["message"]
