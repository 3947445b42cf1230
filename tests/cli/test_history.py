"""Engine updates and notes from a terminal."""

import json
from pathlib import Path

import pytest

from app.db import machines
from app.db.database import Database
from tests.cli.processes import Roofmark
from tests.year import seed_year


@pytest.fixture
def cli_database(roofmark: Roofmark, tmp_path: Path) -> Database:
    """The database of `roofmark`."""
    return Database(f"sqlite:///{tmp_path / 'data' / 'roofmark.db'}")


def test_updates_are_listed_with_what_they_changed(roofmark: Roofmark, cli_database: Database) -> None:
    with cli_database.write() as session:
        seed_year(session)
    newest, *_ = lines = roofmark("updates", "--machine", "strix-halo").stdout.splitlines()
    assert len(lines) == 7
    assert newest.startswith(
        "19 October 2026  strix-halo  llama.cpp b8177 → b8342: no certain change  (roofmark compare "
    )
    assert any(
        "3 June 2026  strix-halo  llama.cpp b7689 → b7841: decode 7.7 % slower on 3 models" in line for line in lines
    )
    june = roofmark("updates", "--since", "2026-06-01", "--until", "2026-06-04", "--json")
    (update,) = json.loads(june.stdout)["updates"]
    (shift,) = update["shifts"]
    assert (update["summary"], update["series"], shift["metric"]) == (
        "llama.cpp b7689 → b7841: decode 7.7 % slower on 3 models",
        12,
        "decode_tokens_per_s",
    )
    assert shift["low"] < 0.92 < shift["high"]
    assert len(shift["models"]) == 3


def test_notes_are_added_listed_and_deleted(roofmark: Roofmark, cli_database: Database) -> None:
    assert "No note yet" in roofmark("note", "list").stderr
    with cli_database.write() as session:
        machines.add_machine(session, "box")
    assert roofmark("note", "add", "new PSU", "--at", "2026-06-03", "--machine", "box").stdout == (
        "Note 1: new PSU, 3 June 2026.\n"
    )
    roofmark("note", "add", "dusted", "--at", "2026-05-01")
    assert roofmark("note", "list").stdout == "2  2026-05-01  all machines  dusted\n1  2026-06-03  box  new PSU\n"
    notes = json.loads(roofmark("note", "list", "--json").stdout)["notes"]
    assert notes[1] == {"id": 1, "at": "2026-06-03T12:00:00+00:00", "machine": "box", "text": "new PSU"}
    roofmark("note", "delete", "2")
    assert "dusted" not in roofmark("note", "list").stdout
    assert roofmark("note", "add", "x", "--at", "then").returncode == 2
    assert roofmark("note", "add", "x", "--at", "2026-05-01", "--machine", "nonesuch").returncode == 2
