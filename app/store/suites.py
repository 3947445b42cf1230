from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, func, select

from app.errors import BadInput, NotFound
from app.models import Suite as SuiteRow
from app.models import now
from app.store.slugs import slugify
from app.suites import BUILT_IN, Suite, own


def list_suites(session: Session) -> list[Suite]:
    """The built-in suites, then the newest version of each of the person's own."""
    return [*BUILT_IN.values(), *_own(session, col(SuiteRow.archived_at).is_(None))]


def archived_suites(session: Session) -> list[Suite]:
    """The newest version of each suite that has no version in use."""
    in_use = select(SuiteRow.key).where(col(SuiteRow.archived_at).is_(None))
    return _own(session, col(SuiteRow.key).not_in(in_use))


def _own(session: Session, where: ColumnElement[bool]) -> list[Suite]:
    newest = select(func.max(SuiteRow.id)).where(where).group_by(col(SuiteRow.key))
    rows = session.exec(select(SuiteRow).where(col(SuiteRow.id).in_(newest)).order_by(SuiteRow.title)).all()
    return [_suite(row) for row in rows]


def suite(session: Session, key: str) -> Suite:
    """Raises BadInput for an unknown key, naming those that exist."""
    found = next((each for each in list_suites(session) if each.key == key), None)
    if found is None:
        known = ", ".join(each.key for each in list_suites(session))
        raise BadInput(f"There is no suite called {key!r}. There are: {known}.")
    return found


def suite_by_sha256(session: Session, key: str, sha256: str) -> Suite:
    """The very version a run was queued with. Raises NotFound."""
    built_in = BUILT_IN.get(key)
    if built_in is not None and built_in.sha256 == sha256:
        return built_in
    row = session.exec(select(SuiteRow).where(SuiteRow.sha256 == sha256)).first()
    if row is None:
        raise NotFound(f"The suite {key!r} is no longer there in the version this run was made for.")
    return _suite(row)


def save_suite(session: Session, title: str, definition: Mapping[str, Any], key: str | None = None) -> Suite:
    """Adds a suite, or with `key` a new version of one of the person's own. Raises BadInput."""
    title = title.strip()
    if not title:
        raise BadInput("The suite needs a title.")
    key = key or slugify(title)
    if key in BUILT_IN or key == "new":
        raise BadInput(f"{key!r} is the name of a built-in suite: choose another title.")
    newest = session.exec(select(func.max(SuiteRow.version)).where(SuiteRow.key == key)).one()
    version = (newest or 0) + 1
    made = own(definition, key, title, version)
    same = session.exec(select(SuiteRow).where(SuiteRow.sha256 == made.sha256)).first()
    if same is not None and same.key != key:
        raise BadInput(f"The suite {same.title!r} has this very prompt and length already.")
    if same is not None:  # only counts or title changed: the identity, and so the version, stays
        same.title, same.definition, same.archived_at = title, _definition(made), None
        session.add(same)
        return _suite(same)
    session.add(
        SuiteRow(
            key=key,
            version=version,
            title=title,
            definition=_definition(made),
            sha256=made.sha256,
        )
    )
    session.flush()
    return made


def archive_suite(session: Session, key: str) -> None:
    for row in session.exec(select(SuiteRow).where(SuiteRow.key == key, col(SuiteRow.archived_at).is_(None))).all():
        row.archived_at = now()
        session.add(row)


def restore_suite(session: Session, key: str) -> None:
    """The newest version comes back. Raises NotFound when there is nothing to restore."""
    newest = select(SuiteRow).where(SuiteRow.key == key).order_by(col(SuiteRow.id).desc()).limit(1)
    row = session.exec(newest).first()
    if row is None:
        raise NotFound(f"There is no suite called {key!r}.")
    row.archived_at = None
    session.add(row)


def _suite(row: SuiteRow) -> Suite:
    return own(row.definition, row.key, row.title, row.version)


def _definition(suite: Suite) -> dict[str, Any]:
    (case,) = suite.cases
    return {
        "prompt": case.prompt,
        "output_tokens": case.point.output_tokens,
        "repetitions": suite.repetitions,
        "warmups": suite.warmups,
    }
