"""Warm-ups and repetitions of every point."""

import secrets
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from app.core.errors import Cancelled, ServerError, ServerErrorKind
from app.core.i18n import _
from app.core.samples import Sample, Status, Trace
from app.engines.base import LOG_OVERLAP, Counters
from app.measure.bench.checks import pause, wait_until_idle, waiting_for
from app.measure.bench.concurrent import run_concurrent_requests
from app.measure.bench.interference import counters, foreign_work, is_still_busy
from app.measure.bench.job import Job, Prepared
from app.measure.bench.progress import Phase, SampleProgress
from app.measure.bench.stop import Stop
from app.measure.bench.suspend import suspended_seconds
from app.metrics import FLAGS, flags_of, is_usable
from app.metrics.flags import SLEPT_S
from app.metrics.overlap import with_prefill_overlaps
from app.suites import Case

NONCE_BYTES = 8


@dataclass(frozen=True)
class _Round:
    """One playing of one point."""

    case: Case
    prompt_tokens: int | None
    """As the server's tokenizer counts them."""
    first_ordinal: int
    index: int
    is_warmup: bool
    server_was_busy: bool


def run_suite(job: Job, prepared: Prepared, stop: Stop) -> Iterator[Phase | SampleProgress]:
    """Warm-ups, then repetitions, point by point. Ends early after a round in which a sample failed.

    A generator, so that its caller stores each sample the moment it was taken. Raises ServerError when going on is
    pointless, Cancelled when `stop` says so and all that was taken has been handed out.
    """
    ordinal, limits = 0, job.limits
    for case, counted in prepared.cases:
        for index in range(job.suite.rounds):
            stop.check()
            busy = yield from wait_until_idle(job.engine, job.client, limits, stop)
            if busy:  # waited long enough once: the samples say that the server was busy
                limits = replace(limits, busy_timeout_s=0)
            if job.busy_check is not None:
                job.busy_check.look_between(stop)
            this = _Round(case, counted, ordinal, index, index < job.suite.warmups, busy)
            taken = yield from _taken(job, this, stop)
            learned = {key: value for each in taken for key, value in each.sample.trace.learned.items()}
            if learned:
                job = replace(job, capabilities={**job.capabilities, **learned})
            yield from taken
            if any(each.sample.trace.status is Status.FAILED for each in taken):
                return
            ordinal += len(taken)
    if job.busy_check is not None:  # what came during the last round is still there
        job.busy_check.look_between(stop)
    stop.check()


def _taken(job: Job, this: _Round, stop: Stop) -> Generator[Phase, None, list[SampleProgress]]:
    """Its samples. Some servers say that they are loading only when they are asked to answer.

    Before and after, outside of what is timed, the server's counters tell whether it worked for others meanwhile.
    """
    waiting = time.monotonic()
    while True:
        nonces = [secrets.token_hex(NONCE_BYTES // 2) for _ in range(this.case.point.concurrency)]
        asks = [job.ask(this.case, nonce, this.prompt_tokens) for nonce in nonces]
        if job.log is not None:
            job.log.begin()
        if job.busy_check is not None:
            job.busy_check.begin_round()
        before, slept = counters(job.engine, job.client), suspended_seconds()
        started_at, begun = datetime.now(UTC), time.monotonic()
        try:
            traces: Sequence[Trace] = run_concurrent_requests(job.engine, job.client, asks, stop)
        except ServerError as problem:
            waited = time.monotonic() - waiting
            if problem.trouble is not ServerErrorKind.LOADING or waited > job.limits.loading_timeout_s:
                raise
            yield waiting_for(str(problem), waited)
            pause(stop)
            continue
        seconds = time.monotonic() - begun
        if job.busy_check is not None:
            job.busy_check.end_round(this.case, is_warmup=this.is_warmup)
        seen: dict[str, Any] = {"slept_s": slept} if (slept := suspended_seconds() - slept) >= SLEPT_S else {}
        if stop.requested and any(trace.status is not Status.OK for trace in traces):
            seen["cancelled"] = True
            traces = _cut_short(traces)
        if this.server_was_busy or _was_shared(job, traces, before):
            seen["server_was_busy"] = True
        if job.log is not None:
            traces = job.log.complete(traces)
            if len(traces) == 1 and _overlapped(traces[0]):
                seen["server_was_busy"] = True
        samples = _samples(this, traces, seen, job.engine.batches)
        return [SampleProgress(sample, started_at, seconds) for sample in with_prefill_overlaps(samples)]


def _overlapped(trace: Trace) -> bool:
    """Whether the server's log shows somebody else's request at the same time."""
    return trace.server is not None and LOG_OVERLAP in trace.server.raw


def _cut_short(traces: Sequence[Trace]) -> Sequence[Trace]:
    """What came before the run was cancelled. Raises Cancelled when that is nothing."""
    said = _("The run was cancelled in the middle of this answer.")
    kept = [
        replace(trace, error=None if trace.status is Status.OK else said)
        for trace in traces
        if trace.status is not Status.FAILED
    ]
    if not kept:
        raise Cancelled(_("Cancelled."))
    return kept


def _was_shared(job: Job, traces: Sequence[Trace], before: Counters | None) -> bool:
    if any(trace.status is not Status.OK for trace in traces):
        return False
    after = counters(job.engine, job.client) if before is not None else None
    return bool(foreign_work(traces, before, after)) or is_still_busy(job.engine, job.client)


def _samples(this: _Round, traces: Sequence[Trace], seen: Mapping[str, Any], batches: bool) -> list[Sample]:
    began_ns = min((trace.sent_ns for trace in traces if trace.sent_ns), default=0)
    samples = []
    for stream, trace in enumerate(traces):
        sample = Sample(
            ordinal=this.first_ordinal + stream,
            point=this.case.point,
            is_warmup=this.is_warmup,
            cache_defeat=trace.cache_defeat,
            trace=trace,
            expected_prompt_tokens=this.prompt_tokens,
            reuses_cache=this.case.reuses_cache,
            round=this.index,
            stream=stream,
            sent_at_ms=(trace.sent_ns - began_ns) / 1e6 if trace.sent_ns else 0.0,
            sensors=dict(seen),
            engine_batches=batches,
        )
        samples.append(replace(sample, flags=flags_of(sample)))
    return samples


def verdict(samples: Sequence[Sample]) -> str | None:
    """Why a run that reached its end has no result, in one sentence; None when it has one."""
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
