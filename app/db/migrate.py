"""Bringing a database to the layout that this version expects.

A SQLite fact that shapes this file: dropping a table with foreign keys ON deletes its children, so migrations run with
them OFF and check afterwards (migrations/env.py).
"""

import glob
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from sqlalchemy import inspect, text

from app.core.errors import BadInput, StorageError
from app.db.database import Database, error_message, translate_db_errors

log = logging.getLogger(__name__)

MIGRATION_TIMEOUT_S = 120
KEEP_BACKUPS = 5


def migrate(database: Database, scripts: Path, revision: str = "head") -> str | None:
    """Brings the database to `revision`, up or down; returns the backup's path, if one was made.

    `revision` is a revision's number, `head` or `base`. A SQLite database that has tables is copied into `backups/`
    beside it first. Two processes that start at once wait for each other. A migration that fails leaves the database as
    it was. Raises BadInput for an unknown revision, StorageError for everything else.
    """
    numbers = revisions(scripts)
    target = {"head": numbers[-1], "base": None}.get(revision, revision)
    if target not in (None, *numbers):
        raise BadInput(f"There is no revision {revision}: known are {', '.join(numbers)}, head and base.")
    if current_revision(database) == target:
        return None  # without the lock: a database on a full or read-only disk can still be read
    with _migration_lock(database):
        if database.is_sqlite:
            _use_wal(database)
        before = current_revision(database)
        if before == target:
            return None
        if before not in (None, *numbers):
            raise StorageError(
                f"The database was written by a newer Roofmark (revision {before}, this version knows {numbers[-1]}): "
                "update Roofmark or restore a backup."
            )
        backup = _back_up(database, before) if before else None
        _run_alembic(database, scripts, target, down=(before or "") > (target or ""), backup=backup)
    log.info("database migrated from %s to %s", before or "nothing", target or "nothing")
    return str(backup) if backup else None


def current_revision(database: Database) -> str | None:
    """Returns the revision that the database is at; None: it has no tables."""
    with translate_db_errors(), database.engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return revision


def revisions(scripts: Path) -> list[str]:
    """Returns every revision, oldest first. They are numbered in their file names, so no command has to import Alembic
    to learn that nothing is to be done; a test compares this with Alembic's list."""
    return sorted(path.name.partition("_")[0] for path in (scripts / "versions").glob("[0-9]*.py"))


def alembic_config(database: Database, scripts: Path) -> Any:
    """Returns Alembic's Config for this database; a wheel carries no ini file, so everything is set here."""
    from alembic.config import Config  # 80 ms and 9 MB, which only a database to be migrated needs

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.attributes["engine"] = database.engine
    return config


def _run_alembic(database: Database, scripts: Path, target: str | None, *, down: bool, backup: Path | None) -> None:
    from alembic import command  # as above

    move = command.downgrade if down else command.upgrade
    try:
        move(alembic_config(database, scripts), target or "base")
    except Exception as error:  # a migration is free to raise anything
        reason = error_message(error, "The database could not be migrated; the log says why.")
        saved = f" A copy of it is {backup}." if backup else ""
        raise StorageError(f"{reason} The database is as it was before the migration.{saved}") from error


@contextmanager
def _migration_lock(database: Database) -> Iterator[None]:
    if not database.is_sqlite:  # PostgreSQL: migrations/env.py takes an advisory lock in its own transaction
        yield
        return
    lock = FileLock(f"{database.url.database}.migrating", timeout=MIGRATION_TIMEOUT_S)
    try:
        lock.acquire()
    except Timeout as error:
        raise StorageError("Another Roofmark is still migrating the database: try again when it is done.") from error
    except OSError as error:
        raise StorageError(f"The folder of the database cannot be written: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()


def _use_wal(database: Database) -> None:
    """Switches to WAL, which the file remembers. This needs the lock: two processes that switch at once fail, whatever
    the busy timeout."""
    with translate_db_errors(), closing(database.engine.raw_connection()) as connection:
        connection.cursor().execute("PRAGMA journal_mode=WAL")


def _back_up(database: Database, revision: str) -> Path | None:
    if not database.is_sqlite:
        return None
    source = Path(str(database.url.database))
    folder = source.parent / "backups"
    target = folder / f"{source.stem}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{revision}.db"
    partial = target.with_suffix(".partial")
    try:
        folder.mkdir(exist_ok=True)
        with translate_db_errors(), closing(database.engine.raw_connection()) as connection:
            connection.cursor().execute("VACUUM INTO ?", (str(partial),))
        partial.rename(target)
        for old in sorted(folder.glob(f"{glob.escape(source.stem)}-*.db"))[:-KEEP_BACKUPS]:
            old.unlink()
    except OSError as error:
        raise StorageError(f"No backup could be made, so nothing was migrated: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)
    return target
