"""Saved views and dated notes, on either database."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadInput, Conflict, NotFound
from app.db import dated_notes, machines, saved_views
from app.db.database import Database
from tests.databases import on_both

JUNE = datetime(2026, 6, 3, 12, tzinfo=UTC)


@on_both
def test_a_view_is_saved_renamed_pinned_and_deleted(database: Database) -> None:
    with database.write() as session:
        first = saved_views.save_view(session, "  Decode of  Qwen3 ", "history", "?model=Qwen3&metric=ttft_ms")
        second = saved_views.save_view(session, "By quantization", "explore", "by=quantization", is_pinned=True)
        assert (first.name, first.query, first.is_pinned) == ("Decode of Qwen3", "model=Qwen3&metric=ttft_ms", False)
        assert first.id is not None
        assert second.id is not None
        saved_views.edit_view(session, first.id, name="A", is_pinned=True)
        assert [view.name for view in saved_views.pinned_views(session)] == ["A", "By quantization"]
        assert [view.name for view in saved_views.views_of(session, "explore")] == ["By quantization"]
        saved_views.edit_view(session, second.id, is_pinned=False)
        saved_views.delete_view(session, first.id)
        assert list(saved_views.pinned_views(session)) == []
        with pytest.raises(NotFound):
            saved_views.delete_view(session, first.id)


@on_both
def test_a_name_stands_for_one_view(database: Database) -> None:
    with database.write() as session:
        saved_views.save_view(session, "A", "history", "")
        with pytest.raises(Conflict):
            saved_views.save_view(session, "A", "runs", "")
        view = saved_views.save_view(session, "B", "runs", "")
        assert view.id is not None
        with pytest.raises(Conflict):
            saved_views.edit_view(session, view.id, name="A")


@pytest.mark.parametrize(
    ("name", "page", "query"),
    [("", "history", ""), ("x" * 81, "runs", ""), ("x", "login", ""), ("x", "runs", "q" * 2001)],
)
def test_what_cannot_be_saved(database: Database, name: str, page: str, query: str) -> None:
    with database.write() as session, pytest.raises(BadInput):
        saved_views.save_view(session, name, page, query)


@on_both
def test_notes_are_in_order_of_time_and_of_a_machine_or_of_all(database: Database) -> None:
    with database.write() as session:
        box = machines.add_machine(session, "box")
        machines.add_machine(session, "other")
        later = dated_notes.add_note(session, "new  PSU", JUNE, "box")
        dated_notes.add_note(session, "moved to the cellar", JUNE.replace(month=5))
        dated_notes.add_note(session, "dusted", JUNE, "other")
        texts = [note.text for note in dated_notes.list_notes(session, box.id)]
        assert texts == ["moved to the cellar", "new PSU"]
        assert len(dated_notes.list_notes(session)) == 3
        assert later.id is not None
        edited = dated_notes.edit_note(session, later.id, "new fan", JUNE, None)
        assert (edited.text, edited.machine, edited.at) == ("new fan", None, JUNE)
        dated_notes.delete_note(session, later.id)
        with pytest.raises(NotFound):
            dated_notes.dated_note(session, later.id)


@pytest.mark.parametrize(("text", "machine"), [("  ", None), ("x" * 201, None)])
def test_a_note_says_something_short(database: Database, text: str, machine: str | None) -> None:
    with database.write() as session, pytest.raises(BadInput):
        dated_notes.add_note(session, text, JUNE, machine)


def test_a_note_is_of_a_machine_that_there_is(database: Database) -> None:
    with database.write() as session, pytest.raises(NotFound):
        dated_notes.add_note(session, "new PSU", JUNE, "nonesuch")


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_moment_is_read_as_it_is_written(moment: datetime) -> None:
    assert dated_notes.parse_moment(f" {moment.isoformat()} ") == moment
    assert dated_notes.parse_moment(moment.date().isoformat()).date() == moment.date()


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "03.06.2026", "0001-01-01T00:00+23:00"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(BadInput, match="2026-06-03"):
        dated_notes.parse_moment(text)
