"""The JSON API of a history: engine updates, and a person's notes."""

from dataclasses import replace

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from app.db import dated_notes
from app.results.history.news import engine_updates
from app.results.run_filter import PARAMETERS
from app.schemas.history import (
    NoteDocument,
    NotesDocument,
    UpdatesDocument,
    note_document,
    notes_document,
    updates_document,
)
from app.suites import DEFAULT_SUITE
from app.web.api import Text
from app.web.deps import FilterDep, ReadSession, RowId, WriteSession, declare_query
from app.web.document_response import DocumentResponse
from app.web.errors import error_responses

router = APIRouter(prefix="/api/v1", tags=["history"], responses=error_responses(401, 403, 422))


class NewNote(BaseModel):
    """A note in the history."""

    model_config = ConfigDict(extra="forbid")

    text: Text = Field(description="What happened, such as `new PSU`.")
    at: Text = Field(description="A day or a moment, such as 2026-06-03 or 2026-06-03T18:30; in UTC unless it says so.")
    machine: Text | None = Field(None, description="A slug; without one it is about all machines.")


@router.get(
    "/updates",
    name="api_updates",
    summary="List engine updates",
    response_model=UpdatesDocument,
    dependencies=[declare_query(PARAMETERS)],
)
def get_updates(session: ReadSession, where: FilterDep) -> Response:
    """Engine updates in order of time, with the changes that they certainly made; the suite is `triple` by default."""
    return DocumentResponse(
        updates_document(engine_updates(session, replace(where, suite=where.suite or DEFAULT_SUITE)))
    )


@router.get("/notes", name="api_notes", summary="List notes", response_model=NotesDocument)
def get_notes(session: ReadSession) -> Response:
    """All notes of the history in order of time."""
    return DocumentResponse(notes_document(dated_notes.list_notes(session)))


@router.post(
    "/notes",
    name="api_new_note",
    summary="Add a note",
    status_code=201,
    response_model=NoteDocument,
    responses=error_responses(404),
)
def post_note(session: WriteSession, new_note: NewNote) -> Response:
    """Adds a note to the history of a machine or of all."""
    note = dated_notes.add_note(session, new_note.text, dated_notes.parse_moment(new_note.at), new_note.machine)
    return DocumentResponse(note_document(note), status_code=201)


@router.put(
    "/notes/{note_id}",
    name="api_change_note",
    summary="Replace a note",
    response_model=NoteDocument,
    responses=error_responses(404),
)
def put_note(session: WriteSession, note_id: RowId, note: NewNote) -> Response:
    """Replaces all that a note says."""
    changed = dated_notes.edit_note(session, note_id, note.text, dated_notes.parse_moment(note.at), note.machine)
    return DocumentResponse(note_document(changed))


@router.delete(
    "/notes/{note_id}",
    name="api_delete_note",
    summary="Delete a note",
    status_code=204,
    responses=error_responses(404),
)
def delete_note(session: WriteSession, note_id: RowId) -> None:
    """Deletes a note."""
    dated_notes.delete_note(session, note_id)
