"""The database: connections, transactions, and a cache of queries that holds until something is written.

SQLite by default, PostgreSQL by its URL. A SQLite fact that shapes this file: a transaction that reads first and writes
later fails at once in WAL mode, whatever the busy timeout, so writers say `BEGIN IMMEDIATE`. Several requests read the
same cached object at once, so nobody may change it.
"""

import logging
import re
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import update_wrapper
from pathlib import Path
from threading import Lock
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import Session

from app.core import i18n
from app.core.errors import BadInput, Busy, StorageError
from app.core.i18n import N_, _, dumps, loads

P = ParamSpec("P")
T = TypeVar("T")

QUERY_CACHE = "query_cache"
"""The key in `Session.info` of the database's QueryCache; only sessions that only read have one."""


class QueryCache:
    """The cached answers of one database, all from the same version of its data."""

    def __init__(self, version: Callable[[Session], Hashable]) -> None:
        self.version_of = version
        self._version: Hashable = None
        self._answers: dict[Callable[..., Any], OrderedDict[Hashable, Any]] = {}
        self._lock = Lock()

    def get(self, version: Hashable, read: Callable[..., T], key: Hashable) -> list[T]:
        """Returns the cached answer as a list of one, or an empty list, since None may be an answer."""
        with self._lock:
            answers = self._answers.get(read)
            if version != self._version or answers is None or key not in answers:
                return []
            answers.move_to_end(key)
            return [answers[key]]

    def put(self, version: Hashable, read: Callable[..., T], key: Hashable, answer: T, maxsize: int) -> None:
        """Stores an answer; answers of an earlier version are dropped, and the oldest beyond `maxsize`."""
        with self._lock:
            if version != self._version:
                self._version = version
                self._answers.clear()
            answers = self._answers.setdefault(read, OrderedDict())
            answers[key] = answer
            while len(answers) > maxsize:
                answers.popitem(last=False)


class CachedQuery(Generic[P, T]):
    """A function that only reads, with a cache of its `maxsize` most recently used answers.

    The cache key is its arguments and the reader's language.
    """

    def __init__(self, read: Callable[Concatenate[Session, P], T], maxsize: int) -> None:
        update_wrapper(self, read)
        self._read = read
        self._maxsize = maxsize

    def __call__(self, session: Session, /, *args: P.args, **kwargs: P.kwargs) -> T:
        cache: QueryCache | None = session.info.get(QUERY_CACHE)
        if cache is None:  # a session that writes sees rows that no other session sees yet
            return self._read(session, *args, **kwargs)
        version, key = cache.version_of(session), _cache_key(args, kwargs)
        for answer in cache.get(version, self._read, key):
            return answer
        answer = self._read(session, *args, **kwargs)
        cache.put(version, self._read, key, answer, self._maxsize)
        return answer

    def peek(self, session: Session, /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Returns the answer if it is cached, else None; never runs the query."""
        cache: QueryCache | None = session.info.get(QUERY_CACHE)
        cached = cache.get(cache.version_of(session), self._read, _cache_key(args, kwargs)) if cache else []
        return cached[0] if cached else None


def _cache_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    return i18n.language(), args, tuple(sorted(kwargs.items()))


def cached_query(maxsize: int) -> Callable[[Callable[Concatenate[Session, P], T]], CachedQuery[P, T]]:
    """Decorates a function that only reads: its `maxsize` most recently used answers are cached until something is
    written."""
    return lambda read: CachedQuery(read, maxsize)


log = logging.getLogger(__name__)


BUSY_TIMEOUT_MS = 5000


class Database:
    """One engine and the two ways to use it: `read()` and `write()`.

    Both give a session; `write()` commits at the end of the block and rolls back on an error. Raises StorageError
    when the URL names no SQLite file and no PostgreSQL database, or when the file's folder cannot be made. Every
    session has `session_info` in its `info`.
    """

    def __init__(self, url: str, session_info: Mapping[str, Any] | None = None) -> None:
        self.url: URL = _checked(url)
        self._session_info = dict(session_info or {})
        self.engine: Engine = _create_engine(self.url)
        self._versions = _Versions(self.url) if self.is_sqlite else None
        self._query_cache = QueryCache(_version)

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Opens a session that only reads, with a memo and the query cache."""
        with translate_db_errors(), Session(self.engine, expire_on_commit=False) as session:
            session.info |= {**self._session_info, _MEMO: {}, QUERY_CACHE: self._query_cache}
            if self._versions is not None:  # before anything is read, so that nothing older passes for this version
                session.info[_VERSION] = self._versions.now()
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Opens a session that commits at the end of the block and rolls back on an error."""
        writer = self.engine.execution_options(roofmark_write=True)
        with translate_db_errors(), Session(writer, expire_on_commit=False) as session, session.begin():
            session.info |= self._session_info
            yield session

    def dispose(self) -> None:
        """Closes all connections."""
        self.engine.dispose()
        if self._versions is not None:
            self._versions.close()


_MEMO = "memo"


def session_memo(session: Session, read: Callable[..., T], *args: Hashable) -> T:
    """Returns the result of `read(session, *args)`, read once in each session that only reads: nothing changes during
    it."""
    memo: dict[Hashable, T] | None = session.info.get(_MEMO)
    if memo is None:
        return read(session, *args)
    if (read, args) not in memo:
        memo[read, args] = read(session, *args)
    return memo[read, args]


_VERSION = "version"


def _version(session: Session) -> Hashable:
    """Returns a version of the data that changes with every commit of any client. On PostgreSQL it is the set of
    visible transactions."""
    if _VERSION not in session.info:
        session.info[_VERSION] = session.execute(text("SELECT CAST(pg_current_snapshot() AS text)")).scalar_one()
    version: Hashable = session.info[_VERSION]
    return version


class _Versions:
    """Versions of a SQLite database. Each connection counts the commits of all others, so this one never writes."""

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

_BROKEN = N_("The text contains an invalid character that cannot be stored.")
_NUL = re.compile(r"NUL \(0x00\)|\\u0000 cannot be converted")
_BUSY = N_("The database is locked by another process. Try again in a moment.")
_SENTENCES = (
    (
        r"disk is full|no space left|disk I/O error|quota exceeded",
        N_("The disk is full or failing: nothing was stored, and earlier data is unharmed."),
    ),
    (r"readonly|read-only", N_("The database is read-only: check who owns the data folder.")),
    (r"locked|too many clients|QueuePool", _BUSY),
    (r"unable to open", N_("The database file cannot be opened: check the data folder and its permissions.")),
    (
        r"malformed|not a database",
        N_(
            "The database file is damaged or is not a SQLite file: replace it with the newest file of the `backups` "
            "folder."
        ),
    ),
    (
        r"no such (table|column)|(relation|column) .* does not exist|undefined (table|column)",
        N_("The database has another layout than this version expects: run `roofmark migrate`."),
    ),
    (
        r"connection (failed|refused)|could not (connect|translate)|failed to resolve|server closed|timeout expired",
        N_("The database server cannot be used: check that it runs and what ROOFMARK_DATABASE_URL says."),
    ),
)


@contextmanager
def translate_db_errors() -> Iterator[None]:
    """Raises StorageError for errors of the database or the disk; integrity errors pass, since callers know what they
    mean."""
    try:
        yield
    except IntegrityError:
        raise
    except UnicodeEncodeError as error:  # a lone surrogate: half a character
        raise BadInput(_(_BROKEN)) from error
    except (DBAPIError, sqlite3.Error, PoolTimeout) as error:  # sqlite3's own: from the pragmas of a new connection
        if _NUL.search(str(error)):  # the one character that PostgreSQL cannot store
            raise BadInput(_(_BROKEN)) from error
        message = error_message(error)
        raise (Busy if message == _BUSY else StorageError)(_(message)) from error


def error_message(
    error: Exception, otherwise: str = N_("The database reported an error; the log has the details.")
) -> str:
    """Returns what went wrong as a sentence for a person; an unexpected error is logged."""
    cause = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    for pattern, sentence in _SENTENCES:
        if re.search(pattern, cause, re.IGNORECASE):
            return sentence
    log.error("%s: %s", type(error).__name__, cause)
    return otherwise


# --- connections -----------------------------------------------------------------------------------------------------


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
    except Exception as error:  # each malformed part has its own type
        raise StorageError("The database URL cannot be read: check ROOFMARK_DATABASE_URL.") from error
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "postgresql+psycopg"):
        raise StorageError("Roofmark stores in SQLite or PostgreSQL: ROOFMARK_DATABASE_URL names another database.")
    name = parsed.database or ":memory:"
    if parsed.drivername == "sqlite" and (name == ":memory:" or name.startswith("file:")):
        raise StorageError("ROOFMARK_DATABASE_URL must name a file by its path, as in sqlite:///roofmark.db.")
    return parsed


_JSON: dict[str, Any] = {"json_serializer": dumps, "json_deserializer": loads}
"""Serializers of JSON columns, which hold messages."""


def _create_engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, pool_pre_ping=True, **_JSON)
        except ImportError as error:
            raise StorageError("PostgreSQL needs its driver: pip install 'roofmark[postgres]'.") from error
    folder = Path(str(url.database)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"The data folder {folder} cannot be made: {error.strerror}.") from error
    # autocommit mode of the driver: the BEGIN below is the only one
    engine = create_engine(url, connect_args={"isolation_level": None, "check_same_thread": False}, **_JSON)
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def _set_pragmas(connection: Any, _record: object) -> None:
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "foreign_keys=ON", "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}")
    connection.create_function("unicode_lower", 1, _lower, deterministic=True)


def _lower(value: Any) -> Any:
    """Lower-cases any text: SQLite's own function knows ASCII only; a JSON value may be a number."""
    return value.lower() if isinstance(value, str) else value


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("roofmark_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
