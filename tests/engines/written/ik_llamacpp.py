"""ik_llama.cpp as examples/server at 8337e4c answers: llama.cpp's API under a header of its own."""

from collections.abc import Callable
from typing import Any

from app.core.samples import CacheDefeat
from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, Server, chunk, encoded, models, no_choices, usage, with_headers
from tests.replay import Script

MODEL = "/models/Qwen3-30B-A3B-IQ4_KS.gguf"
HEADERS = {"server": "ik_llama.cpp"}
META = {"vocab_type": 2, "n_vocab": 151936, "n_ctx_train": 40960, "n_embd": 2048, "n_params": 30532122624,
        "size": 17000000000}  # fmt: skip
PROPS = {
    "system_prompt": "",
    "model_alias": MODEL,
    "model_path": MODEL,
    "default_generation_settings": {"n_ctx": 8192, "n_predict": -1, "model": MODEL},
    "total_slots": 1,
    "model_name": "Qwen3-30B-A3B-IQ4_KS",
    "chat_template": "",
    "chat_template_caps": {},
    "bos_token": "",
    "eos_token": "<|im_end|>",
    "modalities": {"vision": False, "audio": False},
    "n_ctx": 8192,
    "cors_proxy_enabled": False,
}


def server() -> Server:
    listed = models(MODEL, owned_by="llamacpp", meta=META, max_model_len=8192)
    live = CachedChat(_with_header(answer), is_cached=lambda body: body.get("cache_prompt", True))
    return Server(
        {
            "/props": with_headers(HEADERS, Script.json(PROPS)),
            "/v1/models": with_headers(HEADERS, listed),
            "/health": with_headers(HEADERS, Script.json({"status": "ok", "slots_idle": 1, "slots_processing": 0})),
            "/slots": with_headers(HEADERS, Script.json([slot(0)])),
            "/version": with_headers(HEADERS, Script.json({"version": 4, "features": {"sql": False}})),
            CHAT: with_headers(HEADERS, answer(Turn(prompt_tokens=512))),
        },
        None,
        [(MODEL, "Qwen3-30B-A3B", "IQ4_KS", 8192)],
        settings={"context": 8192, "parallel": 1},
        sent={"cache_prompt": False, "ignore_eos": True},
        defeat=CacheDefeat.SWITCH,
        prompt_tokens=512,
        cached_tokens=0,
        finish_reason="stop",
        figures={
            "prompt_tokens": 512,
            "prompt_ms": 1024.0,
            "output_tokens": 3,
            "decode_ms": 20.0,
            "draft_tokens": 12,
            "draft_accepted_tokens": 7,
        },
        live={CHAT: live},
        twins=("llama.cpp",),
        error=(
            Script.json({"error": {"code": 400, "message": "the request exceeds the available context size"}}, 400),
            "exceeds the available context size",
        ),
    )


def slot(state: int) -> dict[str, Any]:
    return {"n_ctx": 8192, "model": MODEL, "id": 0, "id_task": 3, "state": state, "prompt": "", "next_token": {}}


def answer(turn: Turn) -> Script:
    """The role chunk leaves with the first token; the timings are in the last chunk, and say nothing of the cache."""
    decode_ms = turn.decode_ms("n-1")
    timings = {
        "prompt_n": turn.fresh_tokens,
        "prompt_ms": turn.prompt_ms,
        "prompt_per_token_ms": turn.prompt_ms / turn.fresh_tokens,
        "prompt_per_second": 1e3 / turn.prompt_ms * turn.fresh_tokens,
        "predicted_n": turn.output_tokens,
        "predicted_ms": decode_ms,
        "predicted_per_token_ms": decode_ms / turn.output_tokens,
        "predicted_per_second": 1e3 / decode_ms * turn.output_tokens,
        "n_ctx": 8192,
        "n_past": turn.prompt_tokens + turn.output_tokens,
        "draft_n": 12,
        "draft_n_accepted": 7,
        "draft_by_depth": [
            {"depth": 1, "draft_n": 8, "draft_n_accepted": 6},
            {"depth": 2, "draft_n": 4, "draft_n_accepted": 1},
        ],
    }
    cached = {"prompt_tokens_details": {"cached_tokens": turn.cached_tokens}}
    first, *words = (chunk({"content": word}) for word in turn.words)
    role = chunk({"role": "assistant", "content": None})
    counts = usage(turn.prompt_tokens, turn.output_tokens, **cached)
    return turn.script(
        [],
        [(encoded(role) + encoded(first)).decode(), *words],
        [chunk({}, "stop"), no_choices(**counts, timings=timings), "data: [DONE]\n\n"],
    )


def _with_header(make: Callable[[Turn], Script]) -> Callable[[Turn], Script]:
    return lambda turn: with_headers(HEADERS, make(turn))
