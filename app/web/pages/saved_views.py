"""Saved views: a page with its filters under a name, shown on top of that page; pinned ones on the overview too."""

from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.i18n import _
from app.db import saved_views
from app.db.saved_views import MAX_NAME_CHARS
from app.db.tables import SavedView
from app.web import flash
from app.web.deps import Form, RowId, WriteSession
from app.web.paths import path_for

router = APIRouter(include_in_schema=False)


@router.post("/views", name="save_view")
def save_view(request: Request, session: WriteSession, form: Form) -> Response:
    query = urlencode(parse_qsl(form.get("query").lstrip("?")))  # whatever was typed is a query afterwards
    name = form.required("name", _("The name"), MAX_NAME_CHARS)
    view = saved_views.save_view(session, name, form.get("page"), query, bool(form.get("pinned")))
    return _to_view(request, view)


@router.post("/views/{view_id}", name="edit_view")
def edit_view(request: Request, session: WriteSession, form: Form, view_id: RowId) -> Response:
    name = form.required("name", _("The name"), MAX_NAME_CHARS)
    return _to_view(request, saved_views.edit_view(session, view_id, name=name, is_pinned=bool(form.get("pinned"))))


@router.post("/views/{view_id}/delete", name="delete_view")
def delete_view(request: Request, session: WriteSession, view_id: RowId) -> Response:
    page = saved_views.saved_view(session, view_id).page
    saved_views.delete_view(session, view_id)
    return flash.redirect_with_flash(request, path_for(request, page), "delete_view", str(view_id))


def _to_view(request: Request, view: SavedView) -> Response:
    path = path_for(request, view.page)
    return RedirectResponse(f"{path}?{view.query}" if view.query else path, status_code=303)
