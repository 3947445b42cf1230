"""Labels, hiding and deleting from a terminal."""

import pytest
from typer.testing import CliRunner, Result

from app.cli import app
from app.db import Database
from app.errors import BadInput, NotFound
from app.models import Run
from app.settings import Settings
from app.store import runs
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
