"""Pages over a notebook with runs in it; no worker is ever started."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from html import unescape
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from sqlmodel import Session, select

from app.core.errors import Conflict
from app.core.samples import Sample
from app.core.settings import Settings
from app.db import measurements, samples
from app.db.database import Database
from app.db.tables import Config, Run, Server, now
from app.web import create_app

BASE_URL = "http://127.0.0.1:8765"


class IdleRunner:
    """Remembers what it was asked for and does nothing."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    def cancel(self, public_id: str) -> None:
        if public_id == "ended":
            raise Conflict("The run has ended already: it is done.")
        self.cancelled.append(public_id)

    def dispatch(self) -> None: ...

    def watch(self) -> None: ...

    def stop_watching(self) -> None: ...


@contextmanager
def pages(settings: Settings, *, are_documents_checked: bool = True) -> Iterator[TestClient]:
    runner: Any = IdleRunner()
    web = create_app(settings, runner)
    with TestClient(web, base_url=BASE_URL, headers={"origin": BASE_URL}) as client:
        if are_documents_checked:
            check_documents(client, web)
        yield client


def check_documents(client: TestClient, web: FastAPI) -> None:
    """Holds every JSON document that the client gets against the model of its route."""
    client.event_hooks = {"response": [partial(_check_document, web)]}


def _check_document(web: FastAPI, response: Any) -> None:
    if not response.is_success or response.headers.get("content-type") != "application/json":
        return
    path, method = response.request.url.path, response.request.method
    for route in web.routes:
        if isinstance(route, APIRoute) and method in (route.methods or ()) and route.path_regex.fullmatch(path):
            if route.response_model is not None:
                route.response_model.model_validate_json(response.read())
            return


def text_of(page: str) -> str:
    """What a reader reads: no tags, single spaces."""
    without_scripts = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", without_scripts)))


def read(client: TestClient, public_id: str) -> str:
    answer = client.get(f"/runs/{public_id}")
    assert answer.status_code == 200
    return text_of(answer.text)


def add_run(database: Database, samples: Sequence[Sample] = (), status: str = "done", **fields: Any) -> str:
    """A run of the first server and configuration with these samples; gives its public id."""
    with database.write() as session:
        server, config = session.exec(select(Server)).first(), session.exec(select(Config)).first()
        assert server is not None
        assert config is not None
        begun = now() - timedelta(minutes=1)
        values: dict[str, Any] = {
            "machine_id": server.machine_id,
            "server_id": config.server_id,
            "config_id": config.id,
            "suite_key": "triple",
            "suite_sha256": "0" * 64,
            "status": status,
            "main_point_key": samples[0].point.key if samples else "512/128/1/0",
            "samples_planned": 6,
            "samples_done": len(samples),
            "queued_at": begun,
            "started_at": None if status == "queued" else begun,
            "finished_at": None if status in ("queued", "running") else now(),
        }
        run = Run(**{**values, **fields})
        _store(session, run, samples)
        return run.public_id


def _store(session: Session, run: Run, run_samples: Sequence[Sample]) -> None:
    session.add(run)
    session.flush()
    assert run.id is not None
    for sample in run_samples:
        samples.add_sample(session, run.id, sample, now())
    measurements.derive(session, run.id)


def listed(page: str) -> list[str]:
    table = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return re.findall(r'<th scope="row"[^>]*><a href="/runs/(\w+)"', table)
