"""Every JSON route has a response model, and every document matches its model key by key."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel
from starlette.testclient import TestClient

from app.db.database import Database
from app.results.compare import compare, to_json
from app.schemas.base import ErrorDocument
from app.schemas.comparison import ComparisonDocument
from app.schemas.explorer import ExplorerDocument
from app.schemas.history import NoteDocument, NotesDocument, UpdatesDocument
from app.schemas.run import RunDocument, RunsDocument
from app.schemas.run_document import run_document
from app.share.formats import ShareDocument
from app.web.templates import engine_titles
from tests.seed import seed
from tests.year import seed_year

PUBLIC_NAMES = Path(__file__).with_name("public_names.json")
NO_JSON = {"api_delete_run", "api_delete_note"}
"""Answers without a body."""


def routes(web: FastAPI) -> list[Any]:
    """Routes whose success is JSON of the API."""
    paths = ("/api/", "/health")
    return [
        route
        for route in iter_route_contexts(web.routes)
        if (path := getattr(route, "path", "")).startswith(paths) or path.endswith(".json")
    ]


def check(model: type[BaseModel], document: Any) -> None:
    """The model accepts the document, and gives the very same back."""
    assert model.model_validate(document).model_dump(mode="json", by_alias=True) == json.loads(json.dumps(document))


def test_every_json_route_is_described(client: TestClient) -> None:
    web: Any = client.app
    specification = client.get("/api/v1/openapi.json").json()
    described = [
        operation
        for methods in specification["paths"].values()
        for operation in methods.values()
        if "204" not in operation["responses"]
    ]
    assert len(described) >= 9
    for operation in described:
        success = next(response for status, response in operation["responses"].items() if status.startswith("2"))
        assert "$ref" in success["content"]["application/json"]["schema"], operation["operationId"]
        assert operation["description"]
    unmodelled = [
        route.name
        for route in routes(web)
        if getattr(route, "response_model", None) is None and route.name not in NO_JSON | {"openapi"}
    ]
    assert not unmodelled


def test_errors_are_described_by_their_model(client: TestClient) -> None:
    specification = client.get("/api/v1/openapi.json").json()
    for path, methods in specification["paths"].items():
        for operation in methods.values():
            errors = {status: body for status, body in operation["responses"].items() if status.startswith(("4", "5"))}
            assert errors or path == "/health"
            for body in errors.values():
                reference = body["content"]["application/json"]["schema"]["$ref"]
                assert reference == "#/components/schemas/ErrorDocument"
    ErrorDocument.model_validate(client.get("/api/v1/runs/nonesuch").json())


def test_public_names_change_only_on_purpose(client: TestClient) -> None:
    """Renaming a Python attribute must not rename a key: whoever changes `public_names.json` raises a version."""
    schemas = client.get("/api/v1/openapi.json").json()["components"]["schemas"]
    names = {name: sorted(schema.get("properties", ())) for name, schema in schemas.items()}
    assert names == json.loads(PUBLIC_NAMES.read_text(encoding="utf-8"))


def test_documents_match_their_models(client: TestClient, database: Database) -> None:
    with database.write() as session:
        ids = seed(session, runs=24, detailed=24)
    client.post(f"/runs/{ids[4]}/baseline")
    with database.read() as session:
        for public_id in ids:
            document = run_document(session, public_id)
            check(RunDocument, document)
            assert client.get(f"/api/v1/runs/{public_id}").json() == json.loads(json.dumps(document))
        comparison = to_json(compare(session, ids[-3:], engine_titles()))
    check(ComparisonDocument, comparison)
    query = "&".join(f"run={public_id}" for public_id in ids[-3:])
    assert client.get(f"/api/v1/compare?{query}").json() == json.loads(json.dumps(comparison))
    check(RunsDocument, client.get("/api/v1/runs").json())


def test_updates_and_notes_match_their_models(client: TestClient, database: Database) -> None:
    with database.write() as session:
        seed_year(session)
    updates = client.get("/api/v1/updates?machine=strix-halo").json()
    check(UpdatesDocument, updates)
    assert [bool(update["shifts"]) for update in updates["updates"]] == [False] * 3 + [True] + [False] * 3
    note = client.post("/api/v1/notes", json={"text": "new PSU", "at": "2026-06-03", "machine": "strix-halo"})
    assert note.status_code == 201
    check(NoteDocument, note.json())
    path = f"/api/v1/notes/{note.json()['id']}"
    changed = client.put(path, json={"text": "new fan", "at": "2026-06-04T08:00"}).json()
    assert (changed["text"], changed["machine"], changed["at"]) == ("new fan", None, "2026-06-04T08:00:00+00:00")
    check(NotesDocument, client.get("/api/v1/notes").json())
    assert client.delete(path).status_code == 204
    assert client.get("/api/v1/notes").json()["notes"] == []
    assert client.delete(path).status_code == 404
    assert client.post("/api/v1/notes", json={"text": "x", "at": "then"}).status_code == 422


@pytest.mark.parametrize("query", ["", "?x=run.started&y=decode_tokens_per_s&raw=on", "?x=config.quantization"])
def test_the_explorer_matches_its_model(client: TestClient, database: Database, query: str) -> None:
    with database.write() as session:
        seed(session, runs=12, detailed=12)
    response = client.get(f"/api/v1/explore{query}")
    check(ExplorerDocument if response.status_code == 200 else ErrorDocument, response.json())


@pytest.mark.parametrize("kind", ["run", "comparison"])
def test_a_share_matches_its_model(client: TestClient, database: Database, kind: str) -> None:
    with database.write() as session:
        ids = seed(session, runs=2, detailed=2)
    query = "&".join(
        [f"kind={kind}", *(f"run={public_id}" for public_id in (ids if kind == "comparison" else ids[:1]))]
    )
    digest = client.get(f"/shares/new?{query}").text.partition('name="digest" value="')[2].partition('"')[0]
    fields: dict[str, Any] = {"kind": kind, "run": ids if kind == "comparison" else ids[:1], "digest": digest}
    shares = client.post("/shares", data=fields).text
    slug = shares.partition('href="/s/')[2].partition('"')[0]
    check(ShareDocument, client.get(f"/s/{slug}.json").json())
