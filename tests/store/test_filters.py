"""Which runs a list shows: search and labels, on both databases."""

from typing import Any

import pytest
from sqlmodel import select

from app.core.errors import BadInput
from app.db import annotations
from app.db.database import Database
from app.db.tables import Config
from app.results.run_filter import RunFilter, filter_choices
from app.results.run_list import list_runs
from tests.databases import on_both
from tests.seed import seed

pytestmark = on_both


@pytest.fixture
def ids(database: Database) -> list[str]:
    """Forty runs of seven configurations, oldest first."""
    with database.write() as session:
        return seed(session, runs=40, detailed=1)


def matching_ids(database: Database, **where: Any) -> list[str]:
    with database.read() as session:
        rows, total = list_runs(session, RunFilter(**where), per_page=100)
    assert len(rows) == total
    return [row.public_id for row in rows]


def test_what_a_person_wrote_is_found(database: Database, ids: list[str]) -> None:
    with database.write() as session:
        annotations.edit_note(session, ids[3], "Fans at 80 %, side panel off; 80_% and a\\b, 100 % sure")
        annotations.set_labels(session, ids[3], ["Nachtlauf", "zweite Karte", "夜間測試"])
    for text in ("FANS at 80", "80_%", "100 % sure", "a\\b", "PANEL side", "nachtLAUF", "zweite", "夜間測試"):
        assert matching_ids(database, text=text) == [ids[3]], text


def test_signs_of_a_pattern_are_only_signs(database: Database, ids: list[str]) -> None:
    with database.write() as session:
        annotations.edit_note(session, ids[3], "fans and panel, 100 sure")
    for text in ("%", "100_sure", "fans%panel", "\\", "/"):
        assert matching_ids(database, text=text) == [], text


def test_each_word_may_stand_somewhere_else(database: Database, ids: list[str]) -> None:
    with database.write() as session:
        annotations.edit_note(session, ids[-1], "after the new fans")
    with database.read() as session:
        (row,) = [row for row in list_runs(session, per_page=100)[0] if row.public_id == ids[-1]]
    assert matching_ids(database, text=f"fans {row.model} {row.machine}") == [ids[-1]]
    assert matching_ids(database, text=f"fans {row.model} nonesuch") == []


MEASURED: list[tuple[str, Any]] = [
    ("llama-3.3", lambda row: row.model == "Llama-3.3-70B"),
    ("iq2", lambda row: False),
    ("mxfp4", lambda row: row.quantization == "MXFP4"),
    ("strix", lambda row: row.machine == "strix-halo"),
    ("8081", lambda row: row.server == "2×3090 8081"),
    ("OPENAI", lambda row: row.engine == "openai"),
    ("b6400", lambda row: row.engine_version == "b6400"),
    ("65536", lambda row: (row.settings or {}).get("context") == 65536),
    ("q8_0", lambda row: row.quantization == "Q8_0" or "q8_0" in (row.settings or {}).values()),
    ("night", lambda row: "night" in (row.labels or [])),
]


def test_what_was_measured_is_found(database: Database, ids: list[str]) -> None:
    with database.read() as session:
        rows, _ = list_runs(session, per_page=100)
    for text, of in MEASURED:
        expected = [row.public_id for row in rows if of(row)]
        assert len(expected) < len(ids), text
        assert matching_ids(database, text=text) == expected, text


def test_a_configurations_note_finds_all_of_its_runs(database: Database, ids: list[str]) -> None:
    with database.write() as session:
        config = session.exec(select(Config).where(Config.engine_version == "b6400")).first()
        assert config is not None
        config.note = "with the new kernels"
        session.add(config)
        fingerprint = config.fingerprint
    assert matching_ids(database, text="kernels") == matching_ids(database, config=fingerprint) != []


def test_a_label_is_of_the_run_or_of_its_configuration(database: Database, ids: list[str]) -> None:
    of_config = matching_ids(database, label="night")
    assert of_config
    with database.write() as session:
        annotations.set_labels(session, ids[0], ["night", 'a "b" \\ ü'])
    assert set(matching_ids(database, label="night")) == {*of_config, ids[0]}
    assert matching_ids(database, label='a "b" \\ ü') == [ids[0]]
    assert matching_ids(database, label="nigh") == []
    with database.read() as session:
        assert filter_choices(session)["label"] == [(label, label) for label in ['a "b" \\ ü', "night"]]


def test_hidden_runs_are_listed_with_the_others_or_apart(database: Database, ids: list[str]) -> None:
    with database.write() as session:
        annotations.hide(session, ids[5], "Something else was running.")
    assert matching_ids(database) == ids[::-1]
    assert matching_ids(database, hidden="only") == [ids[5]]
    assert matching_ids(database, hidden="without") == [public_id for public_id in ids[::-1] if public_id != ids[5]]
    assert matching_ids(database, text="something else") == [ids[5]]


def test_only_known_choices_make_sense(database: Database) -> None:
    with pytest.raises(BadInput, match="only or without"):
        RunFilter(hidden="maybe")
