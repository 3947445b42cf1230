"""A chat endpoint with a prompt cache, for a server in `written` that answers as its engine's source does.

    def _answer(turn: Turn) -> Script: ...  # the engine's own stream, with `turn.cached_tokens` in its words
    Server({CHAT: _answer(Turn(prompt_tokens=20)), ...}, live={CHAT: CachedChat(_answer)})

`written/openai.py` is the smallest example.


A word is a token, and so is each of the `LEAD_TOKENS` that a template puts in front of every prompt: they are found in
the cache whatever the prompt says. Cached tokens take no time, in what the server reports and in when it answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from tests.engines.servers import encoded
from tests.replay import Request, Script

Sent = Mapping[str, Any] | str
"""JSON of an event, or a text that goes out as it is."""

LEAD_TOKENS = 3
MS_PER_PROMPT_TOKEN = 2.0
STEP_MS = 10.0
"""From one output token to the next."""


@dataclass(frozen=True)
class Turn:
    """One request as an engine worked on it."""

    prompt_tokens: int
    cached_tokens: int = 0
    output_tokens: int = 3
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    ordinal: int = 0
    """How many requests were answered before."""

    @property
    def fresh_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens

    @property
    def prompt_ms(self) -> float:
        return self.fresh_tokens * MS_PER_PROMPT_TOKEN

    def decode_ms(self, intervals: str) -> float:
        """What the engine's clock shows: `n` steps where it includes the one of the first token, else `n-1`."""
        return (self.output_tokens - (intervals == "n-1")) * STEP_MS

    @property
    def words(self) -> list[str]:
        """The pieces of the answer's text."""
        return [f" w{position}" for position in range(self.output_tokens)]

    def script(self, head: Sequence[Sent], pieces: Sequence[Sent], tail: Sequence[Sent], **headers: str) -> Script:
        """The answer: `head` at once, each of `pieces` when its token is made, and `tail` with the last one."""
        end_ms = self.prompt_ms + STEP_MS * max(0, len(pieces) - 1)
        times_ms = [0.0] * len(head) + [self.prompt_ms + STEP_MS * step for step in range(len(pieces))]
        events = (*head, *pieces, *tail)
        rows = zip(times_ms + [end_ms] * len(tail), (encoded(event) for event in events), strict=True)
        return Script(list(rows), headers={"content-type": "text/event-stream"} | headers)


@dataclass
class CachedChat:
    answer: Callable[[Turn], Script]
    is_cached: Callable[[Mapping[str, Any]], bool] = lambda body: True
    """Whether a request with this body may use the cache: false for what the engine's switch makes of it."""
    salt: str = ""
    """The field of a body that separates caches, where the engine has one."""
    limit_fields: Sequence[str] = ("max_tokens", "max_completion_tokens")
    turns: list[Turn] = field(default_factory=list)
    """Every request that was answered."""
    _prompts: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, request: Request) -> Script:
        body = request.json()
        tokens = (*self._lead(body), *prompt_words(body))
        cached = max((_common(tokens, earlier) for earlier in self._prompts), default=0) if self.is_cached(body) else 0
        # the last token of a prompt is always processed: its output is the first token
        cached = min(cached, len(tokens) - 1)
        limit = next((body[name] for name in self.limit_fields if body.get(name)), 16)
        turn = Turn(len(tokens), cached, limit, body, request.headers, len(self.turns))
        self._prompts.append(tokens)
        self.turns.append(turn)
        return self.answer(turn)

    def _lead(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        salt = str(body.get(self.salt, "")) if self.salt else ""
        return tuple(f"<{salt}{position}>" for position in range(LEAD_TOKENS))


def prompt_words(body: Mapping[str, Any]) -> list[str]:
    """The words of all messages of a request, in whichever field its API has them."""
    messages = body.get("messages") or [{"content": body.get("prompt") or body.get("input") or ""}]
    texts = [message["content"] for message in messages]
    return [word for text in texts for word in (text if isinstance(text, str) else text[0]["text"]).split()]


def _common(tokens: Sequence[str], earlier: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(tokens, earlier, strict=False)))
