"""What a run measures: a suite, an engine and a server; the cases that fit; and their samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.core.errors import BadInput
from app.core.i18n import N_, _, joined
from app.core.samples import Sample, Status
from app.engines.base import CompletionRequest, Engine
from app.engines.http import ServerClient
from app.measure.interference import BusyCheck
from app.measure.live import LiveWriter
from app.measure.server_log import ServerLog
from app.measure.waiting import WaitLimits
from app.suites import Case, Suite


@dataclass(frozen=True)
class Job:
    """What to measure, and with which settings."""

    engine: Engine
    client: ServerClient
    suite: Suite
    model_id: str | None
    context_tokens: int | None
    """What prompt and output must fit into; None where that is unknown."""
    requested_context: int | None = None
    """The context that each request asks for; None where none does."""
    own_system: str | None = ""
    """The model's own system prompt (`Engine.own_system`)."""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    limits: WaitLimits = field(default_factory=WaitLimits)
    log: ServerLog | None = None
    """The server's own log, where it is on this machine."""
    busy_check: BusyCheck | None = None
    """None where the server is on another machine."""
    live: LiveWriter | None = None
    """Shows what is arriving; None where nobody can watch."""

    def request(
        self, case: Case, nonce: str | None = None, expected_prompt_tokens: int | None = None
    ) -> CompletionRequest:
        """Returns the request for one sample of `case`."""
        return CompletionRequest(
            prompt=case.prompt,
            output_tokens=case.point.output_tokens,
            model=self.model_id,
            nonce=nonce,
            reuse_cache=case.reuses_cache,
            context_tokens=self.requested_context,
            own_system=self.own_system,
            expected_prompt_tokens=expected_prompt_tokens,
            capabilities=self.capabilities,
        )


@dataclass(frozen=True)
class Prepared:
    """The cases that fit, each with its prompt tokens as the server counts them, and those that were left out."""

    cases: tuple[tuple[Case, int | None], ...]
    left_out: tuple[tuple[Case, str], ...]
    """Each with the reason, in one sentence."""

    @property
    def fitting(self) -> list[Case]:
        """The cases that fit, in the order of the suite."""
        return [case for case, _ in self.cases]


@dataclass(frozen=True)
class TimedSample:
    """A sample with the time of its round."""

    sample: Sample
    started_at: datetime
    seconds: float


def prepare(job: Job) -> Prepared:
    """Counts prompts and leaves out what exceeds the context. Raises BadInput when nothing fits."""
    fitting: list[tuple[Case, int | None]] = []
    left_out: list[tuple[Case, str]] = []
    counts: dict[str, int | None] = {}
    for case in job.suite.cases:
        if case.prompt not in counts:
            counts[case.prompt] = job.engine.prompt_tokens(job.client, job.request(case))
        prompt_tokens = counts[case.prompt]
        if reason := exceeds_context(case, prompt_tokens, job.context_tokens):
            left_out.append((case, reason))
        else:
            fitting.append((case, prompt_tokens))
    if not fitting:
        raise BadInput(left_out[0][1])
    return Prepared(tuple(fitting), tuple(left_out))


def exceeds_context(case: Case, prompt_tokens: int | None, context_tokens: int | None) -> str | None:
    """Returns one sentence when prompt and output do not fit; None when they do, or when the context is unknown.

    `prompt_tokens` is the server's count; without it, the length of the prompt is used for an estimate.
    """
    prompt = prompt_tokens if prompt_tokens is not None else case.estimated_prompt_tokens
    if context_tokens is None or prompt + case.point.output_tokens <= context_tokens:
        return None
    sentence = N_(
        "A prompt of about {prompt:,} tokens and {output:,} output tokens do not fit into the server's context of "
        "{context:,} tokens."
    )
    if prompt_tokens is not None:
        sentence = N_(
            "A prompt of {prompt:,} tokens and {output:,} output tokens do not fit into the server's context of "
            "{context:,} tokens."
        )
    return _(sentence, prompt=prompt, output=case.point.output_tokens, context=context_tokens)


def left_out(suite: Suite, context_tokens: int | None) -> list[tuple[Case, str]]:
    """Returns the cases that a context is estimated to leave out, each with the reason, in one sentence."""
    reasons = [(case, exceeds_context(case, None, context_tokens)) for case in suite.cases]
    return [(case, reason) for case, reason in reasons if reason is not None]


DONE_MARK, FLAGGED_MARK, FAILED_MARK, PLANNED_MARK = "d", "f", "x", "p"


def sample_marks(suite: Suite, cases: Sequence[Case], samples: Sequence[Sample]) -> list[list[str]]:
    """Returns for each case, in order, its point's key and two texts with a letter per sample: of its warm-ups, and of
    its repetitions.

    A sample is done (`d`), flagged (`f`), failed (`x`) or planned (`p`).
    """
    letters = iter([_mark(sample) for sample in samples])
    marks = []
    for case in cases:
        counts = suite.warmups_of(case), suite.repetitions
        texts = ["".join(next(letters, PLANNED_MARK) for _n in range(n * case.point.concurrency)) for n in counts]
        marks.append([case.point.key, *texts])
    return marks


def _mark(sample: Sample) -> str:
    if sample.trace.status is Status.FAILED:
        return FAILED_MARK
    return FLAGGED_MARK if sample.flags else DONE_MARK


def step_label(suite: Suite, cases: Sequence[Case], samples_done: int) -> str:
    """Names the sample after the first `samples_done`: `sample 2 of 5, point 1 of 3`; empty when all are done."""
    for index, case in enumerate(cases):
        streams, warmups = case.point.concurrency, suite.warmups_of(case)
        rounds = warmups + suite.repetitions
        if samples_done < rounds * streams:
            rounds_done = samples_done // streams
            sample = (
                _("warm-up {n:,} of {all:,}", n=rounds_done + 1, all=warmups)
                if rounds_done < warmups
                else _("sample {n:,} of {all:,}", n=rounds_done - warmups + 1, all=suite.repetitions)
            )
            point = _("point {n:,} of {all:,}", n=index + 1, all=len(cases)) if len(cases) > 1 else ""
            concurrency = _("{n:,} streams at once", n=streams) if streams > 1 else ""
            return joined(sample, point, concurrency, by=", ")
        samples_done -= rounds * streams
    return ""
