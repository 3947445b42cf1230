"""One round: as many requests at once as a point asks for, each on its own connection and in its own thread."""

import gc
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from time import perf_counter_ns
from typing import NamedTuple

from app.core.errors import Cancelled, ServerError, ServerErrorKind
from app.core.samples import Status, Trace
from app.engines.base import CompletionRequest, Engine
from app.engines.http import ServerClient
from app.measure.bench.stop import Stop

THREAD_SWITCH_S = 0.0005


def run_concurrent_requests(
    engine: Engine, client: ServerClient, asks: Sequence[CompletionRequest], stop: Stop
) -> list[Trace]:
    """The answers in the order of `asks`, each with the time when it was over.

    When all have ended, raises what the first of them raised, unless others were answered: then it is one failed
    request among them. That the server is loading is raised always, since the round is then played again. When stopped
    in the middle, only those of which a part has come, and `client` is closed where there were several; raises
    Cancelled when there is none.
    """
    if len(asks) == 1:
        with stop.interruptible():
            began_ns = perf_counter_ns()
            return [_with_elapsed(engine.play(client, asks[0]), began_ns)]
    with _clients(client, len(asks)) as clients, _undelayed_reads():
        start = threading.Barrier(len(asks))

        def play(stream: int) -> Trace | _FailedRequest:
            try:
                with suppress(ServerError):  # its answer says what is wrong, and the other streams' answers are kept
                    engine.health(clients[stream])  # connects: that time belongs to no TTFT
            finally:
                start.wait()
            began_ns = perf_counter_ns()
            try:
                return _with_elapsed(engine.play(clients[stream], asks[stream]), began_ns)
            except ServerError as problem:
                return _FailedRequest(_with_elapsed(Trace(Status.FAILED, error=str(problem)), began_ns), problem)

        with ThreadPoolExecutor(len(asks), thread_name_prefix="stream") as threads:
            streams = [threads.submit(play, stream) for stream in range(len(asks))]
            try:
                with stop.interruptible():
                    wait(streams)
            except Cancelled:
                for each in clients:  # wakes the threads that still read
                    each.close()
                wait(streams)
                ended = [stream.result() for stream in streams if stream.exception() is None]
                if begun := [each for each in ended if isinstance(each, Trace)]:
                    return begun
                raise
            return _answers_or_raise([stream.result() for stream in streams])


class _FailedRequest(NamedTuple):
    """What a stream met that the next request would meet as well."""

    trace: Trace
    problem: ServerError


def _answers_or_raise(outcomes: Sequence[Trace | _FailedRequest]) -> list[Trace]:
    refusals = [outcome for outcome in outcomes if isinstance(outcome, _FailedRequest)]
    loading = [refusal for refusal in refusals if refusal.problem.trouble is ServerErrorKind.LOADING]
    if loading or len(refusals) == len(outcomes):
        raise (loading or refusals)[0].problem
    return [outcome.trace if isinstance(outcome, _FailedRequest) else outcome for outcome in outcomes]


def _with_elapsed(trace: Trace, began_ns: int) -> Trace:
    """A request that failed before anything came has no clock of its own, but what it cost its round counts."""
    if trace.status is not Status.FAILED or trace.end_ms is not None:
        return trace
    return replace(trace, sent_ns=trace.sent_ns or began_ns, end_ms=(perf_counter_ns() - began_ns) / 1e6)


@contextmanager
def _clients(first: ServerClient, count: int) -> Iterator[list[ServerClient]]:
    with ExitStack() as stack:
        yield [first, *(stack.enter_context(first.sibling()) for _ in range(count - 1))]


@contextmanager
def _undelayed_reads() -> Iterator[None]:
    """So that no stream is read late for the sake of another one.

    Nothing is collected, not even between two streams of the round (see engines._stream.record). A stream that has
    ended is worked out while others still arrive: whoever reads must not wait the usual 5 ms for the interpreter.
    """
    collects, interval_s = gc.isenabled(), sys.getswitchinterval()
    gc.disable()
    sys.setswitchinterval(THREAD_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        if collects:
            gc.enable()
