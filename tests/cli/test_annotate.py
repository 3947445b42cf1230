"""Labels, hiding and deleting from a terminal."""

from unicodedata import category

import pytest
from sqlmodel import select
from typer.testing import CliRunner, Result

from app.cli import app
from app.core.errors import BadInput, NotFound
from app.core.settings import Settings
from app.db import runs
from app.db.database import Database
from app.db.tables import Model, Run, Server
from tests.seed import seed


@pytest.fixture
def public_id(database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ROOFMARK_DATA_DIR", str(settings.data_dir))
    with database.write() as session:
        return seed(session, runs=3, configs_used=1, detailed=3)[-1]


def roofmark(*arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, Exception):
        raise result.exception
    return result


def stored(database: Database, public_id: str) -> Run:
    with database.read() as session:
        return runs.run(session, public_id)


def test_labels_are_added_and_removed(database: Database, public_id: str) -> None:
    assert roofmark("label", public_id, "add", "night", "fans 80 %").stdout == "night, fans 80 %\n"
    roofmark("label", public_id, "add", "night", "late")
    assert stored(database, public_id).labels == ["night", "fans 80 %", "late"]
    roofmark("label", public_id, "remove", "night", "never there")
    assert stored(database, public_id).labels == ["fans 80 %", "late"]
    assert public_id in roofmark("runs", "--label", "late").stdout


def test_a_run_is_hidden_and_comes_back(database: Database, public_id: str) -> None:
    roofmark("hide", public_id, "--reason", "The fans stood still.")
    assert stored(database, public_id).hidden_reason == "The fans stood still."
    (line,) = (line for line in roofmark("runs", "--hidden", "only").stdout.splitlines() if public_id in line)
    assert line.endswith("hidden: The fans stood still.")
    assert "Hidden from statistics: The fans stood still." in roofmark("show", public_id).stdout
    assert public_id not in roofmark("runs", "--hidden", "without").stdout
    roofmark("unhide", public_id)
    assert stored(database, public_id).hidden_at is None


def test_where_nobody_can_be_asked_deleting_needs_yes(database: Database, public_id: str) -> None:
    with pytest.raises(BadInput, match="--yes"):
        roofmark("delete", public_id)
    assert stored(database, public_id).public_id == public_id
    roofmark("delete", public_id, "--yes")
    with pytest.raises(NotFound):
        stored(database, public_id)


def test_a_word_names_the_run_to_change(database: Database, public_id: str) -> None:
    assert roofmark("label", "latest", "add", "night").stdout == "night\n"
    assert stored(database, public_id).labels == ["night"]
    assert f"Run {public_id} is hidden." in roofmark("hide", "latest", "--reason", "The fans stood still.").stdout
    assert roofmark("delete", "latest", "--yes").stdout == "Run seed000001 was deleted.\n"
    with pytest.raises(NotFound):
        roofmark("unhide", "latest")


STEERING = "\x1b]0;title\x07\x1b[2J\x9b1m\r\b"
"""Retitles, clears and recolours a terminal, goes back to the start of the line."""


def test_nothing_that_is_stored_steers_the_terminal(database: Database, public_id: str) -> None:
    with database.write() as session:
        for model in session.exec(select(Model)):
            model.name = f"Qwen{STEERING}"
        for server in session.exec(select(Server)):
            server.name = f"box{STEERING}"
        run = runs.run(session, public_id)
        run.note, run.labels, run.error, run.status = STEERING, [f"night{STEERING}"], STEERING, "done"
    roofmark("baseline", "set", public_id)
    roofmark("hide", public_id, "--reason", f"Fans{STEERING}")
    commands = (
        ["runs", "--hidden", "only"],
        ["show", public_id],
        ["baseline", "list"],
        ["label", public_id, "add", "late"],
        ["compare", "seed000000", "seed000001"],
        ["share", public_id, "--markdown", "--include", "note", "--title", STEERING],
        ["delete", public_id, "--yes"],
    )
    for command in commands:
        result = roofmark(*command)
        output = result.stdout + result.stderr
        assert output.strip(), command
        assert not {letter for letter in output if category(letter) == "Cc"} - {"\n"}, command
