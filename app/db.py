"""The database: connections, transactions and migrations. SQLite by default, PostgreSQL by its URL.

SQLite facts that shape this file: a transaction that reads first and writes later fails at once in WAL mode, whatever
the busy timeout, so writers say `BEGIN IMMEDIATE`; and dropping a table with foreign keys ON deletes its children, so
migrations run with them OFF and check afterwards.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlmodel import Session

from app.errors import StorageProblem

log = logging.getLogger(__name__)

BUSY_TIMEOUT_MS = 5000
KEEP_BACKUPS = 5


class Database:
    """One engine and the two ways to use it: `read()` and `write()`.

    Both give a session; `write()` commits at the end of the block and rolls back on an error.
    """

    def __init__(self, url: str) -> None:
        try:
            self.url: URL = make_url(url)
            self.engine = _create_engine(self.url)
        except Exception as error:  # an unknown dialect, a missing driver or a malformed URL: each has its own type
            raise StorageProblem("The database URL cannot be used: check ROOFMARK_DATABASE_URL.") from error

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Session]:
        with explained(), Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        writer = self.engine.execution_options(roofmark_write=True)
        with explained(), Session(writer, expire_on_commit=False) as session, session.begin():
            yield session

    def dispose(self) -> None:
        self.engine.dispose()


@contextmanager
def explained() -> Iterator[None]:
    """Turns what a database or disk says into one sentence; integrity errors pass, callers know what they mean."""
    try:
        yield
    except OperationalError as error:
        raise StorageProblem(_sentence(str(error.orig))) from error
    except DBAPIError as error:
        if "disk" in str(error.orig).lower():
            raise StorageProblem(_sentence(str(error.orig))) from error
        raise


def _sentence(cause: str) -> str:
    lowered = cause.lower()
    if "disk is full" in lowered or "no space left" in lowered:
        return "The disk is full: nothing was stored, what was there before is unharmed."
    if "readonly" in lowered or "read-only" in lowered:
        return "The database is read-only: check who owns the data folder."
    if "locked" in lowered:
        return "The database is busy: another program holds it. Try again in a moment."
    if "unable to open" in lowered:
        return "The database file cannot be opened: check the data folder and its permissions."
    if "no such table" in lowered or "no such column" in lowered or "does not exist" in lowered:
        return "The database has another layout than this version expects: run `roofmark migrate`."
    return "The database did not do what was asked; the log says why."


def _create_engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    if url.database and url.database != ":memory:":
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    # autocommit mode of the driver: the BEGIN below is the only one
    engine = create_engine(url, connect_args={"isolation_level": None, "check_same_thread": False})
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def _set_pragmas(connection: Any, _record: object) -> None:
    for pragma in (
        f"busy_timeout={BUSY_TIMEOUT_MS}",
        "journal_mode=WAL",
        "foreign_keys=ON",
        "synchronous=NORMAL",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("roofmark_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


# --- migrations ------------------------------------------------------------------------------------------------------


def migrate(database: Database, scripts: Path, revision: str = "head") -> str | None:
    """Upgrade (or, with an older `revision`, downgrade) the database; returns the backup's path, if one was made.

    A SQLite database that has rows is copied into `backups/` beside it first. Two processes that start at once
    wait for each other. A migration that fails leaves the database as it was.
    """
    from alembic import command  # costs a third of a second, and most commands find nothing to do

    config = _alembic_config(database, scripts)
    with _migration_lock(database):
        before = current_revision(database)
        if before == _resolve(config, revision):
            return None
        backup = _back_up(database, before) if before else None
        going_down = before is not None and revision != "head" and _is_older(config, revision, before)
        try:
            (command.downgrade if going_down else command.upgrade)(config, revision)
        except Exception as error:
            saved = f" A copy of it is in {backup}." if backup else ""
            raise StorageProblem(f"The database could not be migrated and is as it was before.{saved}") from error
    log.info("database migrated from %s to %s", before, revision)
    return str(backup) if backup else None


def is_current(database: Database, scripts: Path) -> bool:
    return current_revision(database) == _resolve(_alembic_config(database, scripts), "head")


def current_revision(database: Database) -> str | None:
    from sqlalchemy import inspect

    with explained(), database.engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return found


def _alembic_config(database: Database, scripts: Path) -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.attributes["engine"] = database.engine
    return config


def _resolve(config: Any, revision: str) -> str | None:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(config).as_revision_number(revision)  # type: ignore[return-value]  # stub says tuple too


def _is_older(config: Any, revision: str, than: str) -> bool:
    from alembic.script import ScriptDirectory

    older = {script.revision for script in ScriptDirectory.from_config(config).iterate_revisions(than, "base")}
    return revision == "base" or revision.startswith("-") or (revision in older and revision != than)


@contextmanager
def _migration_lock(database: Database) -> Iterator[None]:
    if not database.is_sqlite:  # PostgreSQL: migrations/env.py takes an advisory lock in its own transaction
        yield
        return
    with FileLock(f"{database.url.database}.migrating", timeout=120):
        yield


def _back_up(database: Database, revision: str) -> Path | None:
    if not database.is_sqlite or not database.url.database:
        return None
    source = Path(database.url.database)
    folder = source.parent / "backups"
    folder.mkdir(exist_ok=True)
    target = folder / f"{source.stem}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{revision}.db"
    with explained(), database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM INTO ?", (str(target),))
    for old in sorted(folder.glob(f"{source.stem}-*.db"))[:-KEEP_BACKUPS]:
        old.unlink()
    return target
