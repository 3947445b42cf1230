"""Aphrodite: vLLM's answers and metrics under its own names, and KoboldCpp's version for clients of that."""

from typing import Any

from app.core.samples import CacheDefeat
from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, ROLE, Server, chunk, models, no_choices, usage
from tests.replay import Script

MODEL = "turboderp/Qwen3-8B-exl3"


def server() -> Server:
    return Server(
        {
            "/version": Script.json({"version": "0.21.0"}),
            "/health": Script(framing="length"),
            "/metrics": metrics(),
            "/v1/models": models(MODEL, owned_by="aphrodite", root=MODEL, max_model_len=16384),
            "/api/extra/version": Script.json({"result": "KoboldCpp", "version": "1.63"}),
            "/api/extra/true_max_context_length": Script.json({"value": 16384}),
            CHAT: answer(Turn(prompt_tokens=20)),
        },
        "0.21.0",
        [(MODEL, "Qwen3-8B-exl3", None, 16384)],
        settings={"context": 16384, "kv_type_k": "fp8", "kv_type_v": "fp8"},
        sent={
            "cache_salt": "0123abcd",
            "ignore_eos": True,
            "min_tokens": 8,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        },
        defeat=CacheDefeat.SWITCH,
        prompt_tokens=20,
        cached_tokens=0,
        live={CHAT: CachedChat(answer, salt="cache_salt")},
        error=(
            Script.json({"error": {"message": "boom", "type": "InternalServerError", "param": None, "code": 500}}, 500),
            "boom",
        ),
    )


def metrics(requests: int = 1, prompt: int = 100, cached: int = 30, output: int = 20) -> Script:
    return Script.text(
        'aphrodite:cache_config_info{block_size="16",cache_dtype="fp8",engine="0"} 1.0\n'
        'aphrodite:num_requests_running{engine="0"} 0.0\n'
        'aphrodite:num_requests_waiting{engine="0"} 0.0\n'
        f'aphrodite:request_success_total{{engine="0",finished_reason="length"}} {requests}\n'
        f'aphrodite:prompt_tokens_total{{engine="0"}} {prompt}\n'
        f'aphrodite:prompt_tokens_cached_total{{engine="0"}} {cached}\n'
        f'aphrodite:generation_tokens_total{{engine="0"}} {output}\n'
    )


def answer(turn: Turn) -> Script:
    def counted(tokens: int) -> dict[str, Any]:
        details: dict[str, Any] = {"prompt_tokens_details": {"cached_tokens": turn.cached_tokens}}
        return usage(turn.prompt_tokens, tokens, **details)

    pieces = [chunk({"content": word}, **counted(place)) for place, word in enumerate(turn.words, 1)]
    tail = [chunk({"content": ""}, "length", **counted(turn.output_tokens)), no_choices(**counted(turn.output_tokens))]
    return turn.script([ROLE], pieces, [*tail, "data: [DONE]\n\n"])
