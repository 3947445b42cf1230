"""SGLang."""

from tests.engines.servers import CHAT, ROLE, WORDS, Server, chunk, models, no_choices, stream, usage
from tests.replay import Script


def server() -> Server:
    metrics = (
        'sglang:num_running_reqs{model_name="m"} 0.0\nsglang:num_queue_reqs{model_name="m"} 0.0\n'
        'sglang:prompt_tokens_total{model_name="m"} 5000.0\nsglang:generation_tokens_total{model_name="m"} 900.0\n'
        'sglang:cached_tokens_total{model_name="m",cache_source="device"} 1200.0\n'
    )
    info = {"model_path": "Qwen/Qwen3-8B-AWQ", "tp_size": 1, "version": "0.5.6", "kv_cache_dtype": "fp8_e5m2"}
    return Server(
        {
            "/get_server_info": Script.json({**info, "context_length": None, "max_total_num_tokens": 120000}),
            "/health": Script(framing="length"),
            "/metrics": Script.text(metrics),
            "/v1/models": models("Qwen/Qwen3-8B-AWQ", owned_by="sglang", max_model_len=40960),
            CHAT: stream(
                ROLE,
                *WORDS,
                chunk({}, "length"),
                no_choices(**usage(100, 3, prompt_tokens_details={"cached_tokens": 2})),
            ),
        },
        "0.5.6",
        [("Qwen/Qwen3-8B-AWQ", "Qwen3-8B", "AWQ", 40960)],
        settings={"context": 40960, "kv_type_k": "fp8_e5m2", "kv_type_v": "fp8_e5m2"},
        sent={"ignore_eos": True, "min_tokens": 8},
        prompt_tokens=100,
        cached_tokens=2,
        error=(
            Script.json(
                {"object": "error", "message": "The input is longer than the model's context length", "code": 400}, 400
            ),
            "context length",
        ),
    )
