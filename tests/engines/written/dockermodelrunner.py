"""Docker Model Runner in front of llama.cpp and of vLLM."""

from typing import Any

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, Route, Server, at_root
from tests.engines.written.llamaswap import llamacpp_answer
from tests.replay import Script

SMOL = "docker.io/ai/smollm2:360M-Q4_K_M"
QWEN = "docker.io/ai/qwen3-vllm:latest"
DIGEST = "sha256:354bf30d0aa3af413d2aa5ae4f23c66d78980072d1e07a5b0d776e9606a2f0b9"


def running(*, in_use: bool = False, loading: bool = False) -> Script:
    """`/engines/ps`, which knows the model by the name that was asked for."""
    run: dict[str, Any] = {"backend_name": "llama.cpp", "model_name": "ai/smollm2:360M-Q4_K_M", "mode": "completion"}
    run |= {"last_used": "0001-01-01T00:00:00Z"} | ({"in_use": True} if in_use else {})
    return Script.json([{**run, "loading": True} if loading else run])


def server() -> Server:
    entry = {"object": "model", "created": 1742816981, "owned_by": "docker"}
    smol = {"context_window": 8192, "architecture": "llama", "parameters": "361.82 M", "quantization": "Q4_K_M"}
    listed = [{"id": QWEN, **entry}, {"id": SMOL, **entry, "dmr": smol}]
    stored = [
        {"id": DIGEST, "tags": [SMOL], "created": 1742816981, "config": {"format": "gguf", "quantization": "Q4_K_M"}},
        {"id": "sha256:1", "tags": [QWEN], "created": 1742816981, "config": {"format": "safetensors"}},
    ]
    config = {"context-size": 4096, "runtime-flags": ["--threads", "6", "--api-key", "not-for-others"]}
    chat = CachedChat(llamacpp_answer, is_cached=lambda body: body.get("cache_prompt") is not False)
    labels = '{backend="llama.cpp",mode="completion",model="ai/smollm2:360M-Q4_K_M"}'

    def metrics(_: object) -> Script:
        fresh, output = (
            sum(turn.fresh_tokens for turn in chat.turns),
            sum(turn.output_tokens for turn in chat.turns),
        )
        totals = {"llamacpp:prompt_tokens_total": fresh, "llamacpp:tokens_predicted_total": output}
        return Script.text("".join(f"{name}{labels} {total}\n" for name, total in totals.items()))

    routes: dict[str, Route] = {
        "/": at_root("Docker Model Runner is running"),
        "/version": Script.json({"version": "v1.2.6"}),
        # for Ollama's clients
        "/api/version": Script.json({"version": "0.1.0"}),
        "/api/tags": Script.json({"models": [{"name": SMOL, "model": SMOL}]}),
        "/engines/status": Script.json({"llama.cpp": "Running: llama.cpp latest-cuda", "vllm": "Not Installed"}),
        "/engines/ps": running(),
        "/engines/_configure": Script.json(
            [{"Backend": "llama.cpp", "Model": SMOL, "ModelID": DIGEST, "Mode": "completion", "Config": config}]
        ),
        "/models": Script.json(stored),
        "/metrics": metrics,
        "/v1/models": Script.json({"object": "list", "data": listed}),
        CHAT: llamacpp_answer(Turn(prompt_tokens=5, output_tokens=8)),
    }
    return Server(
        routes,
        "v1.2.6",
        [(SMOL, "smollm2:360M", "Q4_K_M", 4096), (QWEN, "qwen3-vllm:latest", None, None)],
        prompt_tokens=5,
        cached_tokens=0,
        output_tokens=8,
        figures={"prompt_tokens": 5, "prompt_ms": 10.0, "output_tokens": 8, "decode_ms": 70.0},
        backend=("llama.cpp", None),
        live={CHAT: chat},
        error=(Script.text("unable to load runner: not enough memory", 500), "unable to load runner"),
    )
