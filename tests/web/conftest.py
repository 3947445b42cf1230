from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from app.core.settings import Settings
from app.db import machines, servers
from app.db.database import Database
from app.measure.runner import Runner
from app.web import create_app
from tests.replay import Replay, capture, serve
from tests.seed import seed
from tests.web.notebook import BASE_URL, check_documents

API_KEY = "sk-never-to-be-seen-1234567890"


class WaitingRunner(Runner):
    """The real one, but no worker ever starts: a queued run stays queued."""

    def dispatch(self) -> None: ...

    def watch(self) -> None: ...


@contextmanager
def browser(settings: Settings, database: Database, *, has_origin: bool = True) -> Iterator[TestClient]:
    """A browser on Roofmark's own pages, or with `has_origin=False` a program."""
    web = create_app(settings, WaitingRunner(database, settings))
    headers = {"origin": BASE_URL, "sec-fetch-site": "same-origin"} if has_origin else {}
    with TestClient(web, base_url=BASE_URL, headers=headers) as client:
        check_documents(client, web)
        yield client


@pytest.fixture
def client(settings: Settings, database: Database) -> Iterator[TestClient]:
    with browser(settings, database) as client:
        yield client


@pytest.fixture
def run(database: Database) -> str:
    """A run of Qwen3-30B-A3B in Q8_0 on one card of 256 GB/s and 59 TFLOP/s."""
    with database.write() as session:
        return seed(session, runs=1, configs_used=1, detailed=1)[0]


@pytest.fixture
def llama() -> Iterator[Replay]:
    """A llama.cpp server as far as probing asks it."""
    names = {"/props": "get_props", "/v1/models": "get_models", "/health": "get_health", "/slots": "get_slots_idle"}
    with serve({path: capture("llama.cpp", name) for path, name in names.items()}) as replay:
        yield replay


@pytest.fixture
def server(database: Database) -> str:
    """Slug of a server with a context of 4,096 tokens; nothing listens at its address."""
    with database.write() as session:
        machine = machines.add_machine(session, "strix-halo")
        assert machine.id is not None
        facts = {"engine": "llama.cpp", "context_tokens": 4096, "models": [], "settings": {"context": 4096}}
        added = servers.add_server(session, machine.id, "llama", "llama.cpp", "http://127.0.0.1:9", facts=facts)
        return added.slug
