from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, col, func, select

from app.core.errors import BadInput, NotFound
from app.core.i18n import _
from app.db.slugs import first_free, slugify
from app.db.tables import Suite as SuiteRow
from app.db.tables import now
from app.suites import BUILT_IN, Suite, custom_suite


def list_suites(session: Session, archived: bool = False) -> list[Suite]:
    """Returns the built-in suites, then the current version of each of the person's own; or only the archived ones."""
    current = _current(session)
    own_rows = sorted((row for row in current if (row.archived_at is not None) is archived), key=lambda row: row.title)
    return [*([] if archived else BUILT_IN.values()), *(_suite(row) for row in own_rows)]


def _current(session: Session) -> list[SuiteRow]:
    """Returns the row of the highest version of each key."""
    newest: dict[str, SuiteRow] = {}
    for row in session.exec(select(SuiteRow).order_by(col(SuiteRow.version))).all():
        newest[row.key] = row
    return list(newest.values())


def suite(session: Session, key: str) -> Suite:
    """Finds a suite by its key. Raises BadInput for an unknown one, naming those that exist."""
    match = next((candidate for candidate in list_suites(session) if candidate.key == key), None)
    if match is None:
        keys = ", ".join(suite.key for suite in list_suites(session))
        raise BadInput(_("There is no suite {key!r}; choose one of {suites}.", key=key, suites=keys))
    return match


def suite_by_sha256(session: Session, key: str, sha256: str) -> Suite:
    """Finds the exact version of a suite that a run was queued with. Raises NotFound."""
    built_in = BUILT_IN.get(key)
    if built_in is not None and built_in.sha256 == sha256:
        return built_in
    row = session.exec(select(SuiteRow).where(SuiteRow.sha256 == sha256)).first()
    if row is None:
        raise NotFound(_("The version of the suite {key!r} that this run was queued with no longer exists.", key=key))
    return _suite(row)


def save_suite(session: Session, title: str, definition: Mapping[str, Any], key: str | None = None) -> Suite:
    """Add a suite, or with `key` a new version of one of the person's own. Raises BadInput."""
    title = title.strip()
    if not title:
        raise BadInput(_("The suite needs a title."))
    if (key or slugify(title)) in BUILT_IN:
        raise BadInput(_("{title!r} is the name of a built-in suite: choose another title.", title=title))
    key = key or first_free(slugify(title), {*session.exec(select(SuiteRow.key)).all(), "new"})
    newest = session.exec(select(func.max(SuiteRow.version)).where(SuiteRow.key == key)).one() or 0
    made = custom_suite(definition, key, title, newest + 1)
    same = session.exec(select(SuiteRow).where(SuiteRow.sha256 == made.sha256)).first()
    if same is not None and same.key != key:
        raise BadInput(_("The suite {title!r} already has this prompt and output length.", title=same.title))
    if same is not None:  # an earlier version is current again, with its earlier runs
        same.title, same.definition, same.archived_at = title, _definition(made), None
        same.version = same.version if same.version == newest else newest + 1
        session.add(same)
        return _suite(same)
    session.add(
        SuiteRow(
            key=key,
            version=made.version,
            title=title,
            definition=_definition(made),
            sha256=made.sha256,
        )
    )
    session.flush()
    return made


def archive_suite(session: Session, key: str, archived: bool = True) -> None:
    """Archive or restore all versions of one of the person's own suites. Raises NotFound."""
    rows = session.exec(select(SuiteRow).where(SuiteRow.key == key)).all()
    if not rows:
        raise NotFound(_("There is no suite of your own called {key!r}.", key=key))
    for row in rows:
        row.archived_at = now() if archived else None
        session.add(row)


def _suite(row: SuiteRow) -> Suite:
    return custom_suite(row.definition, row.key, row.title, row.version)


def _definition(suite: Suite) -> dict[str, Any]:
    (case,) = suite.cases
    return {
        "prompt": case.prompt,
        "output_tokens": case.point.output_tokens,
        "repetitions": suite.repetitions,
        "warmups": suite.warmups,
    }
