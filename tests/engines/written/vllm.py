"""vLLM, as it was recorded."""

from app.core.samples import CacheDefeat
from tests.engines.servers import CHAT, Server, scrape
from tests.replay import capture


def server() -> Server:
    return Server(
        {
            "/version": capture("vllm", "version"),
            "/health": capture("vllm", "health"),
            "/metrics": scrape("vllm", "metrics-3-after-bench"),
            "/v1/models": capture("vllm", "models"),
            "/tokenize": capture("vllm", "tokenize"),
            CHAT: capture("vllm", "chat-stream-perreqmetrics"),
        },
        "0.32.0",
        [("tiny-qwen3", "tiny-qwen3", None, 2048)],
        settings={"context": 2048},
        sent={
            "cache_salt": "0123abcd",
            "ignore_eos": True,
            "min_tokens": 8,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        },
        defeat=CacheDefeat.SWITCH,
        prompt_tokens=190,
        cached_tokens=0,
        output_tokens=24,
        figures={
            "prompt_tokens": 190,
            "prompt_ms": 382.68205500003205,
            "output_tokens": 24,
            "decode_ms": 4289.146973000015,
            "queue_ms": 0.15047399983814103,
        },
        error=(capture("vllm", "err-too-long"), "at least 2049 input tokens"),
    )
