"""What a run reads from the process of its server, and what it notices of a restart."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from app.cli.measure import restart_question
from app.core.secrets import Secrets
from app.core.settings import Settings
from app.db import restarts, runs, servers
from app.db.database import Database
from app.db.tables import Config, Run, Server
from app.measure.runner import Runner
from app.results.previous import previous
from tests.llama_server import llama_server
from tests.ports import free_port
from tests.runner.conftest import add_server, run_named
from tests.runner.listeners import silent
from tests.written_process import written_process

SECRET = "s3cr3t-of-the-owner"


def everything_stored(database: Database) -> str:
    """All that the database says of servers, configurations and runs."""
    with database.read() as session:
        rows = [
            row.model_dump(mode="json") for table in (Server, Config, Run) for row in session.exec(select(table)).all()
        ]
    return json.dumps(rows)


@pytest.mark.engine
def test_a_restart_with_other_flags_is_another_configuration_and_the_change_is_named(
    database: Database, settings: Settings, runner: Runner, short_suite: str, tmp_path: Path
) -> None:
    port = free_port()
    with llama_server(tmp_path, f"-ctk q8_0 -ctv q8_0 -t 2 -b 512 --api-key {SECRET}", port=port) as url:
        slug = add_server(database, url, "llama.cpp")
        with database.write() as session:
            servers.edit_server(session, slug, api_key_encrypted=Secrets(settings).encrypt(SECRET))
        first, again = (runner.perform(slug, short_suite, silent) for _ in range(2))
    with llama_server(tmp_path, "-t 1 -ub 256", port=port, environment={"HF_TOKEN": SECRET}) as url:
        second = runner.perform(slug, short_suite, silent)
    one, same, other = (run_named(database, public_id) for public_id in (first, again, second))
    assert [one.status, same.status, other.status] == ["done"] * 3, (one.error, other.error)
    assert one.config is not None
    assert other.config is not None
    assert one.config.settings | {"kv_type_k": "q8_0", "kv_type_v": "q8_0", "threads": 2, "batch": 512} == (
        one.config.settings
    )
    assert other.config.settings | {"kv_type_k": "f16", "threads": 1, "batch": 2048, "ubatch": 256} == (
        other.config.settings
    )
    assert one.config_id == same.config_id != other.config_id
    for config in (one.config, other.config):
        assert not restarts.unknown_settings(config.settings), "a process that was seen leaves nothing unknown"
    with database.read() as session:
        changes = previous(session, runs.run(session, second))
    assert changes is not None
    assert {"KV cache type K q8_0 → f16", "Threads 2 → 1", "Batch 512 → 2,048"} <= set(changes.changes)
    assert one.evidence["process"] == same.evidence["process"] != other.evidence["process"]
    assert restarts.was_restarted(same.evidence, other.evidence)
    assert "restart" not in other.evidence, "nothing is unknown, so nothing is asked"
    assert any(check.startswith("Read from how the server's process") for check in one.evidence["checks"])
    assert SECRET not in everything_stored(database)
    logged: list[Any] = [path.read_text(errors="replace") for path in settings.data_dir.rglob("*.log")]
    assert not [text for text in logged if SECRET in text]


@contextmanager
def written_server(folder: Path, port: int, flags: str) -> Iterator[str]:
    with written_process(folder, "llama-server", f"--port {port} {flags}", answers_as="llama.cpp"):
        yield f"http://127.0.0.1:{port}"


def test_a_restart_with_unknown_settings_is_asked_about_once(
    database: Database, runner: Runner, short_suite: str, tmp_path: Path
) -> None:
    port, ids = free_port(), []
    for flags, runs_of_it in (("-t 2 --my-own-patch 1", 1), ("-t 2 --my-own-patch 2", 2)):
        with written_server(tmp_path, port, flags) as url:
            slug = slug_of(database, url)
            ids += [runner.perform(slug, short_suite, silent, repetitions=1, warmups=0) for _ in range(runs_of_it)]
    before, after, again = (run_named(database, public_id) for public_id in ids)
    assert {run.status for run in (before, after, again)} == {"done"}
    assert not restarts.question(before), "nothing was measured before it"
    assert not restarts.question(again), "it is asked once for each restart"
    assert {"kv_type_k", "batch", "flash_attention"} <= set(restarts.question(after))
    assert not {"threads", "context", "parallel"} & set(restarts.question(after))
    assert "The engine was restarted since the last run" in str(restart_question(after))
    assert restart_question(again) is None
    with database.write() as session:
        restarts.answer(session, after.public_id, {"kv_type_k": "q8_0"})
    before, after, again = (run_named(database, public_id) for public_id in ids)
    assert before.config_id != after.config_id == again.config_id
    assert after.config is not None
    assert after.config.settings["kv_type_k"] == "q8_0"


def test_what_a_person_stated_yields_to_the_command_line_and_the_run_says_so(
    database: Database, runner: Runner, short_suite: str, tmp_path: Path
) -> None:
    with written_server(tmp_path, free_port(), "-t 2 -c 9000") as url:
        slug = slug_of(database, url)
        with database.write() as session:
            servers.edit_server(session, slug, settings={"threads": 6, "cards": 2, "kv_type_k": "q8_0"})
        run = run_named(database, runner.perform(slug, short_suite, silent, repetitions=1, warmups=0))
    assert run.config is not None
    stored = run.config.settings
    assert (stored["threads"], stored["kv_type_k"], stored["cards"]) == (2, "f16", 2)
    assert stored["context"] == 4096, "what the server reports outranks its command line"
    assert "Threads: the command line of the server says 2, not the stated 6." in run.evidence["warnings"]
    assert not [warning for warning in run.evidence["warnings"] if warning.startswith("GPUs")]


def slug_of(database: Database, url: str) -> str:
    with database.read() as session:
        server = servers.server_at(session, url)
    return server.slug if server is not None else add_server(database, url, "llama.cpp")
