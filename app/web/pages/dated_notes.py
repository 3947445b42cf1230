"""A person's notes in the history: added, edited and deleted where they are shown."""

from datetime import datetime
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.i18n import _
from app.db import dated_notes
from app.web.deps import Form, RowId, WriteSession
from app.web.forms import Fields
from app.web.paths import path_for

router = APIRouter(include_in_schema=False)


@router.post("/notes", name="add_dated_note")
def add_dated_note(request: Request, session: WriteSession, form: Form) -> Response:
    dated_notes.add_note(session, *_fields(form))
    return _to_history(request, form)


@router.post("/notes/{note_id}", name="edit_dated_note")
def edit_dated_note(request: Request, session: WriteSession, form: Form, note_id: RowId) -> Response:
    dated_notes.edit_note(session, note_id, *_fields(form))
    return _to_history(request, form)


@router.post("/notes/{note_id}/delete", name="delete_dated_note")
def delete_dated_note(request: Request, session: WriteSession, form: Form, note_id: RowId) -> Response:
    dated_notes.delete_note(session, note_id)
    return _to_history(request, form)


def _fields(form: Fields) -> tuple[str, datetime, str | None]:
    text = form.required("text", _("The note"), dated_notes.MAX_TEXT_CHARS)
    return text, dated_notes.parse_moment(form.get("at")), form.get("machine") or None


def _to_history(request: Request, form: Fields) -> Response:
    """Leads back to the history as it was."""
    query = urlencode(parse_qsl(form.get("back")))
    return RedirectResponse(f"{path_for(request, 'history')}{'?' if query else ''}{query}", status_code=303)
