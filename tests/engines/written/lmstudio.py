"""LM Studio with its own REST API, v0."""

from tests.engines.servers import WORDS, Server, chunk, models, no_choices, stream, usage
from tests.replay import Script


def server() -> Server:
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
