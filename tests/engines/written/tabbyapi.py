"""TabbyAPI."""

from typing import Any

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, ROLE, Server, chunk, models, no_choices, usage
from tests.replay import Script


def server() -> Server:
    card = {"id": "Qwen3-8B-exl3", "object": "model", "owned_by": "tabbyAPI"}
    parameters = {
        "max_seq_len": 32768,
        "cache_size": 32768,
        "cache_mode": "Q8",
        "chunk_size": 2048,
        "max_batch_size": 4,
    }
    return Server(
        {
            "/health": Script.json({"status": "healthy", "issues": []}),
            "/v1/models": models("other-exl3", "Qwen3-8B-exl3", owned_by="tabbyAPI"),
            "/v1/model": Script.json({**card, "parameters": parameters}),
            # it says that it is KoboldCpp, for clients of that
            "/api/extra/version": Script.json({"result": "KoboldCpp", "version": "1.61"}),
            CHAT: answer(Turn(512), queue_s=0.1),
        },
        None,
        [("Qwen3-8B-exl3", "Qwen3-8B-exl3", None, 32768), ("other-exl3", "other-exl3", None, 32768)],
        settings={"context": 32768, "parallel": 4, "batch": 2048, "kv_type_k": "q8", "kv_type_v": "q8"},
        sent={"ignore_eos": True, "min_tokens": 8},
        prompt_tokens=512,
        cached_tokens=0,
        figures={"prompt_tokens": 512, "prompt_ms": 1020.0, "output_tokens": 3, "decode_ms": None, "queue_ms": 100.0},
        live={CHAT: CachedChat(answer)},
        error=(Script.json({"detail": "No models are currently loaded."}, 400), "No models are currently loaded"),
    )


def answer(turn: Turn, queue_s: float = 0.0) -> Script:
    counts = usage(turn.prompt_tokens, turn.output_tokens, **_times(turn, queue_s))
    return turn.script(
        [ROLE],
        [chunk({"content": word}) for word in turn.words],
        [chunk({}, "length"), no_choices(**counts), "data: [DONE]\n\n"],
    )


def _times(turn: Turn, queue_s: float) -> dict[str, Any]:
    """Seconds, rounded as it rounds them; its clock of the completion runs from the first token to the last."""
    prompt_s, completion_s = round(turn.prompt_ms / 1000, 2), turn.decode_ms("n-1") / 1000
    return {
        "prompt_time": prompt_s,
        "prompt_tokens_per_sec": round(turn.fresh_tokens / prompt_s, 2) if prompt_s else "Indeterminate",
        "completion_time": round(completion_s, 2),
        "completion_tokens_per_sec": round(turn.output_tokens / completion_s, 2) if completion_s else "Indeterminate",
        "total_time": round(queue_s + prompt_s + completion_s, 2),
    }
