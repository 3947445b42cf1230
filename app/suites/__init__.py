"""Suites: a fixed prompt, hashed, and how often it is sent at which lengths.

A suite's identity is the SHA-256 of everything that shapes a measurement (prompts, lengths, cache policy), but not of
the number of repetitions: five repetitions and ten measure the same thing.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.core.errors import BadInput
from app.core.i18n import N_, _, joined
from app.core.samples import Workload
from app.core.units import plural
from app.suites.prose import prose

MAX_PROMPT_CHARS = 2_000_000
MAX_OUTPUT_TOKENS = 100_000
MAX_REPETITIONS = 200
BYTES_PER_TOKEN = 4.95
"""Bytes per token of the built-in English prose with Gemma 3's tokenizer; only for estimates before a run."""
DEFAULT_SUITE = "triple"
"""The suite of a run that names none."""
CONTINUE_INSTRUCTION = " Continue this story in the same manner, sentence by sentence, for as long as you can."
"""Engines without a switch for the output length need a reason to go on."""


@dataclass(frozen=True)
class Case:
    """One workload of a suite and its prompt."""

    point: Workload
    prompt: str
    reuses_cache: bool = False
    """Whether the prompt should be in the server's cache, where the warm-up before it left it."""

    @property
    def estimated_prompt_tokens(self) -> int:
        """An estimate from the length of the prompt: it only decides whether the prompt may fit, and is never shown."""
        return estimate_tokens(self.prompt)


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has; English prose is assumed."""
    return max(1, round(len(text.encode()) / BYTES_PER_TOKEN))


@dataclass(frozen=True)
class Suite:
    """Cases, and how often each is played."""

    key: str
    title: str
    about: str
    cases: tuple[Case, ...]
    repetitions: int = 5
    warmups: int = 1
    """The number of warm-ups per workload."""
    version: int = 1

    @property
    def sha256(self) -> str:
        """The identity of the suite: the hash of all that shapes a measurement, but not of the number of
        repetitions."""
        identity = {
            "cache": "defeat",  # of a case without a word of its own
            "cases": [
                {
                    "prompt_sha256": hashlib.sha256(case.prompt.encode()).hexdigest(),
                    "output_tokens": case.point.output_tokens,
                    "concurrency": case.point.concurrency,
                    "depth": case.point.depth,
                    **({"cache": "reuse"} if case.reuses_cache else {}),
                }
                for case in self.cases
            ],
        }
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()

    def with_counts(self, repetitions: int | None = None, warmups: int | None = None) -> "Suite":
        """Returns the suite with another number of repetitions and warm-ups. Raises BadInput."""
        suite = replace(
            self,
            repetitions=self.repetitions if repetitions is None else repetitions,
            warmups=self.warmups if warmups is None else warmups,
        )
        if not 1 <= suite.repetitions <= MAX_REPETITIONS:
            raise BadInput(_("Repetitions must be between 1 and {most}.", most=MAX_REPETITIONS))
        if not 0 <= suite.warmups <= MAX_REPETITIONS:
            raise BadInput(_("Warm-ups must be between 0 and {most}.", most=MAX_REPETITIONS))
        return suite

    def warmups_of(self, case: Case) -> int:
        """How many warm-ups a case takes: at least the one that fills the cache, where it is about that."""
        return max(1, self.warmups) if case.reuses_cache else self.warmups

    def sample_count(self, cases: Sequence[Case]) -> int:
        """How many requests these of its cases take, warm-ups included."""
        return sum((self.warmups_of(case) + self.repetitions) * case.point.concurrency for case in cases)


def point_title(point: Workload) -> str:
    """Returns a workload in words.

    >>> point_title(Workload(2064, 128, concurrency=4, depth=2000))
    '2,064 prompt tokens, 128 output tokens, 4 streams, 2,000 in the cache before'
    """
    output = plural(point.output_tokens, "output token")
    return joined(plural(point.prompt_tokens, "prompt token"), output, *_optional_parts(point), by=", ")


def brief_title(point: Workload) -> str:
    """Returns a workload in words without its output tokens, which are shown beside it.

    >>> brief_title(Workload(2064, 128)), brief_title(Workload(512, 128, concurrency=4))
    ('2,064 prompt tokens', '512 prompt tokens, 4 streams')
    """
    return joined(plural(point.prompt_tokens, "prompt token"), *_optional_parts(point), by=", ")


def _optional_parts(point: Workload) -> list[str]:
    streams = [plural(point.concurrency, "stream")] if point.concurrency > 1 else []
    return streams + ([_("{n:,} in the cache before", n=point.depth)] if point.depth else [])


def _prose_case(
    prompt_tokens: int,
    output_tokens: int,
    start: int = 0,
    concurrency: int = 1,
    reuses_cache: bool = False,
) -> Case:
    length = round(prompt_tokens * BYTES_PER_TOKEN) - len(CONTINUE_INSTRUCTION)
    point = Workload(prompt_tokens, output_tokens, concurrency)
    return Case(point, prose(length, start) + CONTINUE_INSTRUCTION, reuses_cache)


BUILT_IN = {
    suite.key: suite
    for suite in (
        Suite(
            key="triple",
            title="Triple",
            about="About 512 prompt tokens, 128 output tokens: TTFT, prefill and decode of an everyday question.",
            cases=(_prose_case(512, 128),),
        ),
        Suite(
            key="lengths",
            title="Lengths",
            about="About 200, 2,000 and 8,000 prompt tokens: how TTFT grows, and prefill from its slope.",
            cases=tuple(_prose_case(n, 128, start=n) for n in (200, 2000, 8000)),
            repetitions=3,
        ),
        Suite(
            key="bench512",
            title="pp512 / tg128",
            about="The lengths of llama-bench's defaults. Compare prefill with `llama-bench -p 512`, and decode with "
            "`llama-bench -n 128 -d 512`: a server decodes behind its prompt, plain tg128 starts at an empty context.",
            cases=(_prose_case(512, 128, start=77),),
        ),
        Suite(
            key="depth",
            title="Depth",
            about="128 output tokens behind 128, 2,000, 4,000, 8,000 and 16,000 tokens of prompt, as far as the "
            "server's context allows: how decode slows down as the KV cache grows.",
            cases=tuple(_prose_case(n, 128, start=n) for n in (128, 2000, 4000, 8000, 16000)),
            repetitions=3,
        ),
        Suite(
            key="concurrency",
            title="Concurrency",
            about="1, 2, 4 and 8 requests at once, each about 512 prompt tokens and 128 output tokens: throughput, "
            "what each stream still gets, and how many can be served within limits of TTFT and TPOT.",
            cases=tuple(_prose_case(512, 128, start=31, concurrency=n) for n in (1, 2, 4, 8)),
            repetitions=3,
        ),
        Suite(
            key="cache",
            title="Cache",
            about="About 2,000 prompt tokens, first processed without the cache, then found in the prompt cache: what "
            "the cache saves.",
            cases=tuple(_prose_case(2000, 32, start=53, reuses_cache=reuses) for reuses in (False, True)),
        ),
    )
}


def custom_suite(definition: Mapping[str, Any], key: str, title: str, version: int = 1) -> Suite:
    """Returns the suite that a person defines with `{"prompt", "output_tokens", "repetitions", "warmups"}`. Raises
    BadInput."""
    prompt = str(definition.get("prompt", "")).strip()
    if not prompt:
        raise BadInput(_("The suite needs a prompt text."))
    if len(prompt) > MAX_PROMPT_CHARS:
        raise BadInput(_("The prompt is longer than {most:,} characters.", most=MAX_PROMPT_CHARS))
    output_tokens = _parse_int(definition.get("output_tokens", 128), N_("Output length"))
    if not 1 <= output_tokens <= MAX_OUTPUT_TOKENS:
        raise BadInput(_("Output length must be between 1 and {most:,} tokens.", most=MAX_OUTPUT_TOKENS))
    case = Case(Workload(estimate_tokens(prompt), output_tokens), prompt)
    suite = Suite(key=key, title=title, about=N_("Your own prompt."), cases=(case,), version=version)
    return suite.with_counts(
        _parse_int(definition.get("repetitions", 5), N_("Repetitions")),
        _parse_int(definition.get("warmups", 1), N_("Warm-ups")),
    )


def _parse_int(value: Any, what: str) -> int:
    try:
        return int(str(value))
    except ValueError as error:
        raise BadInput(_("{title} must be a whole number.", title=_(what))) from error
