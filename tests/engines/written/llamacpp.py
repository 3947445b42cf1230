"""llama.cpp's `llama-server`, as it was recorded."""

from app.core.samples import CacheDefeat
from tests.engines.servers import CHAT, Server
from tests.replay import Script, capture


def server() -> Server:
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
