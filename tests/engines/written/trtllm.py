"""TensorRT-LLM's `trtllm-serve` with its Prometheus metrics on."""

from tests.engines.servers import CHAT, ROLE, WORDS, Server, chunk, models, no_choices, stream, usage
from tests.replay import Script


def server() -> Server:
    metrics = "# TYPE trtllm_request_success_total counter\n"
    return Server(
        {
            "/version": Script.json({"version": "1.2.0"}),
            "/health": Script(framing="length"),
            "/metrics": Script.json([]),
            "/prometheus/metrics": Script.text(metrics),
            "/v1/models": models("TinyLlama-1.1B-Chat-v1.0", owned_by="tensorrt_llm"),
            CHAT: stream(ROLE, *WORDS, chunk({}, "length"), no_choices(**usage(100, 3))),
        },
        "1.2.0",
        [("TinyLlama-1.1B-Chat-v1.0", "TinyLlama-1.1B-Chat-v1.0", None, None)],
        sent={"ignore_eos": True, "min_tokens": 8},
        prompt_tokens=100,
        error=(Script.json({"object": "error", "message": "boom", "type": "InternalServerError"}, 500), "boom"),
    )
