"""Strata."""

from tests.engines.servers import (
    CHAT,
    ROLE,
    WORDS,
    Finishing,
    Server,
    chunk,
    models,
    no_choices,
    sample_of,
    stream,
    usage,
)
from tests.replay import Script


def server() -> Server:
    document = sample_of("strata", "metrics")
    earlier = {**document["requests"][0], "time": 1795950800.1, "hit_rate": 80.0}
    engine = Finishing(
        stream(ROLE, *WORDS, chunk({}, "length"), no_choices(**usage(1757, 3))),
        Script.json({**document, "requests": [earlier]}),
        Script.json({**document, "requests": [earlier, document["requests"][0]]}),
    )
    return Server(
        {
            "/health": Script.json(sample_of("strata", "health-new")),
            "/metrics": engine.status,
            "/v1/models": models("qwen3.8-flash-next"),
            CHAT: engine.chat,
        },
        "0.2.13",
        [("qwen3.8-flash-next", "qwen3.8-flash-next", None, 131072)],
        settings={"context": 131072, "kv_type_k": "int8", "kv_type_v": "int8"},
        prompt_tokens=1757,
        cached_tokens=0,
        figures={
            "prompt_tokens": 1757,
            "prompt_ms": 1898.0,
            "output_tokens": 3,
            "decode_ms": 2 / 66.4 * 1000,
            "draft_tokens": 385,
            "draft_accepted_tokens": 235,
            "expert_hit_share": 0.971,
        },
        error=(Script.json({"error": {"message": "prompt is too long"}}, 400), "prompt is too long"),
    )
