"""exo after v1.0.71: a keep-alive at once, chunks that call themselves whole answers, statistics in a comment."""

import json
from typing import Any

from tests.engines.prompt_cache import MS_PER_PROMPT_TOKEN, STEP_MS, CachedChat, Turn
from tests.engines.servers import CHAT, Server
from tests.replay import Script

MODEL = "mlx-community/Qwen3-8B-4bit"
BENCH = "/bench/chat/completions"
CARD = {"modelId": MODEL, "storageSize": {"inBytes": 4_600_000_000}, "nLayers": 36}


def server() -> Server:
    cached = CachedChat(answer, lambda body: body.get("use_prefix_cache", True))
    return Server(
        {
            "/node_id": Script.json("12D3"),
            "/state/instances": Script.json(instances()),
            "/state/runners": Script.json(runners("RunnerReady")),
            "/openapi.json": schema({}),
            "/v1/models": Script.json({"object": "list", "data": [_card(MODEL, "4bit"), _card("mlx-community/other")]}),
            CHAT: answer(Turn(prompt_tokens=20)),
        },
        None,
        [(MODEL, "Qwen3-8B-4bit", "4bit", 40960)],
        settings={"context": 40960},
        prompt_tokens=20,
        cached_tokens=0,
        figures={"prompt_tokens": 20, "prompt_ms": 40.0, "output_tokens": 3, "decode_ms": 20.0},
        live={CHAT: cached, BENCH: cached},
        error=(
            Script.json(
                {
                    "error": {
                        "message": "No instance found for model m",
                        "type": "Not Found",
                        "param": None,
                        "code": 404,
                    }
                },
                404,
            ),
            "No instance found for model m",
        ),
    )


def instances() -> dict[str, Any]:
    layers = ({"startLayer": 0, "endLayer": 18}, {"startLayer": 18, "endLayer": 36})
    shards = {
        f"r{rank}": {"PipelineShardMetadata": {"modelCard": CARD, "deviceRank": rank, "worldSize": 2, **share}}
        for rank, share in enumerate(layers)
    }
    assignments = {"modelId": MODEL, "runnerToShard": shards, "nodeToRunner": {"n0": "r0", "n1": "r1"}}
    return {"i0": {"MlxRingInstance": {"instanceId": "i0", "shardAssignments": assignments}}}


def runners(*states: str) -> dict[str, Any]:
    return {f"r{rank}": {state: {}} for rank, state in enumerate(states)}


def schema(answer_schema: dict[str, Any]) -> Script:
    """Where the endpoint for benchmarks streams, its answer has no fixed form."""
    responses = {"200": {"description": "", "content": {"application/json": {"schema": answer_schema}}}}
    info = {"title": "FastAPI", "version": "0.1.0"}
    return Script.json({"openapi": "3.1.0", "info": info, "paths": {BENCH: {"post": {"responses": responses}}}})


def answer(turn: Turn) -> Script:
    """The rates are of the prompt's tokens but the last, and of the steps behind the first token."""
    usage = {
        "prompt_tokens": turn.prompt_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.prompt_tokens + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": turn.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
    hit = "none" if not turn.cached_tokens else "exact" if turn.fresh_tokens == 1 else "partial"
    stats = {
        "prompt_tps": 1000 / MS_PER_PROMPT_TOKEN,
        "generation_tps": 1000 / STEP_MS,
        "prompt_tokens": turn.prompt_tokens,
        "generation_tokens": turn.output_tokens,
        "peak_memory_usage": {"in_bytes": 5_000_000_000},
        "prefix_cache_hit": hit,
    }
    progress = json.dumps({"PrefillProgressChunk": {"model": MODEL, "processed_tokens": 10, "total_tokens": 20}})
    pieces = [_chunk(word) for word in turn.words]
    last = _chunk(turn.words[-1], "length") | {"usage": usage}
    return turn.script(
        [": keep-alive\n\n", f": prefill_progress {progress}\n\n"],
        [*pieces[:-1], last],
        [f": generation_stats {json.dumps(stats)}\n\n", "data: [DONE]\n\n"],
        connection="close",
    )


def _chunk(text: str, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}}
    if finish is not None:
        choice["finish_reason"] = finish
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}


def _card(name: str, quantization: str = "") -> dict[str, Any]:
    return {
        "id": name, "object": "model", "created": 1, "owned_by": "exo", "hugging_face_id": name, "name": name,
        "context_length": 40960, "storage_size_megabytes": 4387, "supports_tensor": True, "quantization": quantization,
    }  # fmt: skip
