from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, col, select

from app.errors import NotFound
from app.models import Machine, now
from app.store.slugs import free_slug


def list_machines(session: Session, archived: bool = False) -> Sequence[Machine]:
    wanted = col(Machine.archived_at).is_not(None) if archived else col(Machine.archived_at).is_(None)
    return session.exec(select(Machine).where(wanted).order_by(Machine.name)).all()


def all_machines(session: Session) -> Sequence[Machine]:
    """Archived ones too."""
    return session.exec(select(Machine).order_by(Machine.name)).all()


def machine(session: Session, slug: str) -> Machine:
    found = session.exec(select(Machine).where(Machine.slug == slug)).first()
    if found is None:
        raise NotFound(f"There is no machine called {slug!r}.")
    return found


def add_machine(session: Session, name: str, **fields: Any) -> Machine:
    added = Machine(slug=free_slug(session, Machine, name), name=name, **fields)
    session.add(added)
    session.flush()
    return added


def edit_machine(session: Session, slug: str, **fields: Any) -> Machine:
    """The slug stays: links to a machine outlive its renaming."""
    found = machine(session, slug)
    for key, value in fields.items():
        setattr(found, key, value)
    session.add(found)
    return found


def archive_machine(session: Session, slug: str, archived: bool = True) -> Machine:
    return edit_machine(session, slug, archived_at=now() if archived else None)
