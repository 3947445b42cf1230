"""Plays a suite: warm-ups and repetitions of every point, each round with as many simultaneous requests as its point
needs.

Each request of a round has its own connection and its own thread.
"""

import gc
import secrets
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter_ns
from typing import Any, NamedTuple

from app.core.errors import Cancelled, ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.samples import Sample, Status, Trace
from app.engines.base import LOG_OVERLAP, CompletionRequest, Counters, Engine
from app.engines.http import ServerClient
from app.measure.interference import foreign_work, is_still_busy, read_counters, suspended_seconds
from app.measure.job import Job, Prepared, TimedSample
from app.measure.waiting import POLL_S, Phase, Stop, wait_until_idle, waiting_phase
from app.metrics import FLAGS, flags_of, is_usable
from app.metrics.flags import SLEPT_S
from app.metrics.overlap import with_prefill_overlaps
from app.suites import Case

NONCE_BYTES = 4
THREAD_SWITCH_S = 0.0005

# --- a suite ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Round:
    """One round: one repetition of one point."""

    case: Case
    prompt_tokens: int | None
    """The number of prompt tokens by the server's tokenizer."""
    first_ordinal: int
    index: int
    is_warmup: bool
    server_was_busy: bool


def run_suite(job: Job, prepared: Prepared, stop: Stop) -> Iterator[Phase | TimedSample]:
    """Plays warm-ups, then repetitions, point by point. Ends early after a round in which a sample failed.

    This is a generator, so that its caller stores each sample as soon as it was taken. Raises ServerError when going on
    is pointless, Cancelled when `stop` is requested and all samples have been yielded.
    """
    ordinal, limits = 0, job.limits
    for case, prompt_tokens in prepared.cases:
        warmups = job.suite.warmups_of(case)
        for index in range(warmups + job.suite.repetitions):
            stop.check()
            is_busy = yield from wait_until_idle(job.engine, job.client, limits, stop)
            if is_busy:  # it has waited long enough once: the samples are flagged as busy
                limits = replace(limits, busy_timeout_s=0)
            if job.busy_check is not None:
                job.busy_check.measure_between(stop)
            round_ = _Round(case, prompt_tokens, ordinal, index, index < warmups, is_busy)
            timed_samples = yield from _play_round(job, round_, stop)
            learned = {
                key: value for timed in timed_samples for key, value in timed.sample.trace.learned_capabilities.items()
            }
            if learned:
                job = replace(job, capabilities={**job.capabilities, **learned})
            yield from timed_samples
            if any(timed.sample.trace.status is Status.FAILED for timed in timed_samples):
                return
            ordinal += len(timed_samples)
    if job.busy_check is not None:  # a program that started during the last round still runs
        job.busy_check.measure_between(stop)
    stop.check()


def _play_round(job: Job, round_: _Round, stop: Stop) -> Generator[Phase, None, list[TimedSample]]:
    """Returns the samples of a round. Some servers report that they are loading only when they are asked to answer:
    then it waits.

    Before and after, outside of the timed part, the server's counters show whether it worked for other clients.
    """
    first_try_s = time.monotonic()
    while True:
        nonces = [secrets.token_hex(NONCE_BYTES) for _ in range(round_.case.point.concurrency)]
        requests = [job.request(round_.case, nonce, round_.prompt_tokens) for nonce in nonces]
        if job.log is not None:
            job.log.begin_round()
        if job.busy_check is not None:
            job.busy_check.begin_round()
        if job.live is not None:
            key = job.engine.answering(job.client).key
            job.live.begin_round(key, round_.case.point, is_warmup=round_.is_warmup)
        counters, suspended_s = read_counters(job.engine, job.client), suspended_seconds()
        started_at, started_s = datetime.now(UTC), time.monotonic()
        try:
            traces: Sequence[Trace] = run_concurrent_requests(job.engine, job.client, requests, stop)
        except ServerError as error:
            waited_s = time.monotonic() - first_try_s
            if error.trouble is not ServerErrorKind.LOADING or waited_s > job.limits.loading_timeout_s:
                raise
            yield waiting_phase(error.message, waited_s)
            stop.sleep(POLL_S)
            continue
        seconds = time.monotonic() - started_s
        if job.busy_check is not None:
            job.busy_check.end_round(round_.case, is_warmup=round_.is_warmup)
        suspended_s = suspended_seconds() - suspended_s
        sensors: dict[str, Any] = {"slept_s": suspended_s} if suspended_s >= SLEPT_S else {}
        if stop.requested and any(trace.status is not Status.OK for trace in traces):
            sensors["cancelled"] = True
            traces = _started_before_cancel(traces)
        if round_.server_was_busy or _served_others(job, traces, counters):
            sensors["server_was_busy"] = True
        if job.log is not None:
            traces = job.log.add_figures(traces)
            if len(traces) == 1 and _overlaps_in_log(traces[0]):
                sensors["server_was_busy"] = True
        samples = with_prefill_overlaps(_to_samples(round_, traces, sensors, job.engine.answering(job.client).batches))
        return [TimedSample(sample, started_at, seconds) for sample in samples]


def _overlaps_in_log(trace: Trace) -> bool:
    """Whether the server's log shows another client's request at the same time."""
    return trace.server is not None and LOG_OVERLAP in trace.server.raw


def _started_before_cancel(traces: Sequence[Trace]) -> Sequence[Trace]:
    """Returns the answers that had begun before the run was cancelled. Raises Cancelled when there are none."""
    sentence = _("The run was cancelled in the middle of this answer.")
    started = [
        replace(trace, error=None if trace.status is Status.OK else sentence)
        for trace in traces
        if trace.status is not Status.FAILED
    ]
    if not started:
        raise Cancelled(_("Cancelled."))
    return started


def _served_others(job: Job, traces: Sequence[Trace], before: Counters | None) -> bool:
    if any(trace.status is not Status.OK for trace in traces):
        return False
    after = read_counters(job.engine, job.client) if before is not None else None
    return bool(foreign_work(traces, before, after)) or is_still_busy(job.engine, job.client)


def _to_samples(round_: _Round, traces: Sequence[Trace], sensors: Mapping[str, Any], batches: bool) -> list[Sample]:
    first_sent_ns = min((trace.sent_ns for trace in traces if trace.sent_ns), default=0)
    samples = []
    for stream, trace in enumerate(traces):
        sample = Sample(
            ordinal=round_.first_ordinal + stream,
            point=round_.case.point,
            is_warmup=round_.is_warmup,
            cache_defeat=trace.cache_defeat,
            trace=trace,
            expected_prompt_tokens=round_.prompt_tokens,
            reuses_cache=round_.case.reuses_cache,
            round=round_.index,
            stream=stream,
            sent_at_ms=(trace.sent_ns - first_sent_ns) / 1e6 if trace.sent_ns else 0.0,
            sensors=dict(sensors),
            engine_batches=batches,
        )
        samples.append(replace(sample, flags=flags_of(sample)))
    return samples


def failure_reason(samples: Sequence[Sample]) -> str | None:
    """Returns why a run that reached its end has no result, in one sentence; None when it has one."""
    measured = [sample for sample in samples if not sample.is_warmup]
    failed = next((sample for sample in samples if sample.trace.status is Status.FAILED), None)
    if failed is not None:
        return failed.trace.error or _("The server failed without saying why.")
    if any(is_usable(sample) for sample in measured):
        return None
    last = measured[-1] if measured else samples[-1]
    if last.trace.error:
        return _("No sample was complete: {error}", error=last.trace.error)
    why = next((_(FLAGS[key].sentence) for key in last.flags if key in FLAGS and FLAGS[key].disqualifies), None)
    return _("No sample was usable: {why}", why=why) if why else _("No sample was usable.")


# --- the requests of one round ---------------------------------------------------------------------------------------


class _FailedRequest(NamedTuple):
    """A request that the server refused, as it would refuse the next one."""

    trace: Trace
    error: ServerError


def run_concurrent_requests(
    engine: Engine, client: ServerClient, requests: Sequence[CompletionRequest], stop: Stop
) -> list[Trace]:
    """Sends all requests at once; returns the answers in their order, each with the time when it ended.

    When all have ended, raises the error of the first of them, unless others were answered: then it is one failed
    request among them. A loading server always raises, since the round is then played again. When stopped in the
    middle, returns only those that had begun, and closes `client` when there were several; raises Cancelled when there
    are none.
    """
    if len(requests) == 1:
        with stop.interruptible():
            started_ns = perf_counter_ns()
            return [_with_elapsed(engine.stream_completion(client, requests[0]), started_ns)]
    with _clients(client, len(requests)) as clients, _undelayed_reads():
        start = threading.Barrier(len(requests))

        def play(stream: int) -> Trace | _FailedRequest:
            try:
                with suppress(ServerError):  # its answer holds the error, and the other streams' answers are kept
                    engine.health(clients[stream])  # connects: that time belongs to no TTFT
            finally:
                start.wait()
            started_ns = perf_counter_ns()
            try:
                return _with_elapsed(engine.stream_completion(clients[stream], requests[stream]), started_ns)
            except ServerError as error:
                return _FailedRequest(_with_elapsed(Trace(Status.FAILED, error=error.message), started_ns), error)

        with ThreadPoolExecutor(len(requests), thread_name_prefix="stream") as threads:
            streams = [threads.submit(play, stream) for stream in range(len(requests))]
            try:
                with stop.interruptible():
                    wait(streams)
            except Cancelled:
                for stream_client in clients:  # wakes the threads that still read
                    stream_client.close()
                wait(streams)
                outcomes = [stream.result() for stream in streams if stream.exception() is None]
                if traces := [outcome for outcome in outcomes if isinstance(outcome, Trace)]:
                    return traces
                raise
            return _answers_or_raise([stream.result() for stream in streams])


def _answers_or_raise(outcomes: Sequence[Trace | _FailedRequest]) -> list[Trace]:
    failures = [outcome for outcome in outcomes if isinstance(outcome, _FailedRequest)]
    loading = [failure for failure in failures if failure.error.trouble is ServerErrorKind.LOADING]
    if loading or len(failures) == len(outcomes):
        raise (loading or failures)[0].error
    return [outcome.trace if isinstance(outcome, _FailedRequest) else outcome for outcome in outcomes]


def _with_elapsed(trace: Trace, started_ns: int) -> Trace:
    """Sets the elapsed time of a request that failed before anything came: it has no clock of its own, but counts in
    its round."""
    if trace.status is not Status.FAILED or trace.end_ms is not None:
        return trace
    return replace(trace, sent_ns=trace.sent_ns or started_ns, end_ms=(perf_counter_ns() - started_ns) / 1e6)


@contextmanager
def _clients(first: ServerClient, count: int) -> Iterator[list[ServerClient]]:
    with ExitStack() as stack:
        yield [first, *(stack.enter_context(first.sibling()) for _ in range(count - 1))]


@contextmanager
def _undelayed_reads() -> Iterator[None]:
    """Ensures in its block that no stream is read late because of another one.

    No garbage is collected, not even between two streams of the round (see engines.protocol.sse.record). A stream that
    has ended is evaluated while others still arrive, so the interpreter must switch threads sooner than after the usual
    5 ms.
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
