"""Creating and revoking shared links: only what a preview has shown becomes public."""

import json
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.i18n import _, localized
from app.db import shares
from app.db.tables import now
from app.share import Withheld, links
from app.share.formats import to_document, to_markdown
from app.share.page import render_body, render_file
from app.share.reach import INSTEAD, reach_words
from app.web.deps import DatabaseDep, Form, ReadSession, WriteSession
from app.web.forms import Fields
from app.web.paths import absolute_url, path_for
from app.web.sharing import OWN_FIELDS, card_response, download, share_preview
from app.web.templates import render

router = APIRouter(include_in_schema=False)


@router.get("/shares", name="shares")
def list_shares(request: Request, session: ReadSession, new: str = "") -> Response:
    """All links; `new` is the slug of the link created just before."""
    all_shares = shares.list_shares(session)
    active = [share for share in all_shares if share.revoked_at is None]
    return render(
        request,
        "shares.html",
        active=[(share, path_for(request, "shared", share=share.slug)) for share in active],
        absolute=partial(absolute_url, request),
        reach=reach_words(absolute_url(request, path_for(request, "shares"))),
        instead=_(INSTEAD),
        revoked=[share for share in all_shares if share.revoked_at is not None],
        new=next((share for share in active if share.slug == new), None),
    )


@router.get("/shares/new", name="new_share")
def new_share(request: Request, database: DatabaseDep) -> Response:
    """A preview of exactly what would be public."""
    return _preview(request, database, Fields(request.query_params.multi_items()))


@router.get("/shares/new/card", name="card_preview")
def show_card(request: Request, session: ReadSession) -> Response:
    preview = share_preview(session, Fields(request.query_params.multi_items()))
    return card_response(preview.snapshot)


@router.get("/shares/new/file", name="file_preview")
def save_file(request: Request, session: ReadSession) -> Response:
    """The share as one HTML file, for which no link is made."""
    preview = share_preview(session, Fields(request.query_params.multi_items()))
    return download(render_file(preview.snapshot, now()).encode(), "application/octet-stream", "html")


@router.get("/shares/new/markdown", name="markdown_preview")
def show_markdown(request: Request, session: ReadSession) -> Response:
    preview = share_preview(session, Fields(request.query_params.multi_items()))
    return Response(to_markdown(preview.snapshot), media_type="text/plain; charset=utf-8")


@router.post("/shares", name="add_share")
def add_share(request: Request, database: DatabaseDep, form: Form) -> Response:
    """The form contains the digest of its preview; if the result has changed since, a new preview is shown instead."""
    slug = None
    with database.write() as session, suppress(Withheld):  # the preview shows the reason
        snapshot = share_preview(session, form).snapshot
        slug = links.publish(session, snapshot) if snapshot.digest == form.get("digest") else None
    if slug is None:
        return _preview(request, database, form, is_changed=True)
    return RedirectResponse(f"{path_for(request, 'shares')}?{urlencode({'new': slug})}", status_code=303)


@router.post("/shares/{share}/revoke", name="revoke_share")
def revoke_share(request: Request, session: WriteSession, share: str) -> Response:
    shares.revoke(session, share)
    return RedirectResponse(path_for(request, "shares"), status_code=303)


def _preview(request: Request, database: DatabaseDep, form: Fields, is_changed: bool = False) -> Response:
    state = [("kind", form.get("kind")), *form.items(without=OWN_FIELDS)]
    included = form.all("include")
    reach = reach_words(absolute_url(request, path_for(request, "shares")))
    context = {
        "reach": reach,
        "state": state,
        "included": included,
        "is_changed": is_changed,
        "longest_title": links.MAX_TITLE_CHARS,
    }
    status = 409 if is_changed else 200
    try:
        with database.read() as session:
            snapshot, offers = share_preview(session, form)
    except Withheld as withheld:
        title, offers = form.get("title"), withheld.offers
        return render(
            request,
            "share_new.html",
            status=status,
            **context,
            snapshot=None,
            title=title,
            offers=offers,
            why=localized(withheld.message),
        )
    query = [*state, *(("include", option) for option in included), ("title", snapshot.title)]
    return render(
        request,
        "share_new.html",
        status=status,
        **context,
        snapshot=snapshot,
        title=snapshot.title,
        offers=offers,
        body=render_body(snapshot),
        data=_one_member_per_line(to_document(snapshot)),
        card_query=urlencode(query),
    )


def _one_member_per_line(values: dict[str, Any]) -> str:
    """JSON with a line for each member."""
    members = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    return "{\n" + ",\n".join(members) + "\n}"
