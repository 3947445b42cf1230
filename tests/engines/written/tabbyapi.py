"""TabbyAPI."""

from tests.engines.servers import CHAT, ROLE, WORDS, Server, chunk, models, no_choices, stream, usage
from tests.replay import Script


def server() -> Server:
    card = {"id": "Qwen3-8B-exl3", "object": "model", "owned_by": "tabbyAPI"}
    parameters = {"max_seq_len": 32768, "cache_size": 32768, "cache_mode": "Q8", "chunk_size": 2048}
    times = {
        "prompt_time": 0.41,
        "prompt_tokens_per_sec": 1248.78,
        "completion_time": 0.12,
        "completion_tokens_per_sec": "Indeterminate",
    }
    return Server(
        {
            "/health": Script.json({"status": "healthy", "issues": []}),
            "/v1/models": models("other-exl3", "Qwen3-8B-exl3", owned_by="tabbyAPI"),
            "/v1/model": Script.json({**card, "parameters": parameters}),
            # it says that it is KoboldCpp, for clients of that
            "/api/extra/version": Script.json({"result": "KoboldCpp", "version": "1.61"}),
            CHAT: stream(ROLE, *WORDS, chunk({}, "length"), no_choices(**usage(512, 3, **times))),
        },
        None,
        [("Qwen3-8B-exl3", "Qwen3-8B-exl3", None, 32768), ("other-exl3", "other-exl3", None, 32768)],
        settings={"context": 32768, "kv_type_k": "q8", "kv_type_v": "q8"},
        sent={"ignore_eos": True, "min_tokens": 8},
        prompt_tokens=512,
        figures={"prompt_tokens": 512, "prompt_ms": 410.0, "output_tokens": 3, "decode_ms": 120.0},
        error=(Script.json({"detail": "No models are currently loaded."}, 400), "No models are currently loaded"),
    )
