"""Shares: made once, opened by their slug, revoked once. Nothing else changes them."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlmodel import Session, col, select, update

from app.core.errors import NotFound
from app.core.i18n import _
from app.db.tables import Share, now

SLUG_BYTES = 16
"""128 random bits: nobody can guess one."""


class ShareListing(NamedTuple):
    """A share without its snapshot."""

    slug: str
    kind: str
    title: str
    created_at: datetime
    revoked_at: datetime | None


def add_share(session: Session, kind: str, title: str, snapshot: Mapping[str, Any], schema_version: int) -> Share:
    """Store a share under a slug that cannot be guessed."""
    slug = secrets.token_hex(SLUG_BYTES)  # no - or _: programs that find a link in a text leave them out at its end
    share = Share(slug=slug, kind=kind, title=title, snapshot=dict(snapshot), schema_version=schema_version)
    session.add(share)
    session.flush()
    return share


def list_shares(session: Session) -> Sequence[ShareListing]:
    """All shares, the newest first, revoked ones included."""
    columns = (Share.slug, Share.kind, Share.title, Share.created_at, Share.revoked_at)
    query = select(*columns).order_by(col(Share.id).desc())  # type: ignore[call-overload]  # typed for four columns
    return [ShareListing._make(row) for row in session.exec(query)]


def share(session: Session, slug: str) -> Share:
    """Find a share by its slug. Raises NotFound, in the same words for a revoked share and one that never existed."""
    row = session.exec(select(Share).where(Share.slug == slug, col(Share.revoked_at).is_(None))).first()
    if row is None:
        raise NotFound(_("There is nothing at this address: the link was revoked or never existed."))
    return row


def revoke(session: Session, slug: str) -> None:
    """Revokes a share for ever; its snapshot is emptied too. Raises NotFound."""
    changed = session.exec(
        update(Share)
        .where(col(Share.slug) == slug, col(Share.revoked_at).is_(None))
        .values(revoked_at=now(), snapshot={})
    )
    if not changed.rowcount:
        raise NotFound(_("This link does not exist any more: it has been revoked."))
