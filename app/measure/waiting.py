"""Waiting for a server until it is loaded and idle, and stopping a run at a safe moment.

A signal may come at any moment, but must not interrupt a database write: `Stop` interrupts only where the code allows
it. Waiting is visible: each check yields the `Phase` that a person sees meanwhile.
"""

import signal
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType

from app.core.errors import Cancelled, ServerError, ServerErrorKind
from app.core.i18n import _, joined
from app.core.units import format_duration
from app.engines.base import Engine, Health
from app.engines.http import ServerClient
from app.engines.openai import MODELS
from app.engines.protocol.answers import object_in
from app.engines.protocol.models import listed_models

POLL_S = 0.5
_HINDERED = (
    ServerErrorKind.NEEDS_KEY,
    ServerErrorKind.SERVER_ERROR,
    ServerErrorKind.TIMEOUT,
    ServerErrorKind.NOT_LLM,
)


class Stop:
    """Stores a request to stop; interrupts only where the code allows it."""

    def __init__(self) -> None:
        self.requested = False
        self._may_interrupt = False

    def request(self) -> None:
        """Requests a stop. Raises Cancelled at once where interrupting is allowed."""
        self.requested = True
        if self._may_interrupt:
            raise Cancelled(_("Cancelled."))

    def check(self) -> None:
        """Raises Cancelled when stopping was requested."""
        if self.requested:
            raise Cancelled(_("Cancelled."))

    def sleep(self, seconds: float) -> None:
        """Sleeps. Raises Cancelled at once when stopping is requested meanwhile."""
        with self.interruptible():
            time.sleep(seconds)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """In its block, a request raises Cancelled at once, even out of a blocking read."""
        self.check()
        self._may_interrupt = True
        try:
            yield
        finally:
            self._may_interrupt = False

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """In its block, SIGINT and SIGTERM request a stop; works only in the main thread."""

        def handle(_number: int, _frame: FrameType | None) -> None:
            self.request()

        previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


@dataclass(frozen=True)
class Phase:
    """What a run is doing, in one sentence for a person."""

    sentence: str


@dataclass(frozen=True)
class WaitLimits:
    """How long a run waits for a server that loads its model, and for one that works for another client."""

    loading_timeout_s: float = 900.0
    busy_timeout_s: float = 60.0


def wait_until_ready(engine: Engine, client: ServerClient, limits: WaitLimits, stop: Stop) -> Iterator[Phase]:
    """Waits until the model is loaded, busy or not. Raises ServerError when that takes too long, or no server
    answers."""
    yield from wait_until_idle(engine, client, replace(limits, busy_timeout_s=-1), stop)


def wait_until_idle(
    engine: Engine, client: ServerClient, limits: WaitLimits, stop: Stop
) -> Generator[Phase, None, bool]:
    """Waits until the model is loaded and no other request is being processed, as far as the engine reports that.

    The health requests also keep the connection warm. Returns (as the generator's value) whether the server is still
    busy after `busy_timeout_s`: the sample is taken all the same and is flagged. Raises ServerError when loading takes
    too long.
    """
    started_s = time.monotonic()
    while True:
        health = _health(engine, client)
        waited_s = time.monotonic() - started_s
        if not health.ready and waited_s > limits.loading_timeout_s:
            raise ServerError(
                _(
                    "The server did not become ready within {time}: {detail}",
                    time=format_duration(limits.loading_timeout_s),
                    detail=health.detail,
                ),
                ServerErrorKind.LOADING,
            )
        if health.ready and (not health.busy or waited_s > limits.busy_timeout_s):
            return bool(health.busy)
        yield waiting_phase(health.detail, waited_s)
        stop.sleep(POLL_S)


def _health(engine: Engine, client: ServerClient) -> Health:
    """The server's health; unknown where a proxy refuses or swallows the engine's own question, but lets OpenAI's API
    through. Raises ServerError when that does not answer either."""
    try:
        return engine.health(client)
    except ServerError as problem:
        if problem.trouble not in _HINDERED or not _lists_models(client):
            raise
        return Health(ready=True, detail=_("The server does not report its health."))


def _lists_models(client: ServerClient) -> bool:
    try:
        answer = client.get(MODELS)
    except ServerError:  # the engine's own problem says more
        return False
    return answer.status < 300 and bool(listed_models(object_in(answer)))


def waiting_phase(reason: str, seconds: float) -> Phase:
    """Returns the phase of a run that waits: the reason, and how long it has been waiting."""
    return Phase(joined(reason, _("Waiting for {time}.", time=format_duration(seconds))))
