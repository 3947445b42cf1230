"""Stored shares: titles, publishing, opening."""

from dataclasses import dataclass, replace
from datetime import datetime

from sqlmodel import Session

from app.core.errors import BadInput
from app.core.i18n import ENGLISH, _, use
from app.db import shares
from app.share.snapshot import SCHEMA_VERSION, Snapshot

MAX_TITLE_CHARS = 200


@dataclass(frozen=True)
class StoredShare:
    slug: str
    snapshot: Snapshot
    created_at: datetime


def with_title(snapshot: Snapshot, title: str) -> Snapshot:
    """The snapshot with `title`, or its own where that is empty. Raises BadInput for a title that is too long."""
    title = "".join(letter for letter in " ".join(title.split()) if letter.isprintable())
    if len(title) > MAX_TITLE_CHARS:
        raise BadInput(_("The title is longer than {most} characters.", most=MAX_TITLE_CHARS))
    return replace(snapshot, title=title or snapshot.title[:MAX_TITLE_CHARS])


def publish(session: Session, snapshot: Snapshot) -> str:
    """Stores the snapshot and returns its slug: whoever knows it may read the snapshot."""
    return shares.add_share(session, snapshot.kind, snapshot.title, snapshot.to_json(), SCHEMA_VERSION).slug


def open_share(session: Session, slug: str) -> StoredShare:
    """The share with this slug. Raises NotFound, and Conflict for a snapshot of another version."""
    with use(ENGLISH):  # the title and all forms but the page are, whoever reads them
        row = shares.share(session, slug)
        return StoredShare(row.slug, Snapshot.from_json(row.snapshot, row.schema_version), row.created_at)
