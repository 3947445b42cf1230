"""Notes and labels of runs and configurations, and hiding a run from statistics."""

from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.i18n import _
from app.db import annotations
from app.db.annotations import MAX_REASON_CHARS
from app.db.runs import MAX_NOTE_CHARS
from app.results.wrong_runs import wrong_runs
from app.web import flash
from app.web.deps import Form, WriteSession
from app.web.paths import path_for

router = APIRouter(include_in_schema=False)


@router.post("/runs/{public_id}/note", name="edit_note")
def edit_note(request: Request, session: WriteSession, form: Form, public_id: str) -> Response:
    """Saves the note and the labels, which are in one form."""
    annotations.edit_note(session, public_id, form.text("note", _("The note"), MAX_NOTE_CHARS))
    annotations.set_labels(session, public_id, form.get("labels").split(","))
    return _to_run(request, public_id)


@router.post("/runs/{public_id}/hide", name="hide_run")
def hide_run(request: Request, session: WriteSession, form: Form, public_id: str) -> Response:
    """`is_wrong`: the reason is what stands off, as a message that every reader gets in their language."""
    reason = form.text("reason", _("The reason"), MAX_REASON_CHARS)
    wrong = wrong_runs(session, [public_id]).get(public_id) if form.get("is_wrong") else None
    annotations.hide(session, public_id, wrong.sentence if wrong else reason)
    return flash.redirect_with_flash(request, path_for(request, "run", public_id=public_id), "hide_run", public_id)


@router.post("/runs/{public_id}/unhide", name="unhide_run")
def unhide_run(request: Request, session: WriteSession, public_id: str) -> Response:
    annotations.unhide(session, public_id)
    return _to_run(request, public_id)


@router.post("/configs/{fingerprint}/note", name="edit_config_note")
def edit_config_note(request: Request, session: WriteSession, form: Form, fingerprint: str) -> Response:
    server = form.get("server")
    note = form.text("note", _("The note"), MAX_NOTE_CHARS)
    config = annotations.edit_config_note(session, fingerprint, server, note)
    path = path_for(request, "config", fingerprint=config.fingerprint)
    return RedirectResponse(f"{path}?{urlencode({'server': server})}", status_code=303)


def _to_run(request: Request, public_id: str) -> Response:
    return RedirectResponse(path_for(request, "run", public_id=public_id), status_code=303)
