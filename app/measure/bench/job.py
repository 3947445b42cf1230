"""What is to be measured, and what of it fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.core.errors import BadInput
from app.core.i18n import N_, _, joined
from app.core.samples import Trace
from app.engines.base import CompletionRequest, Engine
from app.engines.http import ServerClient
from app.measure.bench.busy import BusyCheck
from app.measure.bench.checks import Limits
from app.suites import Case, Suite


class Log(Protocol):
    """The server's own log, where it is at hand."""

    def begin(self) -> None:
        """What has been written so far is about earlier requests."""

    def complete(self, traces: Sequence[Trace]) -> Sequence[Trace]:
        """The traces of one round with what was written since `begin` about them."""


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
    log: Log | None = None
    busy_check: BusyCheck | None = None
    """Where the server is on this machine."""

    def ask(self, case: Case, nonce: str | None = None, counted: int | None = None) -> CompletionRequest:
        return CompletionRequest(
            prompt=case.prompt,
            output_tokens=case.point.output_tokens,
            model=self.model_id,
            nonce=nonce,
            reuse_cache=case.reuses_cache,
            context_tokens=self.context_tokens,
            expected_prompt_tokens=counted,
            capabilities=self.capabilities,
        )


@dataclass(frozen=True)
class Prepared:
    """The cases that fit, each with its prompt tokens as the server counts them, and what had to be left out."""

    cases: tuple[tuple[Case, int | None], ...]
    left_out: tuple[tuple[Case, str], ...]

    @property
    def fitting(self) -> list[Case]:
        return [case for case, _ in self.cases]


def prepare(job: Job) -> Prepared:
    """Counts prompts and leaves out what exceeds the context. Raises BadInput when nothing fits."""
    fitting: list[tuple[Case, int | None]] = []
    left_out: list[tuple[Case, str]] = []
    counts: dict[str, int | None] = {}
    for case in job.suite.cases:
        if case.prompt not in counts:
            counts[case.prompt] = job.engine.prompt_tokens(job.client, job.ask(case))
        counted = counts[case.prompt]
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
    said = N_(
        "A prompt of about {prompt:,} tokens and {output:,} output tokens do not fit into the server's context of "
        "{context:,} tokens."
    )
    if counted is not None:
        said = N_(
            "A prompt of {prompt:,} tokens and {output:,} output tokens do not fit into the server's context of "
            "{context:,} tokens."
        )
    return _(said, prompt=prompt, output=case.point.output_tokens, context=context_tokens)


def step(suite: Suite, cases: Sequence[Case], done: int) -> str:
    """Which sample is being taken after `done` of them: `sample 2 of 5, point 1 of 3`; empty when all are."""
    for place, case in enumerate(cases):
        streams = case.point.concurrency
        if done < suite.rounds * streams:
            played = done // streams
            which = (
                _("warm-up {n:,} of {all:,}", n=played + 1, all=suite.warmups)
                if played < suite.warmups
                else _("sample {n:,} of {all:,}", n=played - suite.warmups + 1, all=suite.repetitions)
            )
            point = _("point {n:,} of {all:,}", n=place + 1, all=len(cases)) if len(cases) > 1 else ""
            at_once = _("{n:,} streams at once", n=streams) if streams > 1 else ""
            return joined(which, point, at_once, by=", ")
        done -= suite.rounds * streams
    return ""
