"""The document "roofmark.share/1": a share as JSON."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.share.snapshot import SCHEMA, CeilingShare, Chart, DataTable, Fact, Snapshot, Tile, UserText


class ShareDocument(BaseModel):
    """A public snapshot of a result; it never changes."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    schema_id: Literal["roofmark.share/1"] = Field(alias="schema")
    created_at: str | None = Field(description="ISO 8601 with the offset of UTC; null in a preview.")
    kind: Literal["run", "comparison", "explorer", "ceiling"]
    title: str
    description: str
    subtitle: str
    tiles: tuple[Tile, ...]
    bars: tuple[CeilingShare, ...]
    facts: tuple[Fact, ...]
    figures: tuple[DataTable, ...]
    charts: tuple[Chart, ...]
    remarks: tuple[str, ...]
    prose: tuple[UserText, ...] = Field(description="Texts of a person, which they chose to share.")


def to_document(snapshot: Snapshot, created_at: datetime | None = None) -> dict[str, Any]:
    """The document of a snapshot; `created_at` is None in a preview."""
    return {"schema": SCHEMA, "created_at": created_at and created_at.isoformat(), **snapshot.to_json()}
