"""MLC-LLM with `--enable-debug`: a usage chunk with `extra`, and errors that are JSON within a JSON text."""

import json
from typing import Any

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, Server, models
from tests.replay import Script

MODEL = "HF://mlc-ai/Qwen3-8B-q4f16_1-MLC"
REFUSAL = {"object": "error", "message": 'The requested model "m" is not served.', "code": 400}


def server() -> Server:
    return Server(
        {
            "/metrics": metrics(),
            "/v1/models": models(MODEL, owned_by="MLC-LLM"),
            CHAT: answer(Turn(prompt_tokens=20)),
        },
        None,
        [(MODEL, "Qwen3-8B-q4f16_1-MLC", None, None)],
        sent={"debug_config": {"ignore_eos": True}},
        prompt_tokens=20,
        cached_tokens=0,
        figures={"prompt_tokens": 20, "prompt_ms": 40.0, "output_tokens": 3, "decode_ms": 20.0},
        live={CHAT: CachedChat(answer)},
        error=(Script.json(json.dumps(REFUSAL), 400), 'The requested model "m" is not served.'),
    )


def metrics(
    prompt: int = 100, prefill: int = 60, output: int = 20, prefill_s: float = 0.12, decode_s: float = 0.2
) -> Script:
    return Script.text(
        "# NOTE: these metrics count token in the unit of serving model's tokenization\n\n"
        f"engine_prefill_time_sum\t{prefill_s}\nengine_decode_time_sum\t{decode_s}\nengine_jump_forward_time_sum\t0\n"
        f"prompt_tokens_sum\t{prompt}\ncompletion_tokens_sum\t{output}\nprefill_tokens_sum\t{prefill}\n"
        "decode_tokens_sum\t19\n\n# /last_finished_request\nlast_finished_request_ttft_s\t0.04\n"
        "\n# /decode_time_by_batch_size\ndecode_time_by_batch_size_mean{batch_size=1}\t0.01"
    )  # fmt: skip


def answer(turn: Turn, *, has_debug: bool = True) -> Script:
    first_s, total_s = turn.prompt_ms / 1000, (turn.prompt_ms + turn.decode_ms("n-1")) / 1000
    extra = {
        "prompt_tokens": turn.prompt_tokens,
        "completion_tokens": turn.output_tokens,
        "prefill_tokens": turn.fresh_tokens,
        "decode_tokens": turn.output_tokens - 1,
        "jump_forward_tokens": 0,
        "prefill_tokens_per_s": turn.fresh_tokens / first_s,
        "end_to_end_latency_s": total_s,
        "ttft_s": first_s,
        "inter_token_latency_s": total_s / turn.output_tokens,
    }
    usage = {
        "prompt_tokens": turn.prompt_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.prompt_tokens + turn.output_tokens,
        "extra": extra if has_debug else None,
    }
    pieces = [_chunk(word) for word in turn.words]
    last = _chunk("") | {"choices": [], "usage": usage}
    return turn.script([], pieces, [_chunk("", "length"), last, "data: [DONE]\n\n"])


def _chunk(text: str, finish: str | None = None) -> dict[str, Any]:
    delta = {"content": text, "role": "assistant", "name": None, "tool_calls": None, "tool_call_id": None}
    return {
        "id": "chatcmpl-1",
        "choices": [{"finish_reason": finish, "index": 0, "delta": delta, "logprobs": None}],
        "created": 1,
        "model": MODEL,
        "system_fingerprint": "",
        "object": "chat.completion.chunk",
        "usage": None,
    }
