"""The JSON twin of a share."""

from datetime import datetime
from typing import Any

from app.share.snapshot import SCHEMA, Snapshot


def to_document(snapshot: Snapshot, created_at: datetime | None = None) -> dict[str, Any]:
    """`created_at` None: not made yet."""
    return {"schema": SCHEMA, "created_at": created_at and created_at.isoformat(), **snapshot.to_json()}
