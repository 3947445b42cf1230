"""The database: connections, transactions and migrations. SQLite by default, PostgreSQL by its URL.

SQLite facts that shape this file: a transaction that reads first and writes later fails at once in WAL mode, whatever
the busy timeout, so writers say `BEGIN IMMEDIATE`; and dropping a table with foreign keys ON deletes its children, so
migrations run with them OFF and check afterwards (migrations/env.py).
"""

import glob
import logging
import re
import sqlite3
from collections.abc import Callable, Hashable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import Session

from app.errors import BadInput, Busy, StorageProblem
from app.i18n import _, marked
from app.kept import KEPT, Kept

log = logging.getLogger(__name__)

T = TypeVar("T")

BUSY_TIMEOUT_MS = 5000
MIGRATION_TIMEOUT_S = 120
KEEP_BACKUPS = 5


class Database:
    """One engine and the two ways to use it: `read()` and `write()`.

    Both give a session; `write()` commits at the end of the block and rolls back on an error. Raises StorageProblem
    when the URL names no SQLite file and no PostgreSQL database, or when the file's folder cannot be made.
    """

    def __init__(self, url: str) -> None:
        self.url: URL = _checked(url)
        self.engine: Engine = _create_engine(self.url)
        self._versions = _Versions(self.url) if self.is_sqlite else None
        self._kept = Kept(_version)

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Session]:
        with explained(), Session(self.engine, expire_on_commit=False) as session:
            session.info |= {_REMEMBERED: {}, KEPT: self._kept}
            if self._versions is not None:  # before anything is read, so that nothing older passes for this version
                session.info[_VERSION] = self._versions.now()
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        writer = self.engine.execution_options(roofmark_write=True)
        with explained(), Session(writer, expire_on_commit=False) as session, session.begin():
            yield session

    def dispose(self) -> None:
        self.engine.dispose()
        if self._versions is not None:
            self._versions.close()


_REMEMBERED = "remembered"


def remembered(session: Session, read: Callable[..., T], *about: Hashable) -> T:
    """`read(session, *about)`, asked once in each session that only reads: nothing changes under it."""
    memory: dict[Hashable, T] | None = session.info.get(_REMEMBERED)
    if memory is None:
        return read(session, *about)
    if (read, about) not in memory:
        memory[read, about] = read(session, *about)
    return memory[read, about]


_VERSION = "version"


def _version(session: Session) -> Hashable:
    """Another one after every commit of anybody. PostgreSQL says which transactions are seen."""
    if _VERSION not in session.info:
        session.info[_VERSION] = session.execute(text("SELECT CAST(pg_current_snapshot() AS text)")).scalar_one()
    version: Hashable = session.info[_VERSION]
    return version


class _Versions:
    """Of a SQLite database: each connection counts the commits of all others, so this one never writes."""

    def __init__(self, url: URL) -> None:
        self._path = str(url.database)
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def now(self) -> int:
        with self._lock:
            if self._connection is None:
                self._connection = sqlite3.connect(
                    self._path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None, check_same_thread=False
                )
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
            return version

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None


# --- what went wrong, in one sentence --------------------------------------------------------------------------------

_BROKEN = marked("The text holds a broken character that cannot be stored.")
_NUL = re.compile(r"NUL \(0x00\)|\\u0000 cannot be converted")
_BUSY = marked("The database is busy: others hold it. Try again in a moment.")
_SENTENCES = (
    (
        r"disk is full|no space left|disk I/O error|quota exceeded",
        marked("The disk is full or failing: nothing was stored, what was there before is unharmed."),
    ),
    (r"readonly|read-only", marked("The database is read-only: check who owns the data folder.")),
    (r"locked|too many clients|QueuePool", _BUSY),
    (r"unable to open", marked("The database file cannot be opened: check the data folder and its permissions.")),
    (
        r"malformed|not a database",
        marked(
            "The database file is damaged or is no SQLite file: put the newest file of the `backups` folder in its "
            "place."
        ),
    ),
    (
        r"no such (table|column)|(relation|column) .* does not exist|undefined (table|column)",
        marked("The database has another layout than this version expects: run `roofmark migrate`."),
    ),
    (
        r"connection (failed|refused)|could not (connect|translate)|failed to resolve|server closed|timeout expired",
        marked("The database server cannot be used: check that it runs and what ROOFMARK_DATABASE_URL says."),
    ),
)


@contextmanager
def explained() -> Iterator[None]:
    """Turns what a database or disk says into StorageProblem; integrity errors pass, callers know what they mean."""
    try:
        yield
    except IntegrityError:
        raise
    except UnicodeEncodeError as error:  # a lone surrogate: half a character
        raise BadInput(_(_BROKEN)) from error
    except (DBAPIError, sqlite3.Error, PoolTimeout) as error:  # sqlite3's own: from the pragmas of a new connection
        if _NUL.search(str(error)):  # the one character that PostgreSQL cannot store
            raise BadInput(_(_BROKEN)) from error
        sentence = _sentence(error)
        raise (Busy if sentence == _BUSY else StorageProblem)(_(sentence)) from error


def _sentence(
    error: Exception, otherwise: str = marked("The database did not do what was asked; the log says why.")
) -> str:
    cause = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    for pattern, told in _SENTENCES:
        if re.search(pattern, cause, re.IGNORECASE):
            return told
    log.error("%s: %s", type(error).__name__, cause)
    return otherwise


# --- connections -----------------------------------------------------------------------------------------------------


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
    except Exception as error:  # each malformed part has its own type
        raise StorageProblem("The database URL cannot be read: check ROOFMARK_DATABASE_URL.") from error
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "postgresql+psycopg"):
        raise StorageProblem("Roofmark stores in SQLite or PostgreSQL: ROOFMARK_DATABASE_URL names another database.")
    name = parsed.database or ":memory:"
    if parsed.drivername == "sqlite" and (name == ":memory:" or name.startswith("file:")):
        raise StorageProblem("ROOFMARK_DATABASE_URL must name a file by its path, as in sqlite:///roofmark.db.")
    return parsed


def _create_engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, pool_pre_ping=True)
        except ImportError as error:
            raise StorageProblem("PostgreSQL needs its driver: pip install 'roofmark[postgres]'.") from error
    folder = Path(str(url.database)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageProblem(f"The data folder {folder} cannot be made: {error.strerror}.") from error
    # autocommit mode of the driver: the BEGIN below is the only one
    engine = create_engine(url, connect_args={"isolation_level": None, "check_same_thread": False})
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def _set_pragmas(connection: Any, _record: object) -> None:
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "foreign_keys=ON", "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("roofmark_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


# --- migrations ------------------------------------------------------------------------------------------------------


def migrate(database: Database, scripts: Path, revision: str = "head") -> str | None:
    """Bring the database to `revision`, up or down; returns the backup's path, if one was made.

    `revision` is a revision's number, `head` or `base`. A SQLite database that has tables is copied into `backups/`
    beside it first. Two processes that start at once wait for each other. A migration that fails leaves the database
    as it was. Raises BadInput for an unknown revision, StorageProblem for everything else.
    """
    known = revisions(scripts)
    target = {"head": known[-1], "base": None}.get(revision, revision)
    if target not in (None, *known):
        raise BadInput(f"There is no revision {revision}: known are {', '.join(known)}, head and base.")
    if current_revision(database) == target:
        return None  # without the lock: a database on a full or read-only disk can still be read
    with _migration_lock(database):
        if database.is_sqlite:
            _use_wal(database)
        before = current_revision(database)
        if before == target:
            return None
        if before not in (None, *known):
            raise StorageProblem(
                f"The database was written by a newer Roofmark (revision {before}, this version knows {known[-1]}): "
                "update Roofmark or restore a backup."
            )
        backup = _back_up(database, before) if before else None
        _run_alembic(database, scripts, target, down=(before or "") > (target or ""), backup=backup)
    log.info("database migrated from %s to %s", before or "nothing", target or "nothing")
    return str(backup) if backup else None


def current_revision(database: Database) -> str | None:
    """The revision the database is at; None: it has no tables."""
    with explained(), database.engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return found


def revisions(scripts: Path) -> list[str]:
    """Every revision, oldest first. They are numbered in their file names, so no command has to import Alembic to
    learn that nothing is to be done; a test compares this with what Alembic says."""
    return sorted(path.name.partition("_")[0] for path in (scripts / "versions").glob("[0-9]*.py"))


def alembic_config(database: Database, scripts: Path) -> Any:
    """Alembic's Config for this database: a wheel carries no ini file, so everything is said here."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.attributes["engine"] = database.engine
    return config


def _run_alembic(database: Database, scripts: Path, target: str | None, *, down: bool, backup: Path | None) -> None:
    from alembic import command

    move = command.downgrade if down else command.upgrade
    try:
        move(alembic_config(database, scripts), target or "base")
    except Exception as error:  # a migration is free to raise anything
        reason = _sentence(error, "The database could not be migrated; the log says why.")
        saved = f" A copy of it is {backup}." if backup else ""
        raise StorageProblem(f"{reason} The database is as it was before the migration.{saved}") from error


@contextmanager
def _migration_lock(database: Database) -> Iterator[None]:
    if not database.is_sqlite:  # PostgreSQL: migrations/env.py takes an advisory lock in its own transaction
        yield
        return
    from filelock import FileLock, Timeout  # only where there is something to migrate

    lock = FileLock(f"{database.url.database}.migrating", timeout=MIGRATION_TIMEOUT_S)
    try:
        lock.acquire()
    except Timeout as error:
        raise StorageProblem("Another Roofmark is still migrating the database: try again when it is done.") from error
    except OSError as error:
        raise StorageProblem(f"The folder of the database cannot be written: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()


def _use_wal(database: Database) -> None:
    """The file remembers the mode. Set under the lock: two processes that switch at once fail, busy timeout or not."""
    with explained(), closing(database.engine.raw_connection()) as connection:
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
        with explained(), closing(database.engine.raw_connection()) as connection:
            connection.cursor().execute("VACUUM INTO ?", (str(partial),))
        partial.rename(target)
        for old in sorted(folder.glob(f"{glob.escape(source.stem)}-*.db"))[:-KEEP_BACKUPS]:
            old.unlink()
    except OSError as error:
        raise StorageProblem(f"No backup could be made, so nothing was migrated: {error.strerror}.") from error
    finally:
        partial.unlink(missing_ok=True)
    return target
