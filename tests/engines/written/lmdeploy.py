"""LMDeploy 0.16: usage in a chunk of its own, `usage: null` in all others; gauges that are ten seconds old."""

from typing import Any

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, Server, models
from tests.replay import Script

MODEL = "internlm/internlm3-8b-instruct"
_LABELS = f'{{model_name="{MODEL}",engine="0"}}'


def server() -> Server:
    return Server(
        {
            "/health": Script.json({"status": "healthy", "message": "ok"}),
            "/metrics": metrics(),
            "/v1/models": models(MODEL, owned_by="lmdeploy", root=MODEL, parent=None),
            CHAT: answer(Turn(prompt_tokens=20)),
        },
        None,
        [(MODEL, "internlm3-8b-instruct", None, None)],
        sent={"ignore_eos": True, "min_new_tokens": 8},
        prompt_tokens=20,
        cached_tokens=0,
        live={CHAT: CachedChat(answer)},
        error=(
            Script.json(
                {
                    "object": "error", "message": "The request exceeds the model context length.",
                    "type": "invalid_request_error", "code": 400, "param": None,
                },
                400,
            ),
            "exceeds the model context length",
        ),
    )  # fmt: skip


def metrics(requests: int = 2, prompt: int = 100, cached: int = 40, output: int = 20) -> Script:
    """Of a server that has nothing to do; each request had 10 ms of prefill, and 20 ms for each further token."""
    names = {
        "num_requests_running": 1,
        "num_requests_waiting": 0,
        "gpu_cache_usage_perc": 0.25,
        "prompt_tokens_total": prompt,
        "cached_tokens_total": cached,
        "generation_tokens_total": output,
        "spec_decode_num_draft_tokens_total": 0,
        "request_prefill_time_seconds_sum": 0.01 * requests,
        "request_prefill_time_seconds_count": requests,
        "request_decode_time_seconds_sum": 0.02 * (output - requests),
        "request_decode_time_seconds_count": requests,
        "time_to_first_token_seconds_sum": 0.03 * requests,
        "time_to_first_token_seconds_count": requests,
    }
    lines = [f"lmdeploy:{name}{_LABELS} {value}" for name, value in names.items()]
    finished = f'lmdeploy:request_success_total{{model_name="{MODEL}",engine="0",finished_reason="FINISH"}} {requests}'
    return Script.text("\n".join([*lines, finished]) + "\n")


def answer(turn: Turn) -> Script:
    usage = {
        "prompt_tokens": turn.prompt_tokens,
        "total_tokens": turn.prompt_tokens + turn.output_tokens,
        "completion_tokens": turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": turn.cached_tokens},
    }
    pieces = [_chunk({"role": "assistant", "content": word}) for word in turn.words]
    end = _chunk({"role": "assistant", "content": ""}, "length")
    last = {**_chunk({}), "choices": [], "usage": usage}
    return turn.script([], pieces, [end, last, "data: [DONE]\n\n"])


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta} | ({} if finish is None else {"finish_reason": finish})
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    return {**head, "choices": [choice], "usage": None}
