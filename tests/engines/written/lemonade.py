"""Lemonade with a model of FastFlowLM on an NPU; `live` has llama.cpp on a GPU besides."""

from typing import Any

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, DONE, Route, Server, chunk, no_choices, usage
from tests.replay import Script

QWEN = "Qwen3-8B-GGUF"
GEMMA = "Gemma3-4b-it-FLM"
COMMAND = [
    "/opt/lemonade/bin/llamacpp/vulkan/llama-server", "-m", "/srv/hub/models--q/Qwen3-8B-Q4_1.gguf",
    "--ctx-size", "8192", "--port", "8002", "--no-mmap", "--api-key", "not-for-others", "-ngl", "99",
]  # fmt: skip


def loaded(name: str, recipe: str, device: str, *, is_busy: bool = False, **more: Any) -> dict[str, Any]:
    """A loaded model of `/api/v1/health`."""
    return {
        "model_name": name, "recipe": recipe, "type": "llm", "device": device, "loaded": True, "pid": 12345,
        "backend_url": "http://127.0.0.1:8001/v1", "is_busy": is_busy, "is_streaming": is_busy, "last_use": 1787417367,
        **more,
    }  # fmt: skip


QWEN_LOADED = loaded(
    QWEN, "llamacpp", "gpu", checkpoint="unsloth/Qwen3-8B-GGUF:Q4_1", launch_command=COMMAND,
    recipe_options={"ctx_size": 8192, "llamacpp_backend": "vulkan", "llamacpp_args": "--no-mmap"},
)  # fmt: skip
GEMMA_LOADED = loaded(
    GEMMA, "flm", "npu", launch_command=["/usr/bin/flm", "serve", "gemma3:4b", "--ctx-len", "4096"],
    recipe_options={"ctx_size": 4096},
)  # fmt: skip


def health(*models: dict[str, Any]) -> Script:
    first = models[0]["model_name"] if models else None
    document = {"status": "ok", "version": "11.7.0", "model_loaded": first, "all_models_loaded": models}
    return Script.json({**document, "max_models": {"llm": 2}, "update_check_done": True})


def entry(name: str, recipe: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name, "object": "model", "created": 1234567890, "owned_by": "lemonade", "recipe": recipe,
        "downloaded": True, "labels": [], **more,
    }  # fmt: skip


def flm_answer(turn: Turn) -> Script:
    """FastFlowLM's stream as Lemonade passes it on: seconds in the usage, the first token is the prompt's."""
    decode_s = turn.decode_ms("n-1") / 1000
    times = {
        "load_duration": 8.31e-07, "prefill_duration_ttft": turn.prompt_ms / 1000, "decoding_duration": decode_s,
        "prefill_speed_tps": 500.0, "decoding_speed_tps": turn.output_tokens / decode_s,
        "kv_token_occupancy_rate_percentage": 0.66,
    }  # fmt: skip
    return turn.script(
        [": ping\n\n"],
        [chunk({"role": "assistant", "content": word}) for word in turn.words],
        [chunk({}, "length"), no_choices(**usage(turn.prompt_tokens, turn.output_tokens, **times)), DONE.decode()],
    )


def server() -> Server:
    listed = [
        entry(QWEN, "llamacpp", checkpoint="unsloth/Qwen3-8B-GGUF:Q4_1", size=5.25, max_context_window=40960),
        entry("nomic-embed-text-v1-GGUF", "llamacpp", labels=["embeddings"]),
        entry("Whisper-Tiny", "whispercpp"),
        entry(GEMMA, "flm", checkpoint="gemma3:4b", context_length=4096),
        entry("fireworks.kimi-k2", "cloud", cloud_provider="fireworks"),
    ]
    chat = CachedChat(flm_answer)
    metrics = "lemonade_server_up 1\nlemonade_requests_total 0\nlemonade_prompt_tokens_total 0\n"
    routes: dict[str, Route] = {
        "/live": Script.text("OK"),
        "/api/v1/health": health(GEMMA_LOADED),
        "/api/v1/stats": Script.json({"request_count_total": 3}),
        "/metrics": Script.text(metrics),
        # for clients of LM Studio and of Ollama
        "/api/v0/models": Script.json({"object": "list", "data": listed}),
        "/api/v1/models": Script.json({"object": "list", "data": listed}),
        "/api/version": Script.json({"version": "0.16.1"}),
        "/api/tags": Script.json({"models": [{"name": f"{QWEN}:latest"}]}),
        "/v1/models": Script.json({"object": "list", "data": listed}),
        CHAT: flm_answer(Turn(prompt_tokens=5, output_tokens=8)),
    }
    return Server(
        routes,
        "11.7.0",
        [
            (GEMMA, "Gemma3-4b-it-FLM", None, 4096),
            (QWEN, "Qwen3-8B-GGUF", "Q4_1", None),
            ("fireworks.kimi-k2", "fireworks.kimi-k2", None, None),
        ],
        prompt_tokens=5,
        output_tokens=8,
        figures={"prompt_tokens": 5, "prompt_ms": 10.0, "output_tokens": 8, "decode_ms": 70.0},
        live={CHAT: chat},
        error=(
            Script.json({"error": {"message": "Failed to load model x", "code": "model_load_error"}}, 500),
            "Failed to load model",
        ),
    )
