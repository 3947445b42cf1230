"""Plays a suite through an engine: suite x engine -> samples. Knows no database.

`play` is a generator, so that its caller stores each sample the moment it is taken and decides when to stop.
"""

import secrets
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from app.bench.checks import Limits, busy_machine_warning, pause, wait_until_idle, wait_until_ready
from app.bench.progress import Phase, Taken
from app.bench.stop import Stop
from app.engines.base import Ask, Engine
from app.errors import BadInput, ServerProblem, Trouble
from app.http import ServerClient
from app.metrics import FLAGS, flags_of, is_usable
from app.samples import Sample, Status
from app.suites import Case, Suite
from app.units import duration

__all__ = [
    "Job",
    "Limits",
    "Phase",
    "Prepared",
    "Stop",
    "Taken",
    "busy_machine_warning",
    "exceeds_context",
    "play",
    "prepare",
    "verdict",
    "wait_until_ready",
]

NONCE_BYTES = 8


@dataclass(frozen=True)
class Job:
    """What to measure."""

    engine: Engine
    client: ServerClient
    suite: Suite
    model_id: str | None
    context_tokens: int | None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Prepared:
    """The cases that fit, each with its prompt tokens as the server counts them, and what had to be left out."""

    cases: tuple[tuple[Case, int | None], ...]
    left_out: tuple[tuple[Case, str], ...]


def prepare(job: Job) -> Prepared:
    """Counts prompts and leaves out what exceeds the context. Raises BadInput when nothing fits."""
    fitting: list[tuple[Case, int | None]] = []
    left_out: list[tuple[Case, str]] = []
    for case in job.suite.cases:
        counted = job.engine.prompt_tokens(job.client, _ask(job, case, None))
        if sentence := exceeds_context(case, counted, job.context_tokens):
            left_out.append((case, sentence))
        else:
            fitting.append((case, counted))
    if not fitting:
        raise BadInput(left_out[0][1])
    return Prepared(tuple(fitting), tuple(left_out))


def exceeds_context(case: Case, counted: int | None, context_tokens: int | None) -> str | None:
    """One sentence when prompt and output do not fit; None when they do, or when the context is unknown."""
    prompt = counted if counted is not None else case.estimated_prompt_tokens
    needed = prompt + case.point.output_tokens
    if context_tokens is None or needed <= context_tokens:
        return None
    about = "" if counted is not None else "about "
    return (
        f"A prompt of {about}{prompt:,} tokens and {case.point.output_tokens:,} output tokens do not fit "
        f"into the server's context of {context_tokens:,} tokens."
    )


def play(job: Job, prepared: Prepared, stop: Stop) -> Iterator[Phase | Taken]:
    """Warm-ups, then repetitions, point by point. Ends early after a sample that failed.

    Raises ServerProblem when going on is pointless, Cancelled when `stop` says so.
    """
    ordinal, limits = 0, job.limits
    for case, counted in prepared.cases:
        for index in range(job.suite.warmups + job.suite.repetitions):
            busy = yield from wait_until_idle(job.engine, job.client, limits, stop)
            if busy:  # waited long enough once: the samples say that the server was busy
                limits = replace(limits, busy_timeout_s=0)
            is_warmup = index < job.suite.warmups
            taken, learned = yield from _take_when_loaded(job, case, counted, ordinal, is_warmup, busy, stop)
            if learned:
                job = replace(job, capabilities={**job.capabilities, **learned})
            yield taken
            if taken.sample.trace.status is Status.FAILED:
                return
            ordinal += 1


def _take_when_loaded(
    job: Job, case: Case, counted: int | None, ordinal: int, is_warmup: bool, busy: bool, stop: Stop
) -> Generator[Phase, None, tuple[Taken, Mapping[str, Any]]]:
    """Some servers say that they are loading only when they are asked to answer."""
    begun = time.monotonic()
    while True:
        try:
            return _take(job, case, counted, ordinal, is_warmup, busy, stop)
        except ServerProblem as problem:
            waited = time.monotonic() - begun
            if problem.trouble is not Trouble.LOADING or waited > job.limits.loading_timeout_s:
                raise
            yield Phase(f"{problem} Waiting for {duration(waited)}.")
            pause(stop)


def _take(
    job: Job, case: Case, counted: int | None, ordinal: int, is_warmup: bool, busy: bool, stop: Stop
) -> tuple[Taken, Mapping[str, Any]]:
    nonce = secrets.token_hex(NONCE_BYTES // 2)
    started_at, begun = datetime.now(UTC), time.monotonic()
    with stop.interruptible():
        trace = job.engine.play(job.client, _ask(job, case, nonce, counted))
    sample = Sample(
        ordinal=ordinal,
        point=case.point,
        is_warmup=is_warmup,
        cache_defeat=trace.cache_defeat,
        trace=trace,
        expected_prompt_tokens=counted,
        sensors={"server_was_busy": True} if busy else {},
    )
    flagged = replace(sample, flags=flags_of(sample))
    return Taken(flagged, started_at, time.monotonic() - begun), trace.learned


def _ask(job: Job, case: Case, nonce: str | None, counted: int | None = None) -> Ask:
    return Ask(
        prompt=case.prompt,
        output_tokens=case.point.output_tokens,
        model=job.model_id,
        nonce=nonce,
        reuse_cache=job.suite.cache == "reuse",
        context_tokens=job.context_tokens,
        expected_prompt_tokens=counted,
        capabilities=job.capabilities,
    )


def verdict(samples: Sequence[Sample]) -> str | None:
    """Why a run that reached its end has no result, in one sentence; None when it has one."""
    measured = [sample for sample in samples if not sample.is_warmup]
    failed = next((sample for sample in samples if sample.trace.status is Status.FAILED), None)
    if failed is not None:
        return failed.trace.error or "The server failed without saying why."
    if any(is_usable(sample) for sample in measured):
        return None
    last = measured[-1] if measured else samples[-1]
    if last.trace.error:
        return f"No sample was complete: {last.trace.error}"
    why = next((FLAGS[key].sentence for key in last.flags if key in FLAGS and FLAGS[key].disqualifies), None)
    return f"No sample was usable: {why}" if why else "No sample was usable."
