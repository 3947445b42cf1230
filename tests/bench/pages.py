"""Pages over a full notebook, beside the very SQL statements that they execute, run bare on the driver."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import event
from starlette.testclient import TestClient

from app import files
from app.db import Database, migrate
from app.settings import Settings
from app.store.subjects import samples_by_run
from app.web import create_app
from tests.bench.table import Figure, at_most, in_turn
from tests.seed import seed

RUNS = 10_000
ROUNDS = 7
PAGES = {"history": "/history", "overview": "/", "runs": "/runs", "explorer": "/explore"}
COMPARED = range(RUNS - 8, RUNS)
COMPARISON = "/compare?" + "&".join(f"run=seed{number:06d}" for number in COMPARED)


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder))
        database = Database(settings.effective_database_url)
        migrate(database, files.MIGRATIONS)
        with database.write() as session:
            seed(session, runs=RUNS)
        app = create_app(settings)
        with TestClient(app, base_url="http://127.0.0.1:8765") as client:
            for name, path in PAGES.items():
                yield _page(f"{name} page with {RUNS:,} runs, beside its bare SQL", client, app.state.database, path)
            yield _comparison(client, app.state.database)
        database.dispose()


def _page(what: str, client: TestClient, database: Database, path: str) -> Figure:
    statements: list[tuple[str, Any]] = []

    def note(_c: object, _cursor: object, statement: str, parameters: Any, _x: object, _many: object) -> None:
        statements.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", note)
    assert client.get(path).status_code == 200
    event.remove(database.engine, "before_cursor_execute", note)
    selects = [each for each in statements if each[0].lstrip().upper().startswith("SELECT")]

    def page_s() -> float:
        began = time.perf_counter()
        client.get(path)
        return time.perf_counter() - began

    def sql_s() -> float:
        with database.engine.connect() as connection:
            cursor = connection.connection.cursor()
            began = time.perf_counter()
            for statement, parameters in selects:
                cursor.execute(statement, parameters)
                cursor.fetchall()
            return time.perf_counter() - began

    page, sql = in_turn(page_s, sql_s, ROUNDS)
    return at_most(f"{what} ({len(selects)} queries)", page * 1000, sql * 1000, "ms", 3)


def _comparison(client: TestClient, database: Database) -> Figure:
    """It computes from raw events, so its yardstick is to read and unpack these."""

    def page_s() -> float:
        began = time.perf_counter()
        assert client.get(COMPARISON).status_code == 200
        return time.perf_counter() - began

    def samples_s() -> float:
        began = time.perf_counter()
        with database.read() as session:
            # ids are given in the order of the runs
            assert len(samples_by_run(session, {number + 1 for number in COMPARED})) == len(COMPARED)
        return time.perf_counter() - began

    page, samples = in_turn(page_s, samples_s, ROUNDS)
    what = f"compare page of {len(COMPARED)} runs, beside reading and unpacking their samples"
    return at_most(what, page * 1000, samples * 1000, "ms", 4)
