"""The documents "roofmark.updates/1" and "roofmark.notes/1": what happened in a history."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from app import engines
from app.db.tables import Annotation
from app.results.history.updates import Change, Update, update_words
from app.schemas.base import Document, Number, Timestamp

UPDATES_SCHEMA: Literal["roofmark.updates/1"] = "roofmark.updates/1"
NOTES_SCHEMA: Literal["roofmark.notes/1"] = "roofmark.notes/1"


class ShiftDocument(Document):
    """A change that an update certainly made."""

    metric: str
    ratio: Number = Field(description="After over before: 0.92 is 8 % less.")
    low: Number = Field(description="Lower end of the 95 % interval.")
    high: Number = Field(description="Upper end of the 95 % interval.")
    is_worse: bool
    models: list[str] = Field(description="The models that changed so.")


class UpdateDocument(Document):
    """One version of an engine after another on one machine."""

    summary: str = Field(description="The update with its changes in words.")
    machine: str
    engine: str
    old_version: str
    new_version: str
    at: Timestamp = Field(description="When the first run with the new version started.")
    series: int = Field(
        description="How many models in their quantizations and settings were measured before and after."
    )
    shifts: list[ShiftDocument] = Field(description="Empty: nothing changed for certain.")
    before: str = Field(description="The run before it whose comparison says most.")
    after: str = Field(description="The run after it whose comparison says most.")


class UpdatesDocument(Document):
    schema_id: Literal["roofmark.updates/1"] = Field(alias="schema")
    updates: list[UpdateDocument]


class NoteDocument(Document):
    """What a person noted at a moment."""

    id: int
    at: Timestamp
    machine: str | None = Field(description="A slug; null: about all machines.")
    text: str


class NotesDocument(Document):
    schema_id: Literal["roofmark.notes/1"] = Field(alias="schema")
    notes: list[NoteDocument]


def updates_document(updates: Sequence[Update]) -> dict[str, Any]:
    """Returns the document of updates, in their order."""
    return {"schema": UPDATES_SCHEMA, "updates": [_update(update) for update in updates]}


def _update(update: Update) -> dict[str, Any]:
    clearest = update.clearest
    return {
        "summary": str(update_words(update, engines.titles())),
        "machine": update.machine,
        "engine": update.engine,
        "old_version": update.old_version,
        "new_version": update.new_version,
        "at": update.at.isoformat(),
        "series": len(update.series),
        "shifts": [_shift(update, shift) for shift in update.shifts],
        "before": clearest.before,
        "after": clearest.after,
    }


def _shift(update: Update, shift: Change) -> dict[str, Any]:
    low, high = shift.interval
    return {
        "metric": shift.metric.key,
        "ratio": shift.ratio,
        "low": low,
        "high": high,
        "is_worse": shift.is_worse,
        "models": list(dict.fromkeys(change.series.snapshot.model for change in update.shifted(shift))),
    }


def notes_document(notes: Sequence[Annotation]) -> dict[str, Any]:
    """Returns the document of notes, in their order."""
    return {"schema": NOTES_SCHEMA, "notes": [note_document(note) for note in notes]}


def note_document(note: Annotation) -> dict[str, Any]:
    """Returns one note as JSON."""
    machine = note.machine.slug if note.machine else None
    return {"id": note.id, "at": note.at.isoformat(), "machine": machine, "text": note.text}
