from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Protocol

import pytest

from app.core.settings import Settings
from app.engines.http import ServerClient
from tests.replay import Answerer, Replay, Script, serve


class Connect(Protocol):
    def __call__(
        self,
        routes: Mapping[str, Script | Answerer],
        path: str = "",
        *,
        key: str | None = None,
        pace: float = 1.0,
        **settings: float,
    ) -> tuple[Replay, ServerClient]: ...


@pytest.fixture
def connect() -> Iterator[Connect]:
    """A replayed server and a client of it; both end with the test."""
    with ExitStack() as stack:

        def connect(
            routes: Mapping[str, Script | Answerer],
            path: str = "",
            *,
            key: str | None = None,
            pace: float = 1.0,
            **settings: float,
        ) -> tuple[Replay, ServerClient]:
            replay = stack.enter_context(serve(routes, pace))
            client = ServerClient(replay.url + path, key, Settings().model_copy(update=settings))
            return replay, stack.enter_context(client)

        yield connect
