"""Servers of several models, as small as they can be: a router of llama.cpp, a gateway, LM Studio, and bare APIs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.replay import Answerer, Request, Script

Q4_ARGS = (
    "llama-server --alias x --ctx-size 16384 --model /m/gemma-3-4b-it-Q4_K_M.gguf --parallel 2 -ctk q8_0 "
    "--cache-type-v q8_0 -t 8 -ngl 99 -fa on --batch-size 1024"
)
NO_MODEL = Script.json({"error": {"code": 400, "message": "model name is missing from the request"}}, 400)
NOT_FOUND = Script.json({"detail": "Not Found"}, 404)


def stream(model: str, step_ms: float, n: int = 8, **last: Any) -> Script:
    pieces = [{"content": f" w{place}"} for place in range(n)]
    chunks: list[dict[str, Any]] = [{"model": model, "choices": [{"index": 0, "delta": piece}]} for piece in pieces]
    chunks.append({"model": model, "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
    usage = {"prompt_tokens": 600, "completion_tokens": n, "total_tokens": 600 + n}
    chunks.append({"model": model, "choices": [], "usage": usage, **last})
    data = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    return Script.sse(*data, b"data: [DONE]\n\n", step_ms=step_ms)


@dataclass
class Routed:
    """One model of a router."""

    args: list[str]
    ftype: str
    n_ctx: int
    slots: int
    path: str
    step_ms: float = 2
    is_loaded: bool = False


@dataclass
class Router:
    """`llama-server` without a model: it answers for each of its models, and asking for one may load it."""

    models: dict[str, Routed]
    loads: list[str] = field(default_factory=list)
    """The models that something has made it load, in order."""

    @property
    def routes(self) -> Mapping[str, Answerer]:
        return {
            "/props": self._props,
            "/slots": lambda request: self._of_model(request, Script.json([{"id": 0, "is_processing": False}])),
            "/metrics": lambda request: self._of_model(request, Script.text("llamacpp:prompt_tokens_total 0\n")),
            "/health": lambda _: self._said(Script.json({"status": "ok"})),
            "/v1/models": self._list,
            "/v1/chat/completions": self._chat,
        }

    def _said(self, script: Script) -> Script:
        return Script(script.rows, script.status, {**script.headers, "server": "llama.cpp"})

    def _props(self, request: Request) -> Script:
        if "model" not in parse_qs(urlsplit(request.path).query):
            default = {"params": None, "n_ctx": 0}
            props = {"role": "router", "model_path": "none", "model_alias": "llama-server", "build_info": "b7600-abc"}
            return self._said(Script.json({**props, "default_generation_settings": default}))
        return self._of_model(request, None)

    def _of_model(self, request: Request, answer: Script | None) -> Script:
        asked = parse_qs(urlsplit(request.path).query)
        name = asked.get("model", [""])[0]
        if name not in self.models:
            return self._said(NO_MODEL)
        model = self.models[name]
        if not model.is_loaded:
            if asked.get("autoload") == ["false"]:
                return self._said(Script.json({"error": {"code": 400, "message": "model is not loaded"}}, 400))
            self._load(name)
        own = {
            "default_generation_settings": {"n_ctx": model.n_ctx},
            "total_slots": model.slots,
            "model_path": model.path,
            "model_ftype": model.ftype,
            "build_info": "b7600-abc",
        }
        return self._said(answer or Script.json(own))

    def _list(self, _: Request) -> Script:
        entries = [
            {
                "id": name,
                "object": "model",
                "owned_by": "llamacpp",
                "status": {"value": "loaded" if model.is_loaded else "unloaded", "args": model.args},
            }
            for name, model in self.models.items()
        ]
        return self._said(Script.json({"object": "list", "data": entries}))

    def _chat(self, request: Request) -> Script:
        name = request.json().get("model")
        if name not in self.models:
            return self._said(NO_MODEL)
        self._load(name)
        step_ms, n = self.models[name].step_ms, 8
        timings = {"cache_n": 0, "prompt_n": 600, "prompt_ms": 290.0, "predicted_n": n, "predicted_ms": 7 * step_ms}
        return self._said(stream(name, step_ms, n, timings=timings))

    def _load(self, name: str) -> None:
        if not self.models[name].is_loaded:
            self.models[name].is_loaded = True
            self.loads.append(name)


def router() -> Router:
    """Two quantizations of one model; the second one is loaded."""
    base = "ggml-org/gemma-3-4b-it-GGUF"
    return Router(
        {
            f"{base}:Q4_K_M": Routed(
                Q4_ARGS.split(),
                "Q4_K - Medium",
                8192,
                2,
                "/m/gemma-3-4b-it-Q4_K_M.gguf",
            ),
            f"{base}:Q8_0": Routed(
                ["llama-server", "--ctx-size", "8192", "--model", "/m/gemma-3-4b-it-Q8_0.gguf", "--parallel", "1"],
                "Q8_0",
                8192,
                1,
                "/m/gemma-3-4b-it-Q8_0.gguf",
                step_ms=4,
                is_loaded=True,
            ),
        }
    )


def openai_at(prefix: str, steps_ms: Mapping[str, float]) -> Mapping[str, Answerer]:
    """An API at some path: its models, and how long each takes for a token."""

    def chat(request: Request) -> Script:
        model = request.json().get("model")
        return stream(model, steps_ms[model]) if model in steps_ms else NOT_FOUND

    def listed(_: Request) -> Script:
        return Script.json({"object": "list", "data": [{"id": name, "object": "model"} for name in steps_ms]})

    return {f"{prefix}/models": listed, f"{prefix}/chat/completions": chat}


def lmstudio(loaded: set[str]) -> Mapping[str, Answerer]:
    """Two quantizations of one model; asking for one loads it."""
    entries = {"google/gemma-3-12b@q4_k_m": "Q4_K_M", "google/gemma-3-12b@q8_0": "Q8_0"}

    def listed(_: Request) -> Script:
        return Script.json(
            {
                "data": [
                    {
                        "id": name,
                        "type": "vlm",
                        "quantization": quantization,
                        "state": "loaded" if name in loaded else "not-loaded",
                        "max_context_length": 131072,
                        **({"loaded_context_length": 4096} if name in loaded else {}),
                    }
                    for name, quantization in entries.items()
                ]
            }
        )

    def chat(request: Request) -> Script:
        loaded.add(request.json()["model"])
        return stream(request.json()["model"], 2)

    return {"/api/v0/models": listed, "/api/v0/chat/completions": chat}
