"""LM Studio 0.4 with both of its REST APIs; `newer` is one that has v1 only. Written after its documentation."""

import json
from typing import Any

from tests.engines.prompt_cache import STEP_MS, CachedChat, Turn
from tests.engines.servers import Server, chunk, models, no_choices, usage
from tests.replay import Script

CONFIG = {
    "context_length": 4096,
    "eval_batch_size": 512,
    "parallel": 4,
    "flash_attention": True,
    "num_experts": 8,
    "offload_kv_cache_to_gpu": False,
}
LOADED = {
    "type": "llm",
    "key": "qwen3-8b",
    "display_name": "Qwen3 8B",
    "quantization": {"name": "Q4_K_M", "bits_per_weight": 4},
    "size_bytes": 5030000000,
    "params_string": "8B",
    "loaded_instances": [{"id": "qwen3-8b", "config": CONFIG}],
    "max_context_length": 40960,
    "format": "gguf",
}
UNLOADED = {
    **LOADED,
    "key": "gemma-3-12b",
    "type": "vlm",
    "quantization": {"name": "Q8_0", "bits_per_weight": 8},
    "loaded_instances": [],
    "max_context_length": 8192,
}
DRAFTS = {"total_draft_tokens_count": 20, "accepted_draft_tokens_count": 14, "rejected_draft_tokens_count": 6}
MODELS = [("qwen3-8b", "qwen3-8b", "Q4_K_M", 4096), ("gemma-3-12b", "gemma-3-12b", "Q8_0", None)]
REFUSAL = Script.json({"error": 'Model "x" not found. Please specify a valid model.'}, 404)


def server() -> Server:
    loaded = {"type": "llm", "arch": "qwen3", "quantization": "Q4_K_M", "max_context_length": 40960}
    listed = [
        {"id": "text-embedding-nomic", "type": "embeddings", "state": "not-loaded", "max_context_length": 2048},
        {"id": "gemma-3-12b", "type": "vlm", "quantization": "Q8_0", "state": "not-loaded", "max_context_length": 8192},
        {"id": "qwen3-8b", **loaded, "state": "loaded", "loaded_context_length": 4096},
    ]
    return Server(
        {
            "/api/v0/models": Script.json({"object": "list", "data": listed}),
            "/api/v1/models": Script.json({"models": [LOADED, UNLOADED]}),
            "/api/v0/chat/completions": answer(Turn(512)),
            "/v1/models": models("qwen3-8b", "gemma-3-12b", owned_by="organization_owner"),
        },
        None,
        MODELS,
        path="/api/v0/chat/completions",
        prompt_tokens=512,
        figures={
            "prompt_tokens": None,
            "prompt_ms": None,
            "output_tokens": 3,
            "decode_ms": 20.0,
            "draft_tokens": 20,
            "draft_accepted_tokens": 14,
        },
        live={"/api/v0/chat/completions": CachedChat(answer)},
        error=(REFUSAL, "not found"),
    )


def answer(turn: Turn) -> Script:
    """As v0 answers, with a draft model."""
    stats = {
        "tokens_per_second": 1000 / STEP_MS,
        "time_to_first_token": turn.prompt_ms / 1000,
        "generation_time": turn.decode_ms("n-1") / 1000,
        "stop_reason": "maxPredictedTokensReached",
        **DRAFTS,
    }
    runtime = {"name": "llama.cpp-linux-x86_64-nvidia-cuda-avx2", "version": "1.3.0", "supported_formats": ["gguf"]}
    return turn.script(
        [],
        [chunk({"content": word}) for word in turn.words],
        [
            chunk({}, "length", stats=stats, runtime=runtime),
            no_choices(**usage(turn.prompt_tokens, turn.output_tokens)),
            "data: [DONE]\n\n",
        ],
    )


def newer() -> Server:
    return Server(
        {
            "/api/v1/models": Script.json({"models": [LOADED, UNLOADED]}),
            "/api/v1/chat": newer_answer(Turn(512, output_tokens=5)),
            "/v1/models": models("qwen3-8b", "gemma-3-12b", owned_by="organization_owner"),
        },
        None,
        MODELS,
        path="/api/v1/chat",
        live={"/api/v1/chat": CachedChat(newer_answer, limit_fields=("max_output_tokens",))},
        error=(REFUSAL, "not found"),
    )


def newer_answer(turn: Turn) -> Script:
    """As v1 answers: named events, of which the first two tokens are reasoning."""
    stats = {
        "input_tokens": turn.prompt_tokens,
        "total_output_tokens": turn.output_tokens,
        "reasoning_output_tokens": 2,
        "tokens_per_second": 1000 / STEP_MS,
        "time_to_first_token_seconds": turn.prompt_ms / 1000,
        "model_load_time_seconds": 2.5,
        **DRAFTS,
    }
    deltas = [
        _event("reasoning.delta" if position < 2 else "message.delta", content=word)
        for position, word in enumerate(turn.words)
    ]
    return turn.script(
        [
            _event("chat.start", model_instance_id="qwen3-8b"),
            _event("model_load.progress", model_instance_id="qwen3-8b", progress=0.5),
            _event("prompt_processing.progress", progress=0.5),
        ],
        deltas,
        [_event("chat.end", result={"model_instance_id": "qwen3-8b", "output": [], "stats": stats})],
    )


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"
