"""Replayed servers of the engines that were recorded: what each answers, and what its engine has to make of that.

All expected values are read off these bytes by hand.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.core.samples import CacheDefeat
from tests.replay import HERE, Answerer, Request, Script, capture

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


def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}


def stream(*events: Mapping[str, Any] | str, done: bool = True) -> Script:
    """JSON events 10 ms apart; texts go out as they are."""
    pieces = [event.encode() if isinstance(event, str) else b"data: %s\n\n" % _json(event) for event in events]
    return Script.sse(*pieces, *([b"data: [DONE]\n\n"] if done else []), step_ms=10)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


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
        self._answer, self._told, self._after = answer, before, after

    def chat(self, _: Request) -> Script:
        self._told = self._after
        return self._answer

    def told(self, _: Request) -> Script:
        return self._told


def llamacpp() -> Server:
    return Server(
        {
            "/props": capture("llama.cpp", "get_props"),
            "/v1/models": capture("llama.cpp", "get_models"),
            # newer builds answer for Ollama's clients as well
            "/api/version": Script.json({"version": "b11434"}),
            "/api/tags": Script.json({"models": []}),
            CHAT: capture("llama.cpp", "chat_stream_usage_cache_prompt_false"),
        },
        "b11434-sdist11434",
        [("/opt/llm/gemma-3-270m-q4_k_m.gguf", "gemma-3-270m", "Q4_K_M", 4096)],
        settings={"context": 4096, "parallel": 1},
        sent={"cache_prompt": False, "ignore_eos": True},
        defeat=CacheDefeat.SWITCH,
        prompt_tokens=30,
        cached_tokens=0,
        output_tokens=16,
        figures={"prompt_tokens": 30, "output_tokens": 16},
        error=(capture("llama.cpp", "chat_stream_prompt_too_long"), "6024 tokens"),
    )


def ollama() -> Server:
    return Server(
        {
            "/": at_root("Ollama is running"),
            "/api/version": Script.json({"version": "0.12.3"}),
            "/api/tags": capture("ollama", "tags"),
            "/api/ps": capture("ollama", "ps-loaded"),
            "/api/show": capture("ollama", "show"),
            "/v1/models": models("gemma3-270m:latest"),
            "/api/chat": capture("ollama", "chat-stream"),
        },
        "0.12.3",
        [("gemma3-270m:latest", "gemma3-270m", "Q4_K_M", 2048)],
        path="/api/chat",
        sent={"options": {"num_predict": 8, "num_ctx": 4096, "temperature": 0, "seed": 1}, "truncate": False},
        prompt_tokens=195,
        output_tokens=16,
        figures={
            "prompt_tokens": 195,
            "prompt_ms": 1007.246,
            "output_tokens": 16,
            "decode_ms": 698.197,
            "load_ms": 5.568669,
        },
        error=(capture("ollama", "err-model"), "model 'nope' not found"),
    )


def vllm() -> Server:
    return Server(
        {
            "/version": capture("vllm", "version"),
            "/health": capture("vllm", "health"),
            "/metrics": scrape("vllm", "metrics-3-after-bench"),
            "/v1/models": capture("vllm", "models"),
            "/tokenize": capture("vllm", "tokenize"),
            CHAT: capture("vllm", "chat-stream-perreqmetrics"),
        },
        "0.32.0",
        [("tiny-qwen3", "tiny-qwen3", None, 2048)],
        settings={"context": 2048},
        sent={
            "cache_salt": "0123abcd",
            "ignore_eos": True,
            "min_tokens": 8,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        },
        defeat=CacheDefeat.SWITCH,
        prompt_tokens=190,
        cached_tokens=0,
        output_tokens=24,
        figures={
            "prompt_tokens": 190,
            "prompt_ms": 382.68205500003205,
            "output_tokens": 24,
            "decode_ms": 4289.146973000015,
            "queue_ms": 0.15047399983814103,
        },
        error=(capture("vllm", "err-too-long"), "at least 2049 input tokens"),
    )


def transformers() -> Server:
    paths: dict[str, Any] = {
        path: {} for path in (CHAT, "/v1/completions", "/v1/responses", "/v1/models", "/health", "/load_model")
    }
    return Server(
        {
            "/health": with_headers({"x-request-id": "f967f24c", "server": "uvicorn"}, Script.json({"status": "ok"})),
            "/openapi.json": Script.json(
                {"openapi": "3.1.0", "info": {"title": "FastAPI", "version": "0.1.0"}, "paths": paths}
            ),
            "/v1/models": capture("transformers-serve", "models"),
            CHAT: lambda request: capture(
                "transformers-serve", "chat-stream-1" if request.json()["messages"] else "err"
            ),
        },
        None,
        [("/opt/vllm/tiny-qwen3", "tiny-qwen3", None, None)],
        prompt_tokens=20,
        output_tokens=16,
        error=(capture("transformers-serve", "err"), "pinned to '/opt/vllm/tiny-qwen3'"),
    )
