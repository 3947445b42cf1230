"""Every page over a notebook of years, held against its budgets: time, queries, bytes, and memory of the process.

The yardstick of time is bare SQL: the very statements that a page executes, run on the driver. Two kinds of pages have
another one, since bare SQL tells nothing of their work:

* what asks for less SQL than an empty page takes has the empty page: the glossary, which asks for none;
* a run and a comparison compute from raw events: bare SQL, and unpacking the events of the samples that it read.

All runs as CSV have no budget but that of time, and their part in that of memory: their length is that of the notebook,
and they are read and sent block by block.

Answers are kept until something is written, so something is written before each page is asked for: it reads everything
anew. What a choice on an open history costs, first and when it was made before, is measured apart, without that.
"""

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sqlalchemy import event
from sqlmodel import col, select
from starlette.testclient import TestClient

from app.core import files
from app.core.settings import Settings
from app.db.database import Database
from app.db.migrate import migrate
from app.db.samples import samples_of
from app.db.tables import Run
from tests.bench.table import Budget, Figure, at_most, in_turn
from tests.everywhere import add_share, addresses, choices_in_history
from tests.many import add_many
from tests.ports import free_port
from tests.waiting import until
from tests.web.notebook import pages

RUNS = 100_000
"""With about 1,160,000 samples. `BENCH_RUNS` says another number."""
ROUNDS, ROUNDS_OF_QUICK, QUICK_S = 3, 15, 0.2
FACTOR, MOST_QUERIES, MOST_BYTES, MOST_MEMORY = 3, 20, 300_000, 200_000_000
EMPTY = "glossary"
DOWNLOAD = "/runs.csv"
_CHOICE = {"hx-request": "true", "hx-request-type": "partial"}
UNPACKING = ("run", "share, preview", "API run", "compare 2", "compare 3", "compare 8")


def run() -> Iterator[Figure | Budget]:
    runs = int(os.environ.get("BENCH_RUNS", RUNS))
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder))
        database = Database(settings.effective_database_url)
        paths = _filled(database, runs)
        with pages(settings, are_documents_checked=False) as client:  # whose runner asks for nothing meanwhile
            shown = _Pages(client, client.app.state.database)  # type: ignore[attr-defined]  # it is a FastAPI
            with database.read() as session:
                choices = choices_in_history(session)
            yield from shown.choices(f"history, {{}}, {runs:,} runs", choices)
            for name, path in paths.items():
                yield from shown.figures(f"{name}, {runs:,} runs", path, paths[EMPTY], name in UNPACKING)
            yield shown.time(f"runs.csv, {runs:,} runs", DOWNLOAD)
        yield _memory(folder, runs, [*paths.values(), DOWNLOAD])
        database.dispose()


def _filled(database: Database, runs: int) -> dict[str, str]:
    migrate(database, files.MIGRATIONS)
    with database.engine.connect() as connection:  # not every page twice, and nobody else writes
        connection.connection.cursor().execute("PRAGMA journal_mode=OFF")
    with database.write() as session:
        add_many(session, runs)
        share = add_share(session)
    with database.engine.connect() as connection:
        connection.connection.cursor().execute("PRAGMA journal_mode=WAL")
    with database.read() as session:
        return addresses(session, share)


class _Pages:
    def __init__(self, client: TestClient, database: Database) -> None:
        self._client = client
        self._database = database

    def figures(self, what: str, path: str, empty: str, unpacks: bool) -> Iterator[Figure | Budget]:
        selects, n_bytes = self._asked(path)
        rounds = ROUNDS if self.page_s(path) > QUICK_S else ROUNDS_OF_QUICK
        page, sql = in_turn(lambda: self.page_s(path), lambda: self._sql_s(selects), rounds)
        beside = "SQL"
        if unpacks:
            sql, beside = sql + self._unpacking_s(path), "SQL, unpacking"
        if page > FACTOR * sql:
            page, empty_s = in_turn(lambda: self.page_s(path), lambda: self.page_s(empty), rounds)
            if empty_s > sql:
                sql, beside = empty_s, "empty page"
        yield at_most(f"{what}: {beside}", page * 1000, sql * 1000, "ms", FACTOR)
        yield Budget(f"{what}: queries", len(selects), MOST_QUERIES, "")
        yield Budget(f"{what}: compressed", n_bytes / 1000, MOST_BYTES / 1000, "kB")

    def time(self, what: str, path: str) -> Figure:
        """The time alone, of a document that grows with the notebook."""
        selects, _ = self._asked(path)
        page, sql = in_turn(lambda: self.page_s(path), lambda: self._sql_s(selects), ROUNDS)
        return at_most(f"{what}: SQL", page * 1000, sql * 1000, "ms", FACTOR)

    def choices(self, what: str, paths: Sequence[str]) -> Iterator[Figure]:
        """The page is open; each choice is made, and then made again."""
        first, again, bare = [], [], []
        for path in paths:
            selects, _ = self._asked(path)
            for _ in range(ROUNDS):
                self.page_s("/history")
                first.append(self._s(path, _CHOICE))
                again.append(self._s(path, _CHOICE))
                bare.append(self._sql_s(selects))
        sql = statistics.median(bare) * 1000
        for name, choice in (("a new choice", first), ("a choice made before", again)):
            yield at_most(f"{what.format(name)}: SQL", statistics.median(choice) * 1000, sql, "ms", FACTOR)

    def page_s(self, path: str) -> float:
        self._write()
        return self._s(path)

    def _s(self, path: str, headers: Mapping[str, str] | None = None) -> float:
        gc.collect()
        began = time.perf_counter()
        self._client.get(path, headers=headers)
        return time.perf_counter() - began

    def _write(self) -> None:
        """Something that nobody sees."""
        with self._database.write() as session:
            run = session.exec(select(Run).limit(1)).one()
            run.worker_pid = (run.worker_pid or 0) + 1
            session.add(run)

    def _asked(self, path: str) -> tuple[list[tuple[str, Any]], int]:
        """The statements of a page with their parameters, and its length as it is sent."""
        statements: list[tuple[str, Any]] = []

        def note(_c: object, _cursor: object, statement: str, parameters: Any, _x: object, _many: object) -> None:
            statements.append((statement, parameters))

        self._write()
        event.listen(self._database.engine, "before_cursor_execute", note)
        answer = self._client.get(path)
        event.remove(self._database.engine, "before_cursor_execute", note)
        assert answer.status_code == 200, path
        reading = ("SELECT", "(SELECT", "WITH")
        selects = [statement for statement in statements if statement[0].lstrip().upper().startswith(reading)]
        return selects, int(answer.headers.get("content-length", answer.num_bytes_downloaded))

    def _sql_s(self, selects: list[tuple[str, Any]]) -> float:
        self._write()  # as before a page: SQLite lets go of what it had read itself
        with self._database.engine.connect() as connection:
            cursor = connection.connection.cursor()
            began = time.perf_counter()
            for statement, parameters in selects:
                cursor.execute(statement, parameters)
                cursor.fetchall()
            return time.perf_counter() - began

    def _unpacking_s(self, path: str) -> float:
        address = urlsplit(path)
        public_ids = parse_qs(address.query).get("run") or [address.path.rpartition("/")[2]]
        with self._database.read() as session:
            ids = session.exec(select(Run.id).where(col(Run.public_id).in_(public_ids))).all()
            began = time.perf_counter()
            for run_id in ids:
                samples_of(session, run_id or 0)
            return time.perf_counter() - began


def _memory(folder: str, runs: int, paths: list[str]) -> Budget:
    """Of a server that has shown every page, one after the other."""
    port = free_port()
    environment = {**os.environ, "ROOFMARK_DATA_DIR": folder, "ROOFMARK_LOG_LEVEL": "ERROR"}
    command = [sys.executable, "-m", "app", "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        until(lambda: _status(port, "/health") == 200)
        for path in paths:
            assert _status(port, path) == 200, path
        resident = next(
            int(line.split()[1]) * 1024
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if line.startswith("VmRSS")
        )
    finally:
        process.terminate()
        process.wait()
    return Budget(f"web process, {runs:,} runs: memory", resident / 1e6, MOST_MEMORY / 1e6, "MB")


def _status(port: int, path: str) -> int | None:
    connection = HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", path, headers={"accept-encoding": "gzip"})
        answer = connection.getresponse()
        answer.read()
    except OSError:  # the server does not listen yet
        return None
    finally:
        connection.close()
    return answer.status
