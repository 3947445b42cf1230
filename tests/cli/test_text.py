"""Runs as a terminal shows them."""

from datetime import timedelta
from typing import Any

import pytest

from app.cli.show import list_them
from app.cli.text import run_text
from app.db import Database
from app.document import run_document
from app.samples import Point
from app.settings import Settings
from app.store import configs
from app.store.filters import Filter
from tests.seed import START, _setups, made_sample, seed
from tests.web.notebook import add_run


def document(database: Database, public_id: str) -> dict[str, Any]:
    with database.read() as session:
        return run_document(session, public_id)


@pytest.fixture
def two(database: Database) -> tuple[str, str]:
    """Two runs of one server, the second with another configuration."""
    with database.write() as session:
        seed(session, runs=1, configs_used=1)
        other = configs.freeze(session, 1, _setups()[1].snapshot, {}, "").id
    taken = [[made_sample(n, Point(512, 64), ttft, 50.0) for n in range(3)] for ttft in (500.0, 400.0)]
    later = START + timedelta(days=200)
    return (
        add_run(database, taken[0], suite_sha256="a" * 64),
        add_run(database, taken[1], suite_sha256="a" * 64, config_id=other, started_at=later, note="night shift"),
    )


def test_configuration_changes_and_note_are_printed(database: Database, two: tuple[str, str]) -> None:
    said = run_text(document(database, two[1]))
    assert "Configuration: Context 8,192, Cards 1" in said
    assert "Changed: Q8_0 → Q4_K_M; Context 4,096 → 8,192" in said
    assert "TTFT     500 → 400 ms, −20 %" in said
    assert f"compared with run {two[0]}" in said
    assert "Note: night shift" in said


def test_the_document_says_what_changed_and_what_was_before(database: Database, two: tuple[str, str]) -> None:
    first, second = (document(database, public_id)["run"] for public_id in two)
    assert (first["changes"], first["previous"]) == (None, None)
    assert second["changes"] == ["Q8_0 → Q4_K_M", "Context 4,096 → 8,192"]
    assert second["previous"]["id"] == two[0]
    assert second["previous"]["triple"]["ttft_ms"]["value"] == 500


def test_the_list_tells_configurations_apart_and_shows_notes(
    settings: Settings, database: Database, two: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("app.cli.common.Settings", lambda: settings)
    list_them(Filter(), "queued", True, 1, 50, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert "Configuration" in lines[0]
    assert lines[0].endswith("Note")
    (line,) = (line for line in lines if two[1] in line)
    assert line.endswith("night shift")
