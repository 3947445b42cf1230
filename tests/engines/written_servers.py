"""Replayed servers of the engines without a recording, written after what they send."""

from collections.abc import Callable

from app.core.samples import CacheDefeat
from tests.engines.servers import (
    CHAT,
    ROLE,
    WORDS,
    Finishing,
    Server,
    at_root,
    chunk,
    llamacpp,
    models,
    no_choices,
    ollama,
    sample_of,
    stream,
    transformers,
    usage,
    vllm,
    with_headers,
)  # fmt: skip
from tests.replay import Script


def strata() -> Server:
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


def lmstudio() -> Server:
    loaded = {"type": "llm", "arch": "qwen3", "quantization": "Q4_K_M", "max_context_length": 40960}
    listed = [
        {"id": "text-embedding-nomic", "type": "embeddings", "state": "not-loaded", "max_context_length": 2048},
        {"id": "gemma-3-12b", "type": "vlm", "quantization": "Q8_0", "state": "not-loaded", "max_context_length": 8192},
        {"id": "qwen3-8b", **loaded, "state": "loaded", "loaded_context_length": 4096},
    ]
    stats = {
        "tokens_per_second": 51.4,
        "time_to_first_token": 0.111,
        "generation_time": 0.954,
        "stop_reason": "maxPredictedTokensReached",
    }
    runtime = {"name": "llama.cpp-linux-x86_64-nvidia-cuda-avx2", "version": "1.3.0", "supported_formats": ["gguf"]}
    return Server(
        {
            "/api/v0/models": Script.json({"object": "list", "data": listed}),
            "/api/v0/chat/completions": stream(
                *WORDS, chunk({}, "length", stats=stats, runtime=runtime), no_choices(**usage(512, 3))
            ),
            "/v1/models": models("qwen3-8b", "gemma-3-12b"),
        },
        None,
        [("qwen3-8b", "qwen3-8b", "Q4_K_M", 4096), ("gemma-3-12b", "gemma-3-12b", "Q8_0", None)],
        path="/api/v0/chat/completions",
        prompt_tokens=512,
        figures={"prompt_tokens": None, "prompt_ms": None, "output_tokens": 3, "decode_ms": 954.0},
        error=(Script.json({"error": 'Model "x" not found. Please specify a valid model.'}, 404), "not found"),
    )


def sglang() -> Server:
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
        sent={
            "ignore_eos": True,
            "min_tokens": 8,
            "return_cached_tokens_details": True,
            "return_spec_tokens_details": True,
        },
        prompt_tokens=100,
        cached_tokens=2,
        error=(
            Script.json(
                {"object": "error", "message": "The input is longer than the model's context length", "code": 400}, 400
            ),
            "context length",
        ),
    )


def trtllm() -> Server:
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
        sent={"ignore_eos": True, "min_tokens": 8, "cache_salt": "0123abcd"},
        defeat=CacheDefeat.SWITCH,
        prompt_tokens=100,
        error=(Script.json({"object": "error", "message": "boom", "type": "InternalServerError"}, 500), "boom"),
    )


def tabbyapi() -> Server:
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
        settings={"context": 32768, "batch": 2048, "kv_type_k": "q8", "kv_type_v": "q8"},
        sent={"ignore_eos": True, "min_tokens": 8},
        prompt_tokens=512,
        cached_tokens=0,
        figures={"prompt_tokens": 512, "prompt_ms": 410.0, "output_tokens": 3, "decode_ms": 120.0},
        error=(Script.json({"detail": "No models are currently loaded."}, 400), "No models are currently loaded"),
    )


def koboldcpp() -> Server:
    perf = {"last_process_time": 0.0, "last_eval_time": 0.0, "last_token_count": 0, "last_input_count": 0}
    began = {**perf, "total_gens": 4, "queue": 0, "idle": 1, "stop_reason": -1}
    ended = {
        **began,
        "last_process_time": 0.25,
        "last_eval_time": 0.05,
        "last_token_count": 3,
        "last_input_count": 120,
        "total_gens": 5,
    }
    engine = Finishing(stream(ROLE, *WORDS, chunk({}, "length")), Script.json(began), Script.json(ended))
    return Server(
        {
            "/api/extra/version": Script.json({"result": "KoboldCpp", "version": "1.101.1", "llm": True}),
            "/api/extra/perf": engine.status,
            "/api/extra/true_max_context_length": Script.json({"value": 8192}),
            # it answers for clients of llama.cpp and of Ollama as well
            "/props": Script.json(
                {"chat_template": "", "total_slots": 1, "default_generation_settings": {"n_ctx": 8192}}
            ),
            "/": at_root("Ollama is running"),
            "/api/version": Script.json({"version": "0.7.0"}),
            "/v1/models": models("koboldcpp/gemma-3-270m-Q4_K_M"),
            CHAT: engine.chat,
        },
        "1.101.1",
        [("koboldcpp/gemma-3-270m-Q4_K_M", "gemma-3-270m", "Q4_K_M", 8192)],
        settings={"context": 8192},
        sent={"ignore_eos": True},
        prompt_tokens=120,
        figures={"prompt_tokens": 120, "prompt_ms": 250.0, "output_tokens": 3, "decode_ms": 50.0},
        error=(
            Script.json(
                {"detail": {"msg": "Server is busy; please try again later.", "type": "service_unavailable"}}, 503
            ),
            "Server is busy",
        ),
    )


def localai() -> Server:
    timed = usage(512, 3, timing_prompt_processing=410.5, timing_token_generation=81.25)
    return Server(
        {
            "/readyz": Script.text("OK"),
            "/system": Script.json({"backends": ["llama-cpp"], "loaded_models": [{"id": "qwen3-8b"}]}),
            "/version": Script.json({"version": "v3.8.0"}),
            "/v1/models": models("qwen3-8b"),
            CHAT: stream(ROLE, *WORDS, chunk({}, "length", **timed)),
        },
        "v3.8.0",
        [("qwen3-8b", "qwen3-8b", None, None)],
        sent={"ignore_eos": True},
        headers={"extra-usage": "true"},
        prompt_tokens=512,
        figures={"prompt_tokens": 512, "prompt_ms": 410.5, "output_tokens": 3, "decode_ms": 81.25},
        error=(
            Script.json({"error": {"code": 500, "message": "rpc error: code = Unknown", "type": ""}}, 500),
            "rpc error",
        ),
    )


def mlxlm() -> Server:
    last = no_choices(**usage(4096, 3, prompt_tokens_details={"cached_tokens": 0}))
    return Server(
        {
            "/health": with_headers({"server": "BaseHTTP/0.6 Python/3.13.1"}, Script.json({"status": "ok"})),
            "/v1/models": models("mlx-community/gemma-3-12b-4bit", "/Users/me/models/qwen3-8b-4bit"),
            CHAT: stream(
                ": keepalive 2048/4096\n\n", ": keepalive 4096/4096\n\n", *WORDS, chunk({"content": ""}, "length"),
                {**last, "object": "chat.completion"},
            ),
        },
        None,
        [
            ("/Users/me/models/qwen3-8b-4bit", "qwen3-8b-4bit", None, None),
            ("mlx-community/gemma-3-12b-4bit", "gemma-3-12b-4bit", None, None),
        ],
        prompt_tokens=4096,
        cached_tokens=0,
        error=(Script.json({"error": "Repository Not Found for url"}, 404), "Repository Not Found"),
    )  # fmt: skip


def tgi() -> Server:
    info = {
        "model_id": "HuggingFaceH4/zephyr-7b-beta",
        "model_sha": "b7",
        "version": "3.3.4",
        "max_total_tokens": 4096,
        "max_input_tokens": 4095,
    }
    return Server(
        {
            "/info": Script.json(info),
            "/health": Script(framing="length"),
            CHAT: stream(
                chunk({"role": "assistant", "content": "one"}),
                *WORDS[1:],
                chunk({"role": "assistant", "content": ""}, "length"),
                no_choices(**usage(512, 3)),
            ),
        },
        "3.3.4",
        [("HuggingFaceH4/zephyr-7b-beta", "zephyr-7b-beta", None, 4096)],
        settings={"context": 4096},
        prompt_tokens=512,
        error=(
            Script.json(
                {
                    "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096",
                    "error_type": "validation",
                },
                422,
            ),
            "Input validation error",
        ),
    )


def litellm() -> Server:
    return Server(
        {
            "/health/liveliness": Script.json("I'm alive!"),
            "/health/readiness": Script.json({"status": "healthy", "db": "Not connected"}),
            "/v1/models": models("qwen3-8b", created=1677610602, owned_by="openai"),
            CHAT: stream(ROLE, *WORDS, chunk({}, "length"), no_choices(**usage(20, 3))),
        },
        None,
        [("qwen3-8b", "qwen3-8b", None, None)],
        prompt_tokens=20,
        error=(Script.json({"error": {"message": "litellm.BadRequestError: boom", "code": "400"}}, 400), "boom"),
    )


def openai() -> Server:
    return Server(
        {
            "/v1/models": models("tiny-Q8_0", max_model_len=2048),
            CHAT: stream(ROLE, *WORDS, chunk({}, "length"), no_choices(**usage(20, 3))),
        },
        None,
        [("tiny-Q8_0", "tiny", "Q8_0", 2048)],
        settings={"context": 2048},
        prompt_tokens=20,
        error=(Script.json({"error": {"message": "boom"}}, 500), "boom"),
    )


SERVERS: dict[str, Callable[[], Server]] = {
    "llama.cpp": llamacpp,
    "ollama": ollama,
    "vllm": vllm,
    "transformers": transformers,
    "strata": strata,
    "lmstudio": lmstudio,
    "sglang": sglang,
    "trtllm": trtllm,
    "tabbyapi": tabbyapi,
    "koboldcpp": koboldcpp,
    "localai": localai,
    "mlx-lm": mlxlm,
    "tgi": tgi,
    "litellm": litellm,
    "openai": openai,
}
