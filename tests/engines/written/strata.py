"""Strata as serve/server.py at 5f8f3f2 answers: what a request did is in its stream and in a record of /metrics."""

from collections.abc import Mapping
from typing import Any

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, ROLE, Finishing, Route, Server, chunk, models, sample_of, usage
from tests.replay import Request, Script

MODEL = "qwen3.8-flash-next"
PROMPT_TOKENS = 1757
LOADED: Mapping[str, Any] = {"status": {"value": "loaded"}, "meta": {"n_ctx": 131072}}


def server() -> Server:
    document, turn = sample_of("strata", "metrics"), Turn(PROMPT_TOKENS)
    earlier = {**document["requests"][0], "time": 1795950800.1, "hit_rate": 0.8}
    engine = Finishing(
        answer(turn),
        Script.json({**document, "requests": [earlier]}),
        Script.json({**document, "requests": [record(turn), earlier]}),
    )
    chat = CachedChat(answer)
    return Server(
        {
            "/health": Script.json(sample_of("strata", "health")),
            "/props": Script.json(sample_of("strata", "props")),
            "/slots": Script.json([{"id": 0, "n_ctx": 131072, "is_processing": False}]),
            "/metrics": engine.status,
            "/v1/models": models(MODEL, **LOADED),
            CHAT: engine.chat,
        },
        "0.1.41",
        [(MODEL, MODEL, "IQ4_XS", 131072)],
        settings={"context": 131072, "kv_type_k": "int8", "kv_type_v": "int8", "parallel": 1},
        prompt_tokens=PROMPT_TOKENS,
        cached_tokens=0,
        figures={
            "prompt_tokens": PROMPT_TOKENS,
            "prompt_ms": 3514.0,
            "output_tokens": 3,
            "decode_ms": 20.0,
            "draft_tokens": 96,
            "draft_accepted_tokens": 41,
            "expert_hit_share": 0.834,
        },
        live={CHAT: chat, "/metrics": _metrics_of(chat)},
        error=(
            Script.json({"error": {"type": "invalid_request_error", "message": "prompt (9 tokens) exceeds"}}, 400),
            "prompt (9 tokens) exceeds",
        ),
    )


def _metrics_of(chat: CachedChat) -> Route:
    def answer(request: Request) -> Script:
        return Script.json({**sample_of("strata", "metrics"), "requests": [record(turn) for turn in chat.turns[::-1]]})

    return answer


def answer(turn: Turn, made: int | None = None, *, has_timings: bool = True) -> Script:
    """The stream; `made` tokens were made, which are more than the answer has where its end came within a step."""
    timings = {"timings": timings_of(turn, made)} if has_timings else {}
    cached = {"prompt_tokens_details": {"cached_tokens": turn.cached_tokens}}
    last = chunk({}, "length", **usage(turn.prompt_tokens, turn.output_tokens, **cached), **timings)
    return turn.script([ROLE], [chunk({"content": word}) for word in turn.words], [last, "data: [DONE]\n\n"])


def timings_of(turn: Turn, made: int | None = None) -> dict[str, Any]:
    """Its clock runs from the end of the prompt's reading: n steps for n tokens."""
    made = made or turn.output_tokens
    decode_ms = made * turn.decode_ms("n") / turn.output_tokens
    return {
        "cache_n": turn.cached_tokens,
        "prompt_n": turn.fresh_tokens,
        "prompt_ms": turn.prompt_ms,
        "prompt_per_second": round(turn.fresh_tokens / turn.prompt_ms * 1000, 1),
        "predicted_n": turn.output_tokens,
        "predicted_ms": round(decode_ms, 1),
        "predicted_per_token_ms": round(decode_ms / made, 3),
        "predicted_per_second": round(made / decode_ms * 1000, 1),
        "draft_n": 96,
        "draft_n_accepted": 41,
    }


def record(turn: Turn, made: int | None = None, **changes: Any) -> dict[str, Any]:
    """What the server keeps of a finished request."""
    timings = timings_of(turn, made)
    return {
        "projection": None,
        "time": 1795950869.3 + turn.ordinal,
        "duration_s": 1.0,
        "finish": "length",
        "prompt_tokens": turn.prompt_tokens,
        "reused": turn.cached_tokens,
        "output_tokens": turn.output_tokens,
        "prompt_total": turn.prompt_tokens,
        "prompt_read": turn.fresh_tokens,
        "engine_generated": made or turn.output_tokens,
        "prompt_ms": timings["prompt_ms"],
        "decode_ms": timings["predicted_ms"],
        "decode_tok_s": timings["predicted_per_second"],
        "hit_rate": 0.834,
        "ram_blobs": 7,
        "file_blobs": 2,
        "file_mb": 12.5,
        "drafts_offered": 96,
        "drafts_accepted": 41,
        **changes,
    }
