"""Shares in both databases: made, listed, opened, revoked."""

from dataclasses import replace

import pytest

from app.core.errors import NotFound
from app.db import shares
from app.db.database import Database
from app.share import links
from tests.databases import on_both
from tests.share.snapshots import SNAPSHOT


@on_both
def test_a_share_from_its_making_to_its_end(database: Database) -> None:
    with database.write() as session:
        first = links.publish(session, SNAPSHOT)
        second = links.publish(session, replace(SNAPSHOT, kind="ceiling", title="Ünïcode 伺服器"))
    with database.read() as session:
        assert links.open_share(session, first).snapshot == SNAPSHOT
        assert [(listing.slug, listing.kind, listing.title) for listing in shares.list_shares(session)] == [
            (second, "ceiling", "Ünïcode 伺服器"),
            (first, "run", SNAPSHOT.title),
        ]
    with database.write() as session:
        shares.revoke(session, first)
    with database.write() as session, pytest.raises(NotFound, match="has been revoked"):
        shares.revoke(session, first)
    with database.read() as session:
        for slug in (first, "nonesuch"):
            with pytest.raises(NotFound, match="revoked or never existed"):
                links.open_share(session, slug)
        assert [listing.revoked_at is None for listing in shares.list_shares(session)] == [True, False]
