"""mistral.rs 0.9.5: each chunk has the role, the last one has text, finish reason and usage at once."""

from typing import Any

from tests.engines.prompt_cache import STEP_MS, CachedChat, Turn
from tests.engines.servers import CHAT, Server
from tests.replay import Script

MODEL = "Qwen/Qwen3-4B"
METRICS = """
# TYPE mistralrs_sequences_completed_total counter
mistralrs_sequences_completed_total{{reason="length"}} {completed}
mistralrs_speculative_draft_tokens_proposed_total {proposed}
mistralrs_speculative_draft_tokens_accepted_total {accepted}
mistralrs_sequences_running 1
http_requests_in_flight{{method="POST",path="/v1/chat/completions",model="Qwen/Qwen3-4B"}} {in_flight}
mistralrs_time_to_first_token_seconds_bucket{{model="Qwen/Qwen3-4B",le="0.04"}} 0
mistralrs_time_to_first_token_seconds_bucket{{model="Qwen/Qwen3-4B",le="0.06"}} {completed}
mistralrs_time_to_first_token_seconds_bucket{{model="Qwen/Qwen3-4B",le="+Inf"}} {completed}
mistralrs_time_to_first_token_seconds_sum{{model="Qwen/Qwen3-4B"}} {ttft_s}
mistralrs_time_to_first_token_seconds_count{{model="Qwen/Qwen3-4B"}} {completed}
"""


def server() -> Server:
    listed = [_card("default"), _card("unsloth/gemma-3-4b-it", "unloaded"), _card(MODEL, "loaded")]
    build = {"version": "0.9.5", "cuda": True, "metal": False, "flash_attn": True, "flash_attn_v3": False}
    return Server(
        {
            "/health": Script.text("OK"),
            "/metrics": metrics(),
            "/v1/models": Script.json({"object": "list", "data": listed}),
            "/v1/system/info": Script.json(
                {"os": "Linux", "devices": [{"kind": "cpu"}], "build": {**build, "git_revision": "9e922623"}}
            ),
            CHAT: answer(Turn(prompt_tokens=20)),
        },
        "0.9.5",
        [(MODEL, "Qwen3-4B", None, None), ("unsloth/gemma-3-4b-it", "gemma-3-4b-it", None, None)],
        settings={"flash_attention": "on"},
        sent={"ignore_eos": True},
        prompt_tokens=20,
        figures={"prompt_tokens": 20, "prompt_ms": 40.0, "output_tokens": 3, "decode_ms": 21.0},
        live={CHAT: CachedChat(answer)},
        error=(Script.json({"message": "model `m` was not found"}, 422), "model `m` was not found"),
    )  # fmt: skip


def metrics(
    completed: int = 4, in_flight: int = 0, proposed: int = 10, accepted: int = 5, ttft_s: float = 0.2
) -> Script:
    return Script.text(
        METRICS.format(completed=completed, in_flight=in_flight, proposed=proposed, accepted=accepted, ttft_s=ttft_s)
    )


def answer(turn: Turn, step_ms: float = STEP_MS) -> Script:
    """The time of each step is cut to whole milliseconds before they are added up."""
    completion_s = (turn.output_tokens - 1) * int(step_ms) / 1000
    prompt_s = int(turn.prompt_ms) / 1000
    usage = {
        "completion_tokens": turn.output_tokens,
        "prompt_tokens": turn.prompt_tokens,
        "total_tokens": turn.prompt_tokens + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": turn.cached_tokens} if turn.cached_tokens else None,
        "avg_tok_per_sec": 1.0,
        "avg_prompt_tok_per_sec": 1.0,
        "avg_compl_tok_per_sec": 1.0,
        "total_time_sec": prompt_s + completion_s,
        "total_prompt_time_sec": prompt_s,
        "total_completion_time_sec": completion_s,
    }
    pieces = [_chunk(word) for word in turn.words]
    return turn.script([], [*pieces[:-1], _chunk(turn.words[-1], "length", usage)], ["data: [DONE]\n\n"])


def _chunk(text: str, finish: str | None = None, usage: dict[str, Any] | None = None) -> dict[str, Any]:
    delta = {"content": text, "role": "assistant"}
    return {
        "id": "0",
        "choices": [{"finish_reason": finish, "index": 0, "delta": delta, "logprobs": None}],
        "created": 1,
        "model": MODEL,
        "system_fingerprint": "local",
        "object": "chat.completion.chunk",
        "usage": usage,
    }


def _card(name: str, status: str | None = None) -> dict[str, Any]:
    card = {"id": name, "object": "model", "created": 1, "owned_by": "local", "root": name}
    return card if status is None else {**card, "status": status}
