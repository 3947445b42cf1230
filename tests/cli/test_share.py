"""`roofmark share`: a link, a file, or a post."""

from pathlib import Path

import pytest
from sqlmodel import select
from typer.testing import CliRunner, Result

from app.cli import app
from app.db import Database
from app.models import Share
from app.settings import Settings
from app.store import annotations
from tests.seed import seed


@pytest.fixture
def run_id(database: Database) -> str:
    with database.write() as session:
        public_id = seed(session, runs=2, configs_used=1, detailed=2)[0]
        annotations.edit_note(session, public_id, "Fans at 80 %")
        return public_id


@pytest.fixture(autouse=True)
def _own_data(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings.as_environment().items():
        monkeypatch.setenv(name, value)


def roofmark(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["share", *arguments])


def shares(database: Database) -> list[Share]:
    with database.read() as session:
        return list(session.exec(select(Share)).all())


def test_a_link_is_printed_by_its_path(database: Database, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFMARK_ROOT_PATH", "roofmark")
    result = roofmark(run_id, "--title", "My rig", "--include", "note")
    assert result.exit_code == 0
    (share,) = shares(database)
    assert result.stdout == f"/roofmark/s/{share.slug}\n"
    assert share.title == share.snapshot["title"] == "My rig"
    assert share.snapshot["prose"] == [{"title": "Note", "text": "Fans at 80 %"}]


def test_several_runs_are_compared(database: Database, run_id: str) -> None:
    result = roofmark(run_id, "seed000001")
    assert result.exit_code == 0
    (share,) = shares(database)
    assert share.kind == "comparison"


def test_a_file_and_a_post_make_no_link(database: Database, run_id: str, tmp_path: Path) -> None:
    path = tmp_path / "shared.html"
    result = roofmark(run_id, "--html", str(path), "--markdown")
    assert result.exit_code == 0
    assert "| Decode | " in result.stdout
    assert "Fans" not in result.stdout
    assert path.read_text().startswith("<!doctype html>")
    assert shares(database) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonesuch"], "There is no run"),
        (["{run}", "--include", "all"], "'all' is not one of them"),
        (["{run}", "--html", "/nonesuch/x.html"], "cannot be written"),
        (["{run}", "--title", "x" * 201], "longer than 200"),
    ],
)
def test_what_cannot_be_shared_is_one_sentence(run_id: str, arguments: list[str], said: str) -> None:
    result = roofmark(*(each.replace("{run}", run_id) for each in arguments))
    assert said in str(result.exception)
