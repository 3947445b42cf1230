"""Before a sample: the server is there, loaded and idle. Waiting is visible: each check yields what it waits for."""

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _, joined
from app.core.units import format_duration
from app.engines.base import Engine
from app.engines.http import ServerClient
from app.measure.bench.progress import Phase
from app.measure.bench.stop import Stop

POLL_S = 0.5


@dataclass(frozen=True)
class Limits:
    loading_timeout_s: float = 900.0
    busy_timeout_s: float = 60.0


def wait_until_ready(engine: Engine, client: ServerClient, limits: Limits, stop: Stop) -> Iterator[Phase]:
    """Until the model is loaded, busy or not. Raises ServerError when that takes too long, or nothing is there."""
    yield from wait_until_idle(engine, client, replace(limits, busy_timeout_s=-1), stop)


def wait_until_idle(engine: Engine, client: ServerClient, limits: Limits, stop: Stop) -> Generator[Phase, None, bool]:
    """Until the model is loaded and no other request is being worked on, as far as the engine tells.

    Asking keeps the connection warm besides. Returns (as the generator's value) whether the server is still busy after
    `busy_timeout_s`: the sample is taken all the same, and says so.
    """
    begun = time.monotonic()
    while True:
        health = engine.health(client)
        waited = time.monotonic() - begun
        if not health.ready and waited > limits.loading_timeout_s:
            raise ServerError(
                _(
                    "The server did not get ready within {time}: {detail}",
                    time=format_duration(limits.loading_timeout_s),
                    detail=health.detail,
                ),
                ServerErrorKind.LOADING,
            )
        if health.ready and (not health.busy or waited > limits.busy_timeout_s):
            return bool(health.busy)
        yield waiting_for(health.detail, waited)
        pause(stop)


def waiting_for(why: str, seconds: float) -> Phase:
    return Phase(joined(why, _("Waiting for {time}.", time=format_duration(seconds))))


def pause(stop: Stop) -> None:
    with stop.interruptible():
        time.sleep(POLL_S)
