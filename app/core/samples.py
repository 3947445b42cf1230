"""What one request gave: raw events and counts, before any formula.

These frozen values are the only language between engines (which produce them), metrics (which turn them into
numbers) and the store (which keeps them). All offsets are milliseconds since `t0`, the moment just before the request's
first byte was written on a connected socket, on one monotonic clock.
"""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple


class Kind(StrEnum):
    """What a stream event carried."""

    ROLE = "role"
    """A first chunk without any token text."""
    ANSWER = "answer"
    REASONING = "reasoning"
    TOOL = "tool"
    HIDDEN = "hidden"
    """A token is known to have been made at this moment although it has no visible text (see the engine's file)."""
    EMPTY = "empty"
    """Neither text nor anything else: an empty delta."""
    FINISH = "finish"
    USAGE = "usage"
    PROGRESS = "progress"
    COMMENT = "comment"
    DONE = "done"
    ERROR = "error"


TOKEN_KINDS = frozenset({Kind.ANSWER, Kind.REASONING, Kind.TOOL, Kind.HIDDEN})


class Event(NamedTuple):
    """There are hundreds in each sample, thousands on a page: a tuple is made in a fifth of a dataclass's time."""

    at_ms: float
    kind: Kind
    size_bytes: int = 0
    """Bytes of token text, UTF-8: a token has at least one, while a character may have several tokens."""
    tokens: int | None = None
    """Output tokens so far, where the server says so in this very event."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a suite asks for. Nominal: the tokens really counted stand in each sample."""

    prompt_tokens: int
    output_tokens: int
    concurrency: int = 1
    depth: int = 0
    """Tokens in the cache before the prompt, which nobody waited for: only tools inside an engine measure so."""

    @property
    def key(self) -> str:
        return f"{self.prompt_tokens}/{self.output_tokens}/{self.concurrency}/{self.depth}"

    @classmethod
    def from_key(cls, key: str) -> "Workload":
        return cls(*(int(part) for part in key.split("/")))


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """The server's own counts and durations of one request; rates are never taken over, they are computed."""

    prompt_tokens: int | None = None
    """Fresh prompt tokens: those really processed, without cached ones."""
    prompt_ms: float | None = None
    output_tokens: int | None = None
    decode_ms: float | None = None
    """From the first to the last output token: `output_tokens - 1` intervals."""
    load_ms: float | None = None
    queue_ms: float | None = None
    draft_tokens: int | None = None
    draft_accepted_tokens: int | None = None
    expert_hit_share: float | None = None
    """Of a mixture of experts: hits / lookups of the cache that holds experts in fast memory."""
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
    """One request as its engine read it."""

    status: Status
    events: tuple[Event, ...] = ()
    prompt_tokens: int | None = None
    """All prompt tokens, cached ones included."""
    cached_tokens: int | None = None
    output_tokens: int | None = None
    """Reasoning included, seen or not."""
    total_tokens: int | None = None
    """Prompt and output together, as the server states them beside each other."""
    reasoning_tokens: int | None = None
    """Of the output tokens those that the server calls reasoning, seen or not."""
    count_source: CountSource | None = None
    finish_reason: str | None = None
    model: str | None = None
    """The model that the server says has answered."""
    cache_defeat: CacheDefeat = CacheDefeat.NONE
    """What the request that was answered did against the prompt cache."""
    text_sha256: str | None = None
    """SHA-256 of the answer text (without reasoning and tool calls), UTF-8."""
    end_ms: float | None = None
    """When the last byte was read, or when reading stopped."""
    sent_ns: int = 0
    """t0 on the clock of the process that measured (`perf_counter_ns`): orders requests that ran at the same time."""
    connect_ms: float | None = None
    """Time to connect, when this request had to; never inside TTFT."""
    lag_ms: float | None = None
    """How late our own reader was, on average: it waited for a processor. None where the system does not tell."""
    not_streamed: bool = False
    server: ServerFigures | None = None
    error: str | None = None
    """One sentence; None when nothing went wrong."""
    learned: dict[str, Any] = field(default_factory=dict)
    """Capabilities that this request taught, to be remembered for the server."""

    @cached_property
    def token_events(self) -> tuple[Event, ...]:
        """Those that carry tokens; kept, since nearly every metric and flag starts from them."""
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
    """Meant to find its prompt in the server's cache."""
    round: int = 0
    """Which playing of its point; the streams of one round ran at the same time."""
    stream: int = 0
    """Which of the round's streams."""
    sent_at_ms: float = 0.0
    """When t0 was, after the first t0 of the round."""
    sensors: dict[str, Any] = field(default_factory=dict)
    engine_batches: bool = True
    """The engine may process several prompts at once (`Engine.batches`)."""
    prefill_overlaps: bool | None = None
    """Another stream's prompt was processed meanwhile. Derived from the round (see metrics.overlap), never stored."""


def to_json(value: Any) -> dict[str, Any]:
    """A dataclass of this module as plain JSON values (enums are strings already)."""
    return asdict(value)
