"""Shares in the database."""

from dataclasses import dataclass, replace
from datetime import datetime

from sqlmodel import Session

from app.core.errors import BadInput
from app.core.i18n import ENGLISH, _, retold, use
from app.db import shares
from app.share.snapshot import SCHEMA_VERSION, Snapshot

LONGEST_TITLE = 200


@dataclass(frozen=True)
class Shared:
    slug: str
    snapshot: Snapshot
    created_at: datetime


def titled(snapshot: Snapshot, title: str) -> Snapshot:
    """With a title of the person's own; the snapshot's without one. Raises BadInput when it is too long."""
    title = "".join(letter for letter in " ".join(title.split()) if letter.isprintable())
    if len(title) > LONGEST_TITLE:
        raise BadInput(_("The title is longer than {most} characters.", most=LONGEST_TITLE))
    return replace(snapshot, title=title or snapshot.title[:LONGEST_TITLE])


def publish(session: Session, snapshot: Snapshot) -> str:
    """Gives the slug under which everybody who knows it may read the snapshot."""
    return shares.add_share(session, snapshot.kind, snapshot.title, snapshot.to_json(), SCHEMA_VERSION).slug


def opened(session: Session, slug: str) -> Shared:
    """Raises NotFound, and Conflict for a snapshot of another version."""
    row = shares.share(session, slug)
    with use(ENGLISH):  # the title and all forms but the page are, whoever reads them
        values = retold(row.snapshot)
    return Shared(row.slug, Snapshot.from_json(values, row.schema_version), row.created_at)
