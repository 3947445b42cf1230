"""Answers of the database that are kept until something is written to it: who asks again does not wait again.

What is kept is read by several requests at once: nobody changes it.
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

QUERY_CACHE = "kept"
"""Where a session that only reads holds the QueryCache of its database."""


class QueryCache:
    """The answers of one database, all of the same version of what is in it."""

    def __init__(self, version: Callable[[Session], Hashable]) -> None:
        self.version_of = version
        self._version: Hashable = None
        self._answers: dict[Callable[..., Any], OrderedDict[Hashable, Any]] = {}
        self._lock = Lock()

    def known(self, version: Hashable, read: Callable[..., T], about: Hashable) -> list[T]:
        """The answer alone, or nothing."""
        with self._lock:
            answers = self._answers.get(read)
            if version != self._version or answers is None or about not in answers:
                return []
            answers.move_to_end(about)
            return [answers[about]]

    def keep(self, version: Hashable, read: Callable[..., T], about: Hashable, answer: T, most: int) -> None:
        with self._lock:
            if version != self._version:
                self._version = version
                self._answers.clear()
            answers = self._answers.setdefault(read, OrderedDict())
            answers[about] = answer
            while len(answers) > most:
                answers.popitem(last=False)


class CachedQuery(Generic[P, T]):
    """A function that only reads: of its answers the `most` that were asked for last are kept, by its arguments and the
    reader's language."""

    def __init__(self, read: Callable[Concatenate[Session, P], T], most: int) -> None:
        update_wrapper(self, read)
        self._read = read
        self._most = most

    def __call__(self, session: Session, /, *args: P.args, **kwargs: P.kwargs) -> T:
        memory: QueryCache | None = session.info.get(QUERY_CACHE)
        if memory is None:  # one that writes sees what nobody else sees yet
            return self._read(session, *args, **kwargs)
        version, about = memory.version_of(session), _cache_key(args, kwargs)
        for answer in memory.known(version, self._read, about):
            return answer
        answer = self._read(session, *args, **kwargs)
        memory.keep(version, self._read, about, answer, self._most)
        return answer

    def known(self, session: Session, /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The answer if it is kept."""
        memory: QueryCache | None = session.info.get(QUERY_CACHE)
        found = memory.known(memory.version_of(session), self._read, _cache_key(args, kwargs)) if memory else []
        return found[0] if found else None


def _cache_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
    return i18n.language(), args, tuple(sorted(kwargs.items()))


def cached_query(most: int) -> Callable[[Callable[Concatenate[Session, P], T]], CachedQuery[P, T]]:
    return lambda read: CachedQuery(read, most)
