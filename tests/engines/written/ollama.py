"""Ollama, as it was recorded; `tests/engines/ollama_server.py` has its models, runners and clocks."""

import json
from typing import Any

from tests.engines.prompt_cache import STEP_MS, CachedChat, Turn
from tests.engines.servers import Server, at_root, models
from tests.replay import Script, capture


def _answer(turn: Turn) -> Script:
    """Its counts hold cached tokens, its durations do not."""
    decode_ms = turn.decode_ms("n-1")
    durations = {"prompt_eval_duration": turn.prompt_ms, "eval_duration": decode_ms, "load_duration": 1.1}
    last: dict[str, Any] = {
        **{name: round(ms * 1e6) for name, ms in durations.items()},
        "total_duration": round(sum(durations.values()) * 1e6),
        "prompt_eval_count": turn.prompt_tokens,
        "eval_count": turn.output_tokens,
    }
    lines = [_line(word) for word in turn.words] + [_line("", done=True, done_reason="length", **last)]
    rows = [(turn.prompt_ms + STEP_MS * step, line) for step, line in enumerate(lines)]
    return Script(rows, headers={"content-type": "application/x-ndjson"})


def _line(text: str, **more: Any) -> bytes:
    message = {"role": "assistant", "content": text}
    return json.dumps({"model": "gemma3-270m", "message": message, "done": False, **more}).encode() + b"\n"


def server() -> Server:
    return Server(
        {
            "/": at_root("Ollama is running"),
            "/api/version": Script.json({"version": "0.12.3"}),
            "/api/tags": capture("ollama", "tags"),
            "/api/ps": capture("ollama", "ps-loaded"),
            "/api/show": capture("ollama", "show"),
            "/v1/models": models("gemma3-270m:latest", owned_by="library"),
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
        live={"/api/chat": CachedChat(_answer)},
    )
