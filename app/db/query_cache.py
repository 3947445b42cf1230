"""A cache of what queries return, which holds until something is written to the database.

Several requests read the same cached object at once, so nobody may change it.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import update_wrapper
from threading import Lock
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sqlmodel import Session

from app.core import i18n

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
        """The cached answer as a list of one, or an empty list: None may be an answer."""
        with self._lock:
            answers = self._answers.get(read)
            if version != self._version or answers is None or key not in answers:
                return []
            answers.move_to_end(key)
            return [answers[key]]

    def put(self, version: Hashable, read: Callable[..., T], key: Hashable, answer: T, maxsize: int) -> None:
        """Store an answer; answers of an earlier version are dropped, and the oldest beyond `maxsize`."""
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
        """The answer if it is cached, else None; never runs the query."""
        cache: QueryCache | None = session.info.get(QUERY_CACHE)
        cached = cache.get(cache.version_of(session), self._read, _cache_key(args, kwargs)) if cache else []
        return cached[0] if cached else None


def _cache_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    return i18n.language(), args, tuple(sorted(kwargs.items()))


def cached_query(maxsize: int) -> Callable[[Callable[Concatenate[Session, P], T]], CachedQuery[P, T]]:
    """Decorate a function that only reads: its `maxsize` most recently used answers are cached until something is
    written."""
    return lambda read: CachedQuery(read, maxsize)
