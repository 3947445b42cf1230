"""`transformers serve`, as it was recorded."""

from typing import Any

from tests.engines.servers import CHAT, Server, with_headers
from tests.replay import Script, capture


def server() -> Server:
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
                "transformers-serve", "chat-stream-1" if request.json().get("messages") else "err"
            ),
        },
        None,
        [("/opt/vllm/tiny-qwen3", "tiny-qwen3", None, None)],
        prompt_tokens=20,
        output_tokens=16,
        error=(capture("transformers-serve", "err"), "pinned to '/opt/vllm/tiny-qwen3'"),
    )
