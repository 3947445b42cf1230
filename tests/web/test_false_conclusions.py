"""Notebooks that allow no conclusion: no page may draw one."""

import random
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.core.config_settings import SETTINGS
from app.core.configuration import Snapshot
from app.core.errors import Conflict
from app.db import configs, machines, servers
from app.db.database import Database
from app.db.tables import Run, now
from app.results import hardware
from app.results.history.lately import recent_changes
from app.results.leaderboard import LeaderboardView, leaderboard, verdict_words
from app.suites import BUILT_IN
from tests.seed import accelerator, geometry_json, made_run, triple
from tests.web.notebook import text_of

ALL_KNOWN = {key: 1 for key, setting in SETTINGS.items() if setting.is_always_set}
MODELS = ("Qwen3-30B-A3B", "Gemma-3-27B", "Llama-3.1-8B")
CARD = accelerator("RTX 4090", 1, 24, 1008, 165)


class Notebook:
    """One machine with one server, whose runs are made one by one."""

    def __init__(self, database: Database, seed: int = 5) -> None:
        self._database, self._chance, self._count = database, random.Random(seed), 0
        with database.write() as session:
            machine = machines.add_machine(session, "box", accelerators=[CARD])
            server = servers.add_server(session, machine.id or 0, "box", "llama.cpp", "http://192.168.1.20:8080")
            self._machine, self._server = machine.slug, server.slug

    def run(
        self,
        days_ago: float,
        decode: float = 50,
        *,
        build: str = "b1",
        model: str = MODELS[0],
        settings: Mapping[str, Any] = ALL_KNOWN,
        deviation: float = 0.005,
        has_hardware: bool = True,
    ) -> str:
        self._count += 1
        suite = BUILT_IN["triple"]
        with self._database.write() as session:
            server = servers.server(session, self._server)
            snapshot = Snapshot("llama.cpp", build, model, "Q4_K_M", dict(settings))
            config = configs.freeze(session, server.id or 0, snapshot, geometry_json(snapshot), "")
            started = now() - timedelta(days=days_ago)
            run: Run = made_run(server, config.id, suite, started, f"run{self._count:04}")
            session.add(run)
            session.flush()
            run.machine = machines.machine(session, self._machine)
            if has_hardware:
                run.hardware = hardware.freeze(session, run)
            session.add_all(triple(run, suite.cases[0], 500, decode, self._chance, deviation))
            return run.public_id

    def change_card(self) -> None:
        with self._database.write() as session:
            machines.edit_machine(session, self._machine, accelerators=[accelerator("RTX 5090", 1, 32, 1790, 400)])

    def board_words(self) -> list[str]:
        with self._database.read() as session:
            return verdict_words(leaderboard(session, LeaderboardView()))

    def recent(self) -> list[str]:
        with self._database.read() as session:
            return [change.sentence for change in recent_changes(session, now(), {"llama.cpp": "llama.cpp"})]


@pytest.fixture
def notebook(database: Database) -> Notebook:
    return Notebook(database)


def are_worse(words: Iterable[str]) -> bool:
    return any("did better before" in sentence for sentence in words)


def test_one_run_with_a_new_build_makes_no_configuration_worse(notebook: Notebook) -> None:
    for day in range(10, 5, -1):
        notebook.run(day)
    notebook.run(3, 28, build="b2")
    assert not are_worse(notebook.board_words())
    assert notebook.recent() == []
    for _ in range(3):
        notebook.run(1, 28, build="b2")
    assert are_worse(notebook.board_words())


def test_one_lucky_run_makes_no_other_configuration_worse(notebook: Notebook) -> None:
    notebook.run(20, 90, build="b0")
    for day in range(10, 5, -1):
        notebook.run(day)
    assert not are_worse(notebook.board_words())


def test_a_busy_machine_with_many_models_calls_none_of_them_worse(database: Database) -> None:
    notebook = Notebook(database, seed=4)
    for build, days_ago in (("b1", 20), ("b2", 10)):
        for day in range(4):
            for model in MODELS:
                notebook.run(days_ago - day, build=build, model=model, deviation=0.05)
    assert not are_worse(notebook.board_words())
    assert notebook.recent() == []


def test_of_an_update_taken_back_and_made_again_the_last_time_counts(notebook: Notebook) -> None:
    for place, (build, decode) in enumerate((("b1", 50), ("b2", 46), ("b1", 50), ("b2", 46))):
        for day in range(4):
            for model in MODELS:
                notebook.run(28 - 5 * place - day, decode, build=build, model=model)
    (sentence,) = notebook.recent()
    assert re.fullmatch(r"llama\.cpp b1 → b2: decode [78]\.\d % slower on 3 models", sentence)


def test_an_update_with_unknown_settings_is_not_called_the_only_change(client: TestClient, notebook: Notebook) -> None:
    for build, decode, days_ago in (("b1", 50, 20), ("b2", 40, 10)):
        for day in range(4):
            for model in MODELS:
                notebook.run(days_ago - day, decode, build=build, model=model, settings={"context": 4096})
    assert notebook.recent()[0].endswith("slower on 3 models, no other known change")
    for path in ("/", "/history"):
        assert "no other known change" in text_of(client.get(path).text)


def test_unknown_hardware_may_have_changed(client: TestClient, notebook: Notebook) -> None:
    for days_ago in (3, 2):
        notebook.run(days_ago, has_hardware=False)
    page = text_of(client.get("/").text)
    assert "with nothing changed" not in page
    assert "1 unknown setting may have changed unseen" in page


def test_builds_on_other_hardware_are_no_line_of_builds(notebook: Notebook, database: Database) -> None:
    for day in range(4):
        notebook.run(20 - day)
    notebook.change_card()
    for day in range(4):
        notebook.run(10 - day, 70, build="b2")
    with database.read() as session:
        (row,) = leaderboard(session, LeaderboardView()).rows
    assert [build.version for build in row.builds] == ["b2"]
    assert notebook.recent() == []


def test_no_two_machines_have_one_name(client: TestClient, notebook: Notebook, database: Database) -> None:
    with pytest.raises(Conflict), database.write() as session:
        machines.add_machine(session, "Box")
    with database.write() as session:
        slug = machines.add_machine(session, machines.free_name(session, "box")).slug
    with pytest.raises(Conflict), database.write() as session:
        machines.edit_machine(session, slug, name="box")
    response = client.post("/machines", data={"name": "box"})
    assert response.status_code == 409
    assert "Another machine is called" in response.text
    with database.write() as session:
        machines.edit_machine(session, slug, name=machines.machine(session, slug).name)  # its own
