"""No page leaves a Chinese reader alone with English: walked over runs that failed, warn and are flagged."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app import files
from app.db import Database, migrate
from app.hardware import bandwidth as memory_bandwidth
from app.metrics import FLAGS
from app.runner import evidence
from app.samples import Point, Sample, Status
from app.settings import Settings
from tests.everywhere import add_share, addresses
from tests.many import add_many
from tests.seed import made_sample
from tests.web import reading
from tests.web.notebook import add_run, pages

CHINESE = {"accept-language": "zh-TW"}


@dataclass(frozen=True)
class Notebook:
    client: TestClient
    paths: dict[str, str]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    settings = Settings(data_dir=Path(tmp_path_factory.mktemp("chinese")))
    database = Database(settings.effective_database_url)
    migrate(database, files.MIGRATIONS)
    with database.write() as session:
        add_many(session, 200)
        share = add_share(session)
    with database.read() as session:
        paths = addresses(session, share)
    paths |= {f"run, {what}": f"/runs/{public_id}" for what, public_id in _troubled(database).items()}
    database.dispose()
    with pages(settings) as client:
        yield Notebook(client, paths)


def _sample(ordinal: int, flag: str = "", error: str | None = None) -> Sample:
    made = made_sample(ordinal, Point(512, 128), 500.0, 50.0)
    status = Status.INCOMPLETE if error else Status.OK
    return replace(made, trace=replace(made.trace, status=status, error=error), flags=(flag,) if flag else ())


def _troubled(database: Database) -> dict[str, str]:
    lost = "The connection was lost after 3 token events."
    warnings = [*_remarks(), "The server's log /var/log/llama.log cannot be read: Permission denied."]
    taken = [_sample(0), *(_sample(n, flag) for n, flag in enumerate(FLAGS, 1)), _sample(50, error=lost)]
    told = evidence.after({"warnings": warnings}, taken, None, None, counted=[])
    return {
        "flagged": add_run(database, taken, evidence=told),
        "failed": add_run(database, status="failed", error=lost),
    }


def _remarks() -> list[str]:
    reading = memory_bandwidth.Reading(3e9, 2e9, 4, 20, 2**30, (), 1.6, 0.4)
    return memory_bandwidth.remarks(reading)


def test_no_page_speaks_english(notebook: Notebook) -> None:
    left = {}
    for name, path in notebook.paths.items():
        answer = notebook.client.get(path, headers=CHINESE)
        assert answer.status_code == 200, path
        if answer.headers["content-type"].startswith("text/html") and (found := reading.english(answer.text)):
            left[name] = found
    assert left == {}
