"""vllm-mlx 0.6.0: a role chunk before the prompt is read, a usage chunk, and its state at `/v1/status`."""

from typing import Any

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, Server
from tests.replay import Script

MODEL = "mlx-community/Qwen3-8B-4bit"


def server() -> Server:
    listed = [_card(MODEL, "vllm-mlx"), _card("mlx-community/bge-m3", "vllm-mlx-embedding")]
    about = {"title": "vllm-mlx API", "version": "0.4.1"}
    return Server(
        {
            "/openapi.json": Script.json({"openapi": "3.1.0", "info": about, "paths": {}}),
            "/health": Script.json({"status": "healthy", "model_loaded": True, "model_name": MODEL, "mcp": None}),
            "/v1/status": status(),
            "/v1/models": Script.json({"object": "list", "data": listed}),
            CHAT: answer(Turn(prompt_tokens=20)),
        },
        None,
        [(MODEL, "Qwen3-8B-4bit", None, None)],
        prompt_tokens=20,
        live={CHAT: CachedChat(answer)},
        error=(Script.json({"detail": "The model `m` does not exist."}, 404), "does not exist"),
    )


def status(running: int = 0, requests: int = 2, prompt: int = 100, saved: int = 40, accepted: int = 6) -> Script:
    return Script.json(
        {
            "status": "running",
            "model": MODEL,
            "uptime_s": 60.0,
            "num_running": running,
            "num_waiting": 0,
            "total_requests_processed": requests,
            "total_prompt_tokens": prompt,
            "total_completion_tokens": 10 * requests,
            "generation_tps": 50.0,
            "cache": {"hits": 1, "misses": 1, "tokens_saved": saved},
            "mtp": {"enabled": True, "attempted": 10, "accepted": accepted, "rejected": 4},
            "requests": [],
        }
    )


def answer(turn: Turn) -> Script:
    usage = {
        "prompt_tokens": turn.prompt_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.prompt_tokens + turn.output_tokens,
    }
    pieces = [_chunk({"content": word}) for word in turn.words]
    last = {**_chunk({}), "choices": [], "usage": usage}
    return turn.script(
        [_chunk({"role": "assistant"})],
        [*pieces[:-1], _chunk({"content": turn.words[-1]}, "length")],
        [last, "data: [DONE]\n\n"],
    )


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-1a2b", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    return {**head, "choices": [choice], "usage": None}


def _card(name: str, owner: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1, "owned_by": owner}
