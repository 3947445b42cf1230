"""Making and revoking links: nothing becomes public that was not seen in a preview before."""

import json
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.i18n import retold
from app.db import shares
from app.share import Withheld, links
from app.share.document import document
from app.share.page import body
from app.web.deps import DatabaseDep, Form, ReadSession, WriteSession
from app.web.forms import Fields
from app.web.paths import absolute, path_for
from app.web.sharing import OWN_FIELDS, subject
from app.web.templates import render

router = APIRouter(include_in_schema=False)


@router.get("/shares", name="shares")
def list_shares(request: Request, session: ReadSession, new: str = "") -> Response:
    """`new`: the slug of a link that was made just now."""
    listed = shares.list_shares(session)
    active = [each for each in listed if each.revoked_at is None]
    return render(
        request,
        "shares.html",
        active=[(each, path_for(request, "shared", share=each.slug)) for each in active],
        absolute=partial(absolute, request),
        revoked=[each for each in listed if each.revoked_at is not None],
        new=next((each for each in active if each.slug == new), None),
    )


@router.get("/shares/new", name="new_share")
def new_share(request: Request, database: DatabaseDep) -> Response:
    """A preview of exactly what would be public."""
    return _preview(request, database, Fields(request.query_params.multi_items()))


@router.get("/shares/new/card", name="card_preview")
def show_card(request: Request, session: ReadSession) -> Response:
    from app.share.card import card  # loads the drawing library: not at start

    found = subject(session, Fields(request.query_params.multi_items()))
    return Response(card(found.snapshot), media_type="image/png")


@router.post("/shares", name="add_share")
def add_share(request: Request, database: DatabaseDep, form: Form) -> Response:
    """The form says by a digest what its preview showed; if that is no longer so, there is another preview first."""
    slug = None
    with database.write() as session, suppress(Withheld):  # then the preview says so
        snapshot = subject(session, form).snapshot
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
    asked = {"state": state, "included": included, "is_changed": is_changed, "longest_title": links.LONGEST_TITLE}
    status = 409 if is_changed else 200
    try:
        with database.read() as session:
            snapshot, offers = subject(session, form)
    except Withheld as withheld:
        title, offers = form.get("title"), withheld.offers
        return render(
            request,
            "share_new.html",
            status=status,
            **asked,
            snapshot=None,
            title=title,
            offers=offers,
            why=retold(withheld.message),
        )
    query = [*state, *(("include", each) for each in included), ("title", snapshot.title)]
    return render(
        request,
        "share_new.html",
        status=status,
        **asked,
        snapshot=snapshot,
        title=snapshot.title,
        offers=offers,
        body=body(snapshot),
        data=_lines(document(snapshot)),
        card_query=urlencode(query),
    )


def _lines(values: dict[str, Any]) -> str:
    """JSON with a line for each member."""
    members = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    return "{\n" + ",\n".join(members) + "\n}"
