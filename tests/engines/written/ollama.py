"""Ollama, as it was recorded."""

from tests.engines.servers import Server, at_root, models
from tests.replay import Script, capture


def server() -> Server:
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
