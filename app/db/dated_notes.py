"""What a person notes in the history at a moment, of one machine or of all."""

from collections.abc import Sequence
from datetime import UTC, date, datetime

from sqlmodel import Session, col, select

from app.core.errors import BadInput, NotFound
from app.core.i18n import _
from app.db import machines
from app.db.tables import Annotation

MAX_TEXT_CHARS = 200


def add_note(session: Session, text: str, at: datetime, machine: str | None = None) -> Annotation:
    """Adds a note; `machine` is a slug, None: all machines. Raises BadInput, NotFound."""
    note = Annotation(text=_checked(text), at=at, machine_id=_machine_id(session, machine))
    session.add(note)
    session.flush()
    return note


def edit_note(session: Session, note_id: int, text: str, at: datetime, machine: str | None) -> Annotation:
    """Replaces all that a note says. Raises BadInput, NotFound."""
    note = dated_note(session, note_id)
    note.text, note.at, note.machine_id = _checked(text), at, _machine_id(session, machine)
    session.add(note)
    session.flush()
    session.refresh(note)
    return note


def delete_note(session: Session, note_id: int) -> None:
    """Deletes a note. Raises NotFound."""
    session.delete(dated_note(session, note_id))
    session.flush()


def dated_note(session: Session, note_id: int) -> Annotation:
    """Returns a note. Raises NotFound."""
    note = session.get(Annotation, note_id)
    if note is None:
        raise NotFound(_("There is no such note: it may have been deleted."))
    return note


def list_notes(session: Session, machine_id: int | None = None) -> Sequence[Annotation]:
    """Returns the notes in order of time; of one machine also those about all machines."""
    query = select(Annotation).order_by(col(Annotation.at), col(Annotation.id))
    if machine_id is not None:
        query = query.where(col(Annotation.machine_id).is_(None) | (col(Annotation.machine_id) == machine_id))
    return session.exec(query).all()


def parse_moment(text: str) -> datetime:
    """Returns a moment in UTC; a day alone is its noon, since nobody knows when on that day. Raises BadInput.

    >>> parse_moment("2026-06-03").isoformat(), parse_moment("2026-06-03T08:30+02:00").isoformat()
    ('2026-06-03T12:00:00+00:00', '2026-06-03T06:30:00+00:00')
    """
    text = text.strip()
    try:
        if len(text) == len("2026-06-03"):
            return datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC).replace(hour=12)
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadInput(
            _("A moment is written like 2026-06-03 or 2026-06-03T18:30; {text!r} is not.", text=text[:40])
        ) from error


def _checked(text: str) -> str:
    text = " ".join(text.split())
    if not text:
        raise BadInput(_("The note is empty."))
    if len(text) > MAX_TEXT_CHARS:
        raise BadInput(_("The note is longer than {most} characters.", most=MAX_TEXT_CHARS))
    return text


def _machine_id(session: Session, slug: str | None) -> int | None:
    return machines.machine(session, slug).id if slug else None
