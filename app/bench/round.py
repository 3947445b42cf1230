"""One round: as many requests at once as a point asks for, each on its own connection and in its own thread."""

import gc
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress

from app.bench.stop import Stop
from app.engines.base import Ask, Engine
from app.errors import Cancelled, ServerProblem
from app.http import ServerClient
from app.samples import Trace

HANDOVER_S = 0.0005


def play_round(engine: Engine, client: ServerClient, asks: Sequence[Ask], stop: Stop) -> list[Trace]:
    """The answers in the order of `asks`.

    When all have ended, raises what the first of them raised. When stopped in the middle, only those of which a part
    has come, and `client` is closed where there were several; raises Cancelled when there is none.
    """
    if len(asks) == 1:
        with stop.interruptible():
            return [engine.play(client, asks[0])]
    with _clients(client, len(asks)) as clients, _promptly():
        start = threading.Barrier(len(asks))

        def play(stream: int) -> Trace:
            try:
                with suppress(ServerProblem):  # its answer says what is wrong, and the other streams' answers are kept
                    engine.health(clients[stream])  # connects: that time belongs to no TTFT
            finally:
                start.wait()
            return engine.play(clients[stream], asks[stream])

        with ThreadPoolExecutor(len(asks), thread_name_prefix="stream") as threads:
            streams = [threads.submit(play, stream) for stream in range(len(asks))]
            try:
                with stop.interruptible():
                    wait(streams)
            except Cancelled:
                for each in clients:  # wakes the threads that still read
                    each.close()
                wait(streams)
                if begun := [stream.result() for stream in streams if stream.exception() is None]:
                    return begun
                raise
            return [stream.result() for stream in streams]


@contextmanager
def _clients(first: ServerClient, count: int) -> Iterator[list[ServerClient]]:
    with ExitStack() as stack:
        yield [first, *(stack.enter_context(first.sibling()) for _ in range(count - 1))]


@contextmanager
def _promptly() -> Iterator[None]:
    """So that no stream is read late for the sake of another one.

    Nothing is collected, not even between two streams of the round (see engines._stream.record). A stream that has
    ended is worked out while others still arrive: whoever reads must not wait the usual 5 ms for the interpreter.
    """
    collects, interval_s = gc.isenabled(), sys.getswitchinterval()
    gc.disable()
    sys.setswitchinterval(HANDOVER_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        if collects:
            gc.enable()
