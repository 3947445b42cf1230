"""The raw events and counts of one request, before any formula.

Engines produce these frozen values, metrics compute numbers from them, and the database stores them. All offsets are
milliseconds since `t0`, the moment just before the request's first byte was written on a connected socket, on one
monotonic clock.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple


class Kind(StrEnum):
    """What a stream event contains."""

    ROLE = "role"
    """A first chunk without any token text."""
    ANSWER = "answer"
    REASONING = "reasoning"
    TOOL = "tool"
    HIDDEN = "hidden"
    """A token without visible text is known to have been generated at this moment (see the engine's file)."""
    EMPTY = "empty"
    """Neither text nor anything else: an empty delta."""
    FINISH = "finish"
    USAGE = "usage"
    PROGRESS = "progress"
    COMMENT = "comment"
    """Keeps the connection open: a comment, or a gateway's own words in the form of an answer."""
    DONE = "done"
    ERROR = "error"


TOKEN_KINDS = frozenset({Kind.ANSWER, Kind.REASONING, Kind.TOOL, Kind.HIDDEN})


class Event(NamedTuple):
    """One event of a stream. A tuple: a page needs thousands, and a dataclass takes five times as long to create."""

    at_ms: float
    kind: Kind
    size_bytes: int = 0
    """Bytes of token text, UTF-8: a token has at least one, while a character may have several tokens."""
    tokens: int | None = None
    """Output tokens so far, where the server reports them in this event."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The nominal request of a suite; each sample has the tokens that were really counted."""

    prompt_tokens: int
    output_tokens: int
    concurrency: int = 1
    depth: int = 0
    """Tokens in the cache before the prompt, which are not timed: only tools inside an engine measure that way."""

    @property
    def key(self) -> str:
        return f"{self.prompt_tokens}/{self.output_tokens}/{self.concurrency}/{self.depth}"

    def mean_context(self, prompt_tokens: float | None = None, output_tokens: float | None = None) -> int:
        """Returns the mean number of tokens in the cache during a decode: with counted tokens, else nominal ones."""
        prompt = self.prompt_tokens if prompt_tokens is None else prompt_tokens
        output = self.output_tokens if output_tokens is None else output_tokens
        return self.depth + round(prompt + output / 2)

    @classmethod
    def from_key(cls, key: str) -> "Workload":
        return cls(*(int(part) for part in key.split("/")))


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """The server's own counts and durations of one request; its rates are not used, they are computed from these."""

    prompt_tokens: int | None = None
    """Fresh prompt tokens: those that were processed, not taken from the cache."""
    prompt_ms: float | None = None
    output_tokens: int | None = None
    decode_ms: float | None = None
    """From the first to the last output token: `output_tokens - 1` intervals."""
    load_ms: float | None = None
    """Before the request could begin; next to nothing where the model was loaded already."""
    queue_ms: float | None = None
    """Behind the requests of others."""
    overhead_ms: float | None = None
    """For template, tokenizer and passing on, where the server's total tells what its parts leave out."""
    draft_tokens: int | None = None
    draft_accepted_tokens: int | None = None
    expert_hit_share: float | None = None
    """Hits / lookups of the cache that has a model's experts in fast memory."""
    raw: dict[str, Any] = field(default_factory=dict)
    """The server's object as it was sent."""


class Status(StrEnum):
    OK = "ok"
    INCOMPLETE = "incomplete"
    """Tokens came, but the stream broke or had no proper end."""
    FAILED = "failed"


class CountSource(StrEnum):
    USAGE = "usage"
    TIMINGS = "timings"
    EVENTS = "events"


class CacheDefeat(StrEnum):
    SWITCH = "switch"
    """The engine was told not to use its prompt cache; the very same prompt each time."""
    NONCE = "nonce"
    """The prompt started with a text of constant length that no other request had."""
    NONE = "none"


@dataclass(frozen=True)
class Trace:
    """One request as its engine recorded it."""

    status: Status
    events: tuple[Event, ...] = ()
    prompt_tokens: int | None = None
    """All prompt tokens, cached ones included."""
    cached_tokens: int | None = None
    output_tokens: int | None = None
    """Reasoning included, visible or not."""
    total_tokens: int | None = None
    """Prompt and output together, as the server reports the sum."""
    reasoning_tokens: int | None = None
    """The output tokens that the server calls reasoning, visible or not."""
    count_source: CountSource | None = None
    finish_reason: str | None = None
    model: str | None = None
    """The model that answered, by the server's report."""
    cache_defeat: CacheDefeat = CacheDefeat.NONE
    """What the request that was answered did against the prompt cache."""
    own_system_tokens: int = 0
    """About how many tokens of the model's own system prompt the request repeated behind its nonce, beside the suite's
    prompt."""
    text_sha256: str | None = None
    """SHA-256 of the answer text (without reasoning and tool calls), UTF-8."""
    end_ms: float | None = None
    """When the last byte was read, or when reading stopped."""
    sent_ns: int = 0
    """t0 on the clock of the measuring process (`perf_counter_ns`): orders requests that ran at the same time."""
    connect_ms: float | None = None
    """Time to connect, when this request had to; never inside TTFT."""
    sched_delay_ms: float | None = None
    """Mean time that Roofmark's own reader waited for a processor; None where the system does not report it."""
    not_streamed: bool = False
    server: ServerFigures | None = None
    error: str | None = None
    """One sentence; None when nothing went wrong."""
    learned_capabilities: dict[str, Any] = field(default_factory=dict)
    """Capabilities that this request revealed, to be stored with the server."""

    @cached_property
    def token_events(self) -> tuple[Event, ...]:
        """The events that carry tokens; cached, since nearly every metric and flag starts from them."""
        return tuple(event for event in self.events if event.kind in TOKEN_KINDS)


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured request of a run."""

    ordinal: int
    point: Workload
    is_warmup: bool
    cache_defeat: CacheDefeat
    trace: Trace
    flags: tuple[str, ...] = ()
    expected_prompt_tokens: int | None = None
    """Counted with the server's own tokenizer before the run, where it has one."""
    reuses_cache: bool = False
    """The request is meant to find its prompt in the server's cache."""
    round: int = 0
    """The repetition of its workload; the streams of one round ran at the same time."""
    stream: int = 0
    """The index of the stream within its round."""
    sent_at_ms: float = 0.0
    """When t0 was, in ms after the first t0 of the round."""
    sensors: dict[str, Any] = field(default_factory=dict)
    engine_batches: bool = True
    """The engine may process several prompts at once (`Engine.batches`)."""
    prefill_overlaps: bool | None = None
    """Another stream's prompt was processed meanwhile. Derived from the round (metrics.overlap), never stored."""
