"""llama-swap in front of llama.cpp and of vLLM, as its source has it: whoever asks for a model's server starts it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from tests.engines.prompt_cache import CachedChat, Turn
from tests.engines.servers import CHAT, DONE, Route, Server, chunk, encoded, no_choices, usage, with_headers
from tests.replay import Answerer, Request, Script

QWEN_COMMAND = r"""
# the small one
docker run --rm --name qwen -e HF_TOKEN=hf_abcdefghijkl ghcr.io/ggml-org/llama.cpp:server-cuda \
  --port 5801 --api-key not-for-others -m /models/Qwen3-8B-Q4_K_M.gguf -c 16384 -np 2 -ngl 99 \
  --cache-type-k q8_0 --cache-type-v q8_0 --mlock
"""
GEMMA_COMMAND = "vllm serve google/gemma-3-4b-it-AWQ --port 5802 --max-model-len 8192 --tensor-parallel-size 2"
STARTED = "starting"
READY = "ready"


@dataclass
class Backend:
    """The server of one model."""

    command: str
    routes: Mapping[str, Route]
    chat: CachedChat
    state: str = "stopped"

    def answer(self, path: str, request: Request) -> Script:
        best = max((route for route in self.routes if path.startswith(route)), key=len, default=None)
        route = self.routes[best] if best is not None else Script.json({"error": {"message": "File Not Found"}}, 404)
        return route if isinstance(route, Script) else route(replace(request, path=path))


@dataclass
class Gateway:
    backends: dict[str, Backend]
    aliases: dict[str, str] = field(default_factory=dict)
    peers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sends_loading_state: bool = False
    loading_ms: float = 40.0
    loads: list[str] = field(default_factory=list)
    """The models that something has made it start, in order."""

    @property
    def routes(self) -> dict[str, Answerer]:
        return {
            "/running": lambda _: Script.json({"running": [*self._running()]}),
            "/v1/models": lambda _: Script.json({"object": "list", "data": [*self._listed()]}),
            "/api/version": lambda _: Script.json({"version": "250", "commit": "0bdb3720", "build_date": "2026-08-22"}),
            "/health": lambda _: Script.text("OK"),
            "/metrics": lambda _: Script.text("llamaswap_memory_used_bytes 9\n"),
            "/props": lambda _: refusal(404, "no model id could be identified"),
            "/upstream/": self._upstream,
            CHAT: self._chat,
        }

    def _running(self) -> Any:
        for name, backend in sorted(self.backends.items()):
            if backend.state != "stopped":
                yield {
                    "model": name, "state": backend.state, "cmd": backend.command, "proxy": "http://localhost:5801",
                    "ttl": 0, "name": "", "description": "",
                }  # fmt: skip

    def _listed(self) -> Any:
        entry = {"object": "model", "created": 1787417367, "owned_by": "llama-swap"}
        for name, backend in self.backends.items():
            status = {"value": "unloaded" if backend.state == "stopped" else "loaded"}
            yield {"id": name, **entry, "meta": {"llamaswap": {"type": "model"}}, "status": status}
        for alias, name in self.aliases.items():
            meta = {"llamaswap": {"type": "alias", "modelID": name}}
            yield {"id": alias, **entry, "meta": meta, "status": {"value": "unloaded"}}
        for peer, names in self.peers.items():
            for name in names:
                meta = {"llamaswap": {"type": "peer", "peerID": peer}}
                yield {"id": f"{peer}/{name}", **entry, "meta": meta, "status": {"value": "unloaded"}}

    def _start(self, name: str) -> bool:
        """Whether the model had to be started; every other one is stopped."""
        if self.backends[name].state == READY:
            return False
        for backend in self.backends.values():
            backend.state = "stopped"
        self.backends[name].state = READY
        self.loads.append(name)
        return True

    def _upstream(self, request: Request) -> Script:
        path = unquote(request.path.removeprefix("/upstream/").partition("?")[0])
        name = next((name for name in (*self.backends, *self.aliases) if path.startswith(f"{name}/")), None)
        if name is None:
            return refusal(404, "model not found")
        real_name = self.aliases.get(name, name)
        self._start(real_name)
        return self.backends[real_name].answer(path.removeprefix(name), request)

    def _chat(self, request: Request) -> Script:
        name = request.json().get("model", "")
        name = self.aliases.get(name, name)
        if name not in self.backends:
            return refusal(404, "no model id could be identified")
        was_started = self._start(name)
        answer = self.backends[name].chat(request)
        return self._with_loading(name, answer) if was_started and self.sends_loading_state else answer

    def _with_loading(self, name: str, answer: Script) -> Script:
        """What it says while a model loads, in pieces of five characters, in front of the answer."""
        words = ["━━━━━", "\n"]
        line = f"llama-swap loading model: {name}"
        words += [line[start : start + 5] for start in range(0, len(line), 5)]
        words += ["\n", ".", "\n", "Done!", " (1.5", "0s)", "\n", "━━━━━", "\n", " ", "\n"]
        step_ms = self.loading_ms / len(words)
        loading = [(step_ms * position, loading_chunk(word)) for position, word in enumerate(words)]
        return replace(answer, rows=[*loading, *((ms + self.loading_ms, row) for ms, row in answer.rows)])


def loading_chunk(text: str) -> bytes:
    """A chunk of its own, as its source marshals it."""
    value = {"choices": [{"delta": {"reasoning_content": text}}]}
    return b"data: %s\n\n" % json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def refusal(status: int, message: str) -> Script:
    kind = {401: "authentication_error", 404: "invalid_request_error"}.get(status, "server_error")
    error = {"message": message, "type": kind, "param": None, "code": "not_found"}
    return Script.json({"src": "llama-swap", "error": error}, status)


def llamacpp_answer(turn: Turn) -> Script:
    timings = {
        "cache_n": turn.cached_tokens, "prompt_n": turn.fresh_tokens, "prompt_ms": turn.prompt_ms,
        "predicted_n": turn.output_tokens, "predicted_ms": turn.decode_ms("n-1"),
    }  # fmt: skip
    first, *others = turn.words
    role = encoded(chunk({"role": "assistant", "content": None})) + encoded(chunk({"content": first}))
    script = turn.script(
        [],
        [role.decode(), *(chunk({"content": word}) for word in others)],
        [
            chunk({}, "length"),
            no_choices(**usage(turn.prompt_tokens, turn.output_tokens), timings=timings),
            DONE.decode(),
        ],
    )
    return with_headers({"server": "llama.cpp"}, script)


def llamacpp_backend(command: str = QWEN_COMMAND) -> Backend:
    chat = CachedChat(llamacpp_answer, is_cached=lambda body: body.get("cache_prompt") is not False)
    props = {
        "default_generation_settings": {"n_ctx": 8192}, "total_slots": 2, "build_info": "b10068-abc",
        "model_path": "/models/Qwen3-8B-Q4_K_M.gguf", "model_ftype": "Q4_K - Medium",
    }  # fmt: skip
    entry = {
        "id": "Qwen3-8B-Q4_K_M.gguf", "object": "model", "owned_by": "llamacpp",
        "meta": {"n_params": 8190735360, "size": 5027783488, "n_ctx_train": 40960},
    }  # fmt: skip

    def named(script: Script) -> Script:
        return with_headers({"server": "llama.cpp"}, script)

    def metrics(_: Request) -> Script:
        fresh = sum(turn.fresh_tokens for turn in chat.turns)
        output = sum(turn.output_tokens for turn in chat.turns)
        seconds = sum(turn.decode_ms("n-1") for turn in chat.turns) / 1000
        return named(
            Script.text(
                f"llamacpp:prompt_tokens_total {fresh}\nllamacpp:tokens_predicted_total {output}\n"
                f"llamacpp:tokens_predicted_seconds_total {seconds}\n"
            )
        )

    routes: dict[str, Route] = {
        "/props": named(Script.json(props)),
        "/v1/models": named(Script.json({"object": "list", "data": [entry]})),
        "/health": named(Script.json({"status": "ok"})),
        "/slots": named(Script.json([{"id": 0, "is_processing": False}, {"id": 1, "is_processing": False}])),
        "/metrics": metrics,
        CHAT: chat,
    }
    return Backend(command, routes, chat)


def _vllm_answer(turn: Turn) -> Script:
    def counts(sent: int) -> dict[str, Any]:
        return usage(turn.prompt_tokens, sent)

    return turn.script(
        [],
        [chunk({"content": word}, **counts(position + 1)) for position, word in enumerate(turn.words)],
        [chunk({}, "length"), no_choices(**counts(turn.output_tokens)), DONE.decode()],
    )


def vllm_backend() -> Backend:
    chat = CachedChat(_vllm_answer, salt="cache_salt")
    entry = {"id": "google/gemma-3-4b-it-AWQ", "object": "model", "owned_by": "vllm", "max_model_len": 8192}
    routes: dict[str, Route] = {
        "/version": Script.json({"version": "0.23.0"}),
        "/v1/models": Script.json({"object": "list", "data": [entry]}),
        "/health": Script(framing="length"),
        "/metrics": Script.text('vllm:num_requests_running{model_name="gemma"} 0.0\n'),
        CHAT: chat,
    }
    return Backend(GEMMA_COMMAND, routes, chat)


def gateway(**more: Any) -> Gateway:
    """Two models; the first one runs."""
    backends = {"qwen": llamacpp_backend(), "org/gemma": vllm_backend()}
    backends["qwen"].state = READY
    return Gateway(backends, aliases={"small": "qwen"}, peers={"attic": ["qwen3-coder-480b"]}, **more)


def server() -> Server:
    swap = gateway()
    return Server(
        {**swap.routes, CHAT: llamacpp_answer(Turn(prompt_tokens=5, output_tokens=8))},
        "250",
        [
            ("qwen", "qwen", "Q4_K_M", 8192),
            ("small", "small", "Q4_K_M", 8192),
            ("org/gemma", "gemma", None, None),
            ("attic/qwen3-coder-480b", "qwen3-coder-480b", None, None),
        ],
        prompt_tokens=5,
        cached_tokens=0,
        output_tokens=8,
        figures={"prompt_tokens": 5, "prompt_ms": 10.0, "output_tokens": 8, "decode_ms": 70.0},
        backend=("llama.cpp", "b10068-abc"),
        live={CHAT: swap.backends["qwen"].chat},
        error=(refusal(404, "no router for model x"), "no router for model x"),
    )
