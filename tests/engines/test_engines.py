"""The set of engines, and what they share."""

import json

import pytest

from app import engines
from app.core.errors import NotFound, ServerError
from app.core.samples import TOKEN_KINDS, CacheDefeat, Status
from app.core.settings import Settings
from app.engines.base import CompletionRequest, Engine
from app.engines.llamacpp import quantization_of_file_type
from app.engines.protocol import models
from tests.engines.conftest import Connect
from tests.engines.written import SERVERS
from tests.replay import Script, serve


def test_the_generic_engine_is_tried_last() -> None:
    keys = [engine.key for engine in engines.all()]
    assert keys[-1] == "openai"
    assert len(set(keys)) == len(keys)
    assert set(keys) == SERVERS.keys()


@pytest.mark.parametrize("engine", engines.all(), ids=lambda engine: engine.key)
def test_each_engine_is_found_by_its_key(engine: Engine) -> None:
    assert engines.find(engine.key) is engine
    assert engine.title
    assert all(0 < port < 65536 for port in engine.default_ports)


@pytest.mark.parametrize("engine", engines.all(), ids=lambda engine: engine.key)
class TestEachEngine:
    """Against a server of its own, with every other engine having its try before."""

    def test_is_recognised(self, engine: Engine, connect: Connect) -> None:
        server = SERVERS[engine.key]()
        _, client = connect(server.routes, pace=0.01)
        facts = engines.probe(client)
        assert (facts.engine, facts.engine_version, facts.loading) == (engine.key, server.version, False)
        assert [(m.id, m.name, m.quantization, m.context_tokens) for m in facts.models] == list(server.models)
        assert facts.settings == server.settings
        assert facts.notes == ()

    def test_is_ready(self, engine: Engine, connect: Connect) -> None:
        _, client = connect(SERVERS[engine.key]().routes, pace=0.01)
        health = engine.health(client)
        assert health.ready
        assert not health.busy

    def test_asks_and_reads_its_stream(self, engine: Engine, connect: Connect) -> None:
        server = SERVERS[engine.key]()
        replay, client = connect(server.routes, pace=0.01)
        ask = CompletionRequest("hello", 8, server.models[0][0], nonce="0123abcd", context_tokens=4096)
        trace = engine.stream_completion(client, ask)
        assert (trace.status, trace.error, trace.learned_capabilities) == (Status.OK, None, {})
        assert (trace.finish_reason, trace.not_streamed) == (server.finish_reason, False)
        assert (trace.prompt_tokens, trace.cached_tokens) == (server.prompt_tokens, server.cached_tokens)
        assert trace.output_tokens == sum(event.kind in TOKEN_KINDS for event in trace.events) == server.output_tokens
        assert trace.cache_defeat is server.defeat
        (request,) = [request for request in replay.requests if request.path == server.path]
        content = "0123abcd\nhello" if server.defeat is CacheDefeat.NONCE else "hello"
        body = request.json()
        assert (body["model"], body["stream"]) == (ask.model, True)
        assert body["messages"][-1] == {"role": "user", "content": content}
        first = body["messages"][0]["content"]
        assert first.startswith("0123abcd") is (server.defeat is CacheDefeat.NONCE)
        assert {key: body[key] for key in server.sent} == server.sent
        assert body.keys() - server.sent.keys() <= {
            "model", "stream", "messages", "max_tokens", "stream_options", "temperature", "seed",
        }  # fmt: skip
        assert request.headers.items() >= server.headers.items()

    def test_takes_over_the_figures_of_its_server(self, engine: Engine, connect: Connect) -> None:
        server = SERVERS[engine.key]()
        _, client = connect(server.routes, pace=0.01)
        trace = engine.stream_completion(client, CompletionRequest("hello", 8, None, nonce="0123abcd"))
        if server.figures is None:
            assert trace.server is None
            return
        assert trace.server is not None
        for name, value in server.figures.items():
            assert getattr(trace.server, name) == (value if value is None else pytest.approx(value)), name
        json.dumps(trace.server.raw, allow_nan=False)

    def test_shows_the_words_of_its_server(self, engine: Engine, connect: Connect) -> None:
        server = SERVERS[engine.key]()
        assert server.error is not None
        refusal, words = server.error
        _, client = connect({**server.routes, server.path: refusal}, pace=0.01)
        try:
            error = str(engine.stream_completion(client, CompletionRequest("hello", 8, "m")).error)
        except ServerError as problem:
            error = str(problem)
        assert words in error

    def test_sends_the_very_same_prompt_to_a_cache(self, engine: Engine, connect: Connect) -> None:
        server = SERVERS[engine.key]()
        replay, client = connect(server.routes, pace=0.01)
        trace = engine.stream_completion(
            client, CompletionRequest("hello", 8, None, nonce="0123abcd", reuse_cache=True)
        )
        assert trace.cache_defeat is CacheDefeat.NONE
        (body,) = [request.json() for request in replay.requests if request.path == server.path]
        assert body["messages"][0]["content"] == "hello"
        assert "cache_salt" not in body
        if trace.cached_tokens is None and trace.server is not None:
            assert trace.server.prompt_tokens is None


def test_unknown_engine() -> None:
    with pytest.raises(NotFound, match="choose one of"):
        engines.find("nope")


def test_discover(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve({"/v1/models": Script.json({"data": [{"id": "m"}]})}) as model_server, serve({}) as empty_server:
        monkeypatch.setattr(engines, "_MORE_PORTS", (empty_server.port, model_server.port))
        monkeypatch.setattr(Engine, "default_ports", ())
        for engine in engines.all():
            monkeypatch.setattr(type(engine), "default_ports", ())
        servers = engines.discover(Settings())
        assert [(base_url, info.engine) for base_url, info in servers] == [(model_server.url, "openai")]
        assert engines.discover(Settings().model_copy(update={"port": model_server.port})) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Q4_K - Medium", "Q4_K_M"), ("Q4_K - Small", "Q4_K_S"), ("Q3_K - Large", "Q3_K_L"), ("Q2_K - Medium", "Q2_K"),
        ("Q6_K", "Q6_K"), ("Q8_0", "Q8_0"), ("F16", "F16"), ("all F32", "F32"),
        ("BF16", "BF16"), ("MXFP4 MoE", "MXFP4"),
        ("IQ4_XS - 4.25 bpw", "IQ4_XS"), ("IQ3_S mix - 3.66 bpw", "IQ3_M"), ("TQ1_0 - 1.69 bpw ternary", "TQ1_0"),
        ("(guessed) Q4_K - Medium", "Q4_K_M"), ("unknown, may not work", None), ("", None),
    ],
)  # fmt: skip
def test_file_types(text: str, name: str | None) -> None:
    assert quantization_of_file_type(text) == name


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("gemma-3-270m-q4_k_m", "Q4_K_M"), ("Qwen3-30B-UD-Q4_K_XL", "Q4_K_XL"), ("llama-IQ3_XXS", "IQ3_XXS"),
        ("a.Q8_0", "Q8_0"),
        ("gpt-oss-20b-MXFP4", "MXFP4"), ("m-bf16", "BF16"), ("Qwen2.5-7B-AWQ", "AWQ"), ("Qwen3-8B", None), ("q", None),
    ],
)  # fmt: skip
def test_quantization_in_a_name(name: str, quantization: str | None) -> None:
    assert models.quantization_in(name) == quantization


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/models/a.gguf", "a"), ("C:\\llm\\a.gguf", "a"), ("org/Model-7B", "Model-7B"), ("gemma3:270m", "gemma3:270m"),
        ("a-00001-of-00003.gguf", "a"), ("/", "/"), ("gemma-3-270m-Q4_K_M.gguf", "gemma-3-270m"),
        ("Qwen3-30B-A3B-UD-Q4_K_XL-00001-of-00002.gguf", "Qwen3-30B-A3B"), ("org/Qwen2.5-7B-AWQ", "Qwen2.5-7B"),
        ("Q4_K_M.gguf", "Q4_K_M"), ("Model-Q4_K_M-instruct", "Model-Q4_K_M-instruct"),
    ],
)  # fmt: skip
def test_shown_names(path: str, name: str) -> None:
    assert models.shown_name(path) == name
