"""Rapid-MLX 0.16.10: a role chunk and a keep-alive before the prompt is read, times in the finish chunk."""

from typing import Any

from tests.engines.prompt_cache import STEP_MS, CachedChat, Turn
from tests.engines.servers import CHAT, Server
from tests.replay import Script

MODEL = "mlx-community/Qwen3-8B-4bit"


def server() -> Server:
    card = {"id": MODEL, "object": "model", "created": 1, "owned_by": "rapid-mlx", "serving_lane": "text"}
    listed = [card | {"context_window": 40960, "max_model_len": None}]
    return Server(
        {
            "/": Script.json({"status": "ok"}),
            "/health": Script.json({"status": "healthy", "ready": True, "model_name": MODEL, "mcp": None}),
            "/health/ready": Script.json({"ready": True, "model": MODEL, "state": "ready", "model_loaded": True}),
            "/metrics": metrics(),
            "/v1/models": Script.json({"object": "list", "data": listed, "models": [{"slug": MODEL}]}),
            CHAT: answer(Turn(prompt_tokens=20)),
        },
        "0.16.10",
        [(MODEL, "Qwen3-8B-4bit", None, 40960)],
        settings={"context": 40960, "kv_type_k": "int8", "kv_type_v": "int8"},
        prompt_tokens=20,
        figures={"prompt_tokens": 20, "prompt_ms": 40.0, "output_tokens": 3, "decode_ms": 20.0},
        live={CHAT: CachedChat(answer)},
        error=(
            Script.json({"error": {"message": "The model `m` does not exist.", "code": "model_not_found"}}, 404),
            "The model `m` does not exist.",
        ),
    )


def metrics(requests: int = 2, prompt: int = 100, cached: int = 40, accepted: int = 5, running: int = 0) -> Script:
    labels = f'{{model="{MODEL}"}}'
    return Script.text(
        f'rapid_mlx_build_info{{version="0.16.10",model="{MODEL}"}} 1\n'
        'rapid_mlx_kv_cache_dtype{dtype="bf16"} 0\n'
        'rapid_mlx_kv_cache_dtype{dtype="int8"} 1\n'
        f"rapid_mlx_requests_processed_total {requests}\n"
        f"rapid_mlx_requests_running {running}\n"
        "rapid_mlx_requests_waiting 0\n"
        f"rapid_mlx_prompt_tokens_total {prompt}\n"
        f"rapid_mlx_completion_tokens_total {10 * requests}\n"
        f"rapid_mlx_prefix_cache_tokens_saved_total {cached}\n"
        f'rapid_mlx_spec_decode_drafted_by_depth_total{{method="mtp",depth="1"}} {2 * accepted}\n'
        f'rapid_mlx_spec_decode_accepted_by_depth_total{{method="mtp",depth="1"}} {accepted}\n'
        f"rapid_mlx_model_ttft_seconds_count{labels} {requests}\n"
        f"rapid_mlx_model_ttft_seconds_sum{labels} {0.05 * requests}\n"
    )


def answer(turn: Turn, **more: Any) -> Script:
    """The time to the first token goes from the request's arrival, the mean covers the steps behind that token."""
    usage: dict[str, Any] = {
        "prompt_tokens": turn.prompt_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.prompt_tokens + turn.output_tokens,
    }
    if turn.cached_tokens:
        usage["prompt_tokens_details"] = {"cached_tokens": turn.cached_tokens}
    end = _chunk({}, "length") | {"metrics": {"time_to_first_token_ms": turn.prompt_ms, "mean_itl_ms": STEP_MS} | more}
    pieces = [_chunk({"content": word}) for word in turn.words]
    last = {**_chunk({}), "choices": [], "usage": usage}
    return turn.script([_chunk({"role": "assistant"}), ": keepalive\n\n"], pieces, [end, last, "data: [DONE]\n\n"])


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta} | ({} if finish is None else {"finish_reason": finish})
    head = {"id": "chatcmpl-bf39", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    return {**head, "choices": [choice]}
