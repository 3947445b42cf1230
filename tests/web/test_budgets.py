"""What a page may cost, whatever there is in the database: how many queries it asks, and how much it sends."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import event
from starlette.testclient import TestClient

from app.core import files
from app.core.settings import Settings
from app.db import machines
from app.db.database import Database
from app.db.migrate import migrate
from tests.everywhere import add_share, addresses
from tests.many import add_many
from tests.web.notebook import pages

RUNS = 3_000
MOST_QUERIES, MOST_BYTES = 20, 300_000


class Notebook(NamedTuple):
    client: TestClient
    database: Database
    paths: dict[str, str]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    settings = Settings(data_dir=Path(tmp_path_factory.mktemp("many")))
    database = Database(settings.effective_database_url)
    migrate(database, files.MIGRATIONS)
    with database.write() as session:
        for number in range(12):  # what is asked for each of them is asked too often
            machines.add_machine(session, f"spare {number}")
        ids = add_many(session, RUNS)
        share = add_share(session)
    assert len(ids) == RUNS
    with database.read() as session:
        paths = addresses(session, share)
    database.dispose()
    with pages(settings) as client:
        yield Notebook(client, client.app.state.database, paths)  # type: ignore[attr-defined]  # it is a FastAPI


def test_no_page_asks_many_queries(notebook: Notebook) -> None:
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        asked.append(statement)

    event.listen(notebook.database.engine, "before_cursor_execute", note)
    counts = {}
    for name, path in notebook.paths.items():
        asked.clear()
        assert notebook.client.get(path).status_code == 200, path
        counts[name] = sum(statement != "BEGIN" for statement in asked)
    event.remove(notebook.database.engine, "before_cursor_execute", note)
    assert {name: count for name, count in counts.items() if count > MOST_QUERIES} == {}


def test_no_page_sends_much(notebook: Notebook) -> None:
    sent = {}
    for name, path in notebook.paths.items():
        answer = notebook.client.get(path)
        is_compressed = answer.headers.get("content-encoding") == "gzip"
        assert is_compressed or len(answer.content) < 1000, path
        sent[name] = int(answer.headers["content-length"])
    assert {name: n_bytes for name, n_bytes in sent.items() if n_bytes > MOST_BYTES} == {}


def test_tables_of_charts_end_somewhere_and_say_where_the_rest_is(notebook: Notebook) -> None:
    history = notebook.client.get(notebook.paths["history"]).text
    assert re.search(r"The newest \d\d of [\d,]{3,} runs", history)  # of each machine
    explorer = notebook.client.get(notebook.paths["explore every run by day"]).text
    assert "The first 200 of 2," in explorer
    assert "CSV and JSON hold all of them" in explorer


def test_lists_are_the_same_however_they_are_read(notebook: Notebook) -> None:
    """Sorted by a number that runs may lack, page by page: every run once, those without one last."""
    ids: list[str] = []
    values: list[float | None] = []
    for page in range(1, 8):
        document = notebook.client.get(f"/api/v1/runs?sort=decode&per_page=500&page={page}").json()
        ids += [run["id"] for run in document["runs"]]
        values += [(run["decode_tokens_per_s"] or {}).get("value") for run in document["runs"]]
    assert len(ids) == len(set(ids)) == document["total"] == RUNS
    known_values = [value for value in values if value is not None]
    assert values == [*sorted(known_values, reverse=True), *[None] * (RUNS - len(known_values))]
    assert 0 < len(known_values) < RUNS


def test_a_stream_is_not_compressed(notebook: Notebook) -> None:
    public_id = notebook.paths["run"].rpartition("/")[2]
    answer = notebook.client.get(f"/runs/{public_id}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "content-encoding" not in answer.headers
