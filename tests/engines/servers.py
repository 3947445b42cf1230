"""What `tests/engines/written` is made of: a server, what its engine has to make of it, and how its answers look."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.core.samples import CacheDefeat
from tests.replay import HERE, Answerer, Request, Script

CHAT = "/v1/chat/completions"
Route = Script | Answerer


@dataclass(frozen=True)
class Server:
    routes: Mapping[str, Route]
    version: str | None
    models: Sequence[tuple[str, str, str | None, int | None]]
    """Id, shown name, quantization, context."""
    path: str = CHAT
    settings: Mapping[str, Any] = field(default_factory=dict)
    sent: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the request for 8 tokens has besides those of every engine."""
    headers: Mapping[str, str] = field(default_factory=dict)
    defeat: CacheDefeat = CacheDefeat.NONCE
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = 3
    finish_reason: str | None = "length"
    figures: Mapping[str, Any] | None = None
    """What the server's own figures hold; None where it has none."""
    error: tuple[Script, str] | None = None
    """A refusal in the engine's manner, and its words."""
    live: Mapping[str, Route] = field(default_factory=dict)
    """Routes that take the place of `routes` where a prompt cache has to be at work; a `CachedChat` is among them."""
    is_known_without_headers: bool = True
    """Whether its engine can be told behind a proxy that drops the `Server` header."""
    twins: Sequence[str] = ()
    """Engines from which it differs only in what a proxy may hide."""
    backend: tuple[str, str | None] | None = None
    """Key and version of the engine that runs the first model, where this is a gateway in front of it."""


def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}


def stream(*events: Mapping[str, Any] | str, done: bool = True) -> Script:
    """JSON events 10 ms apart; texts go out as they are."""
    return Script.sse(*map(encoded, events), *([DONE] if done else []), step_ms=10)


def encoded(event: Mapping[str, Any] | str) -> bytes:
    """An event as it is sent: JSON as data, a text as it is."""
    return event.encode() if isinstance(event, str) else b"data: %s\n\n" % _json(event)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


DONE = b"data: [DONE]\n\n"
ROLE = chunk({"role": "assistant", "content": ""})
WORDS = (chunk({"content": "one"}), chunk({"content": " two"}), chunk({"content": " three"}))


def usage(prompt: int, output: int, **more: Any) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output, **more}}


def no_choices(**more: Any) -> dict[str, Any]:
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [], **more}


def models(*identifiers: str, **more: Any) -> Script:
    return Script.json({"object": "list", "data": [{"id": name, "object": "model", **more} for name in identifiers]})


def with_headers(headers: Mapping[str, str], script: Script) -> Script:
    return replace(script, headers={**script.headers, **headers})


def at_root(text: str) -> Answerer:
    """What stands at "/" alone."""
    return lambda request: Script.text(text) if request.path == "/" else Script.json({"detail": "Not Found"}, 404)


def scrape(folder: str, name: str) -> Script:
    return Script.text((HERE / "captures" / folder / f"{name}.txt").read_text())


def sample_of(folder: str, name: str) -> Any:
    return json.loads((HERE / "captures" / folder / f"{name}.json").read_text())


class Finishing:
    """An answer after which another endpoint says something new."""

    def __init__(self, answer: Script, before: Script, after: Script) -> None:
        self._answer, self._current, self._after = answer, before, after

    def chat(self, _: Request) -> Script:
        self._current = self._after
        return self._answer

    def status(self, _: Request) -> Script:
        return self._current
