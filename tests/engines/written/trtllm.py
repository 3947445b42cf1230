"""TensorRT-LLM's `trtllm-serve` with its Prometheus metrics on."""

from app.core.samples import CacheDefeat
from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, ROLE, Server, chunk, models, no_choices, usage
from tests.replay import Script


def server() -> Server:
    return Server(
        {
            "/version": Script.json({"version": "1.2.0"}),
            "/health": Script(framing="length"),
            "/metrics": Script.json([]),
            "/perf_metrics": Script.json([]),
            "/prometheus/metrics": Script.text("# TYPE trtllm_request_success_total counter\n"),
            "/v1/models": models("TinyLlama-1.1B-Chat-v1.0", owned_by="tensorrt_llm"),
            CHAT: answer(Turn(100)),
        },
        "1.2.0",
        [("TinyLlama-1.1B-Chat-v1.0", "TinyLlama-1.1B-Chat-v1.0", None, None)],
        sent={"ignore_eos": True, "min_tokens": 8, "cache_salt": "0123abcd"},
        defeat=CacheDefeat.SWITCH,
        prompt_tokens=100,
        cached_tokens=0,
        figures={"output_tokens": None, "decode_ms": None, "raw": {"avg_decoded_tokens_per_iter": 1.5}},
        live={CHAT: CachedChat(answer, salt="cache_salt")},
        error=(Script.json({"object": "error", "message": "boom", "type": "InternalServerError"}, 500), "boom"),
    )


def answer(turn: Turn) -> Script:
    last = chunk({}, "length")
    cached = {"prompt_tokens_details": {"cached_tokens": turn.cached_tokens}}
    return turn.script(
        [ROLE],
        [chunk({"content": word}) for word in turn.words],
        [
            {**last, "choices": [{**last["choices"][0], "avg_decoded_tokens_per_iter": 1.5}]},
            no_choices(**usage(turn.prompt_tokens, turn.output_tokens, **cached)),
            "data: [DONE]\n\n",
        ],
    )
