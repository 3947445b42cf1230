"""Ollama as its source answers: nonce and system prompt, runners, clocks, queue and the cloud."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Protocol

import pytest

from app.core.errors import ServerError
from app.core.samples import CacheDefeat, Sample, Status, Trace, Workload
from app.core.settings import Settings
from app.engines import find, probe
from app.engines.base import CompletionRequest
from app.engines.http import ServerClient
from app.metrics import compute_metrics, flags_of, metrics
from app.metrics.decode import read_decode
from app.metrics.prefill import read_prefill
from app.metrics.server_vs_client import stated
from tests.engines.ollama_server import LEAD_TOKENS, MS_PER_PROMPT_TOKEN, OllamaModel, OllamaServer
from tests.engines.recorded import recorded
from tests.replay import serve
from tests.traces import sample

OLLAMA = find("ollama")
PROMPT = " ".join(f"word{position}" for position in range(100))
SYSTEM = " ".join(f"rule{position}" for position in range(300))
Ask = Callable[..., Trace]


class Connected(Protocol):
    def __call__(self, server: OllamaServer, pace: float = ...) -> tuple[ServerClient, Ask]: ...


@pytest.fixture
def connected() -> Iterator[Connected]:
    with ExitStack() as stack:

        def connect(server: OllamaServer, pace: float = 0.1) -> tuple[ServerClient, Ask]:
            replay = stack.enter_context(serve(server.routes, pace=pace))
            client = stack.enter_context(ServerClient(replay.url, None, Settings()))
            counter = iter(range(1000))

            def ask(model: str = "a:latest", **more: Any) -> Trace:
                document = OLLAMA.model_document(client, model) or {}
                values = {"nonce": f"{next(counter):08x}", "own_system": OLLAMA.own_system(document), **more}
                return OLLAMA.stream_completion(client, CompletionRequest(PROMPT, 8, model, **values))

            return client, ask

        yield connect


def as_sample(trace: Trace, tokens: int = 100, **more: Any) -> Sample:
    made = sample(trace, point=Workload(tokens, 8), cache_defeat=trace.cache_defeat, **more)
    return replace(made, flags=flags_of(made))


# --- the nonce and the model's own system prompt ----------------------------------------------------------------------


@pytest.mark.parametrize("system", ["", SYSTEM])
def test_five_samples_find_nothing_but_the_template_in_the_cache(connected: Connected, system: str) -> None:
    server = OllamaServer([OllamaModel("a:latest", system=system)])
    _, ask = connected(server)
    traces = [ask() for _ in range(5)]
    assert [turn.cached for turn in server.turns] == [0, *[LEAD_TOKENS + 1] * 4]  # the role of the first message too
    own = server.turns[-1].body["messages"][0]["content"].split("\n", 1)[1:]
    assert own == ([system] if system else [])
    for trace in traces[1:]:
        made = as_sample(trace)
        assert "cache_state_unknown" not in made.flags
        speed = read_prefill(made)[0].value
        assert speed == pytest.approx(1000 / MS_PER_PROMPT_TOKEN, rel=0.05)


def test_a_nonce_behind_the_system_prompt_would_not_do(connected: Connected) -> None:
    """As it was: three quarters of the prompt came from the cache, and the speed was four times too high."""
    server = OllamaServer([OllamaModel("a:latest", system=SYSTEM)])
    _, ask = connected(server)
    refusing = {"no_system_role": ["a:latest"]}
    traces = [ask(capabilities=refusing) for _ in range(3)]
    assert server.turns[-1].cached > len(SYSTEM.split())
    made = as_sample(traces[-1])
    assert "cache_state_unknown" in made.flags
    assert {reading.value for reading in read_prefill(made)} == {None}


def test_the_captured_answers_are_flagged() -> None:
    """893 tokens counted, 527 evaluated: the nonce stood behind a system prompt of 366."""
    made = sample(
        recorded("ollama", "ollama-0.33", "chat-system-2"), point=Workload(523, 128), cache_defeat=CacheDefeat.NONCE
    )
    assert flags_of(made) == ("cache_state_unknown",)
    assert {reading.value for reading in read_prefill(made)} == {None}
    # repeated behind the nonce, its tokens are no surprise, and all of them are fresh
    told = replace(made, trace=replace(made.trace, own_system_tokens=366))
    assert flags_of(told) == ()


def test_a_template_that_drops_system_messages(connected: Connected) -> None:
    server = OllamaServer([OllamaModel("a:latest", system=SYSTEM, system_role="dropped")])
    _, ask = connected(server)
    for _ in range(3):
        ask()
    assert max(turn.cached for turn in server.turns) <= LEAD_TOKENS + 1


def test_a_template_that_refuses_system_messages_is_remembered(connected: Connected) -> None:
    server = OllamaServer([OllamaModel("a:latest", system_role="refused")])
    _, ask = connected(server)
    trace = ask()
    assert (trace.status, trace.learned_capabilities) == (Status.OK, {"no_system_role": ["a:latest"]})
    assert [len(turn.body["messages"]) for turn in server.turns] == [1]
    assert ask(capabilities=trace.learned_capabilities).learned_capabilities == {}
    assert max(turn.cached for turn in server.turns) <= LEAD_TOKENS + 1


def test_messages_of_a_model_come_first_whatever_is_sent(connected: Connected) -> None:
    own = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    server = OllamaServer([OllamaModel("a:latest", own_messages=own)])
    _, ask = connected(server)
    traces = [ask() for _ in range(2)]
    assert server.turns[1].cached > LEAD_TOKENS + 1
    assert traces[1].cache_defeat is CacheDefeat.NONE
    assert "cache_state_unknown" in as_sample(traces[1]).flags


# --- loads ------------------------------------------------------------------------------------------------------------


def test_a_load_is_a_load(connected: Connected) -> None:
    server = OllamaServer([OllamaModel("a:latest", load_ms=250)])
    _, ask = connected(server, pace=1)
    samples = [as_sample(ask(), is_warmup=ordinal == 0, ordinal=ordinal, round=ordinal) for ordinal in range(4)]
    assert [turn.is_load for turn in server.turns] == [True, False, False, False]
    (load,) = [result for result in compute_metrics(samples) if result.metric == "load_ms"]
    assert (load.samples, load.left_out) == (1, {})
    assert load.value == pytest.approx(250)
    assert {figure.name: figure.value for figure in stated(samples)}["load_ms"] == pytest.approx(250)
    (load,) = [result for result in compute_metrics(samples[1:]) if result.metric == "load_ms"]
    assert (load.value, load.null_reason) == (None, "already_loaded")
    assert "load_ms" not in {figure.name for figure in stated(samples[1:])}


def test_a_cold_sample_gives_no_prefill_of_the_client(connected: Connected) -> None:
    _, ask = connected(OllamaServer([OllamaModel("a:latest")]))
    cold = as_sample(ask())
    readings = {reading.source: reading for reading in metrics()["prefill_tokens_per_s"].read([cold])}
    assert readings["client"].null_reason == "model_load"


def test_models_on_the_same_weights_share_a_runner(connected: Connected) -> None:
    models = [OllamaModel("a:latest"), OllamaModel("b:latest", weights="a", gpu_share=0.5), OllamaModel("c:latest")]
    server = OllamaServer(models)
    client, ask = connected(server)
    ask("a:latest", context_tokens=8192)
    trace = ask("b:latest", context_tokens=8192)
    ask("c:latest")
    assert not server.turns[1].is_load
    assert trace.server is not None
    assert trace.server.raw["context_length"] == 8192
    listed = probe(client).model("b:latest")
    assert listed is not None
    assert listed.context_tokens is None  # /api/ps names the one that loaded it
    assert OLLAMA.loaded_model(client, listed).context_tokens == 8192


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_format", ["gguf", "safetensors"])
def test_both_runners_tell_the_same_speed(connected: Connected, model_format: str) -> None:
    """Both make a token in 5 ms: MLX clocks n steps, llama.cpp n - 1."""
    server = OllamaServer([OllamaModel("a:latest", format=model_format)])
    _, ask = connected(server)
    trace = ask()
    assert trace.server is not None
    assert trace.server.raw["eval_duration"] == 5_000_000 * (8 if model_format == "safetensors" else 7)
    of_server = {reading.source: reading.value for reading in read_decode(as_sample(trace))}["server"]
    assert of_server == pytest.approx(200)


# --- queue ------------------------------------------------------------------------------------------------------------


def test_a_sample_that_waited_behind_others_does_not_count(connected: Connected) -> None:
    server = OllamaServer([OllamaModel("a:latest")])
    _, ask = connected(server)
    ask()
    undisturbed = ask().server
    server.queue_ms = 731.0
    waited = ask()
    assert undisturbed is not None
    assert undisturbed.queue_ms is None
    assert undisturbed.overhead_ms == pytest.approx(20)
    assert waited.server is not None
    assert waited.server.overhead_ms is None
    assert waited.server.queue_ms == pytest.approx(751)
    assert "concurrent" in as_sample(waited).flags
    several = sample(waited, point=Workload(100, 8, concurrency=4), cache_defeat=waited.cache_defeat)
    assert "concurrent" not in flags_of(several)  # behind the run's own streams


# --- elsewhere --------------------------------------------------------------------------------------------------------


def test_cloud_models(connected: Connected) -> None:
    cloud = OllamaModel("big:120b-cloud", remote_host="https://ollama.com:443")
    server = OllamaServer([cloud, OllamaModel("a:latest")])
    client, ask = connected(server)
    info = probe(client)
    assert [(model.id, model.runs_on) for model in info.models] == [
        ("a:latest", None),
        ("big:120b-cloud", "ollama.com:443"),
    ]
    assert info.model(None) == info.models[0]
    trace = ask("big:120b-cloud")
    assert trace.server is not None
    assert trace.server.raw["remote_host"] == "https://ollama.com:443"
    server.is_signed_in = False
    with pytest.raises(ServerError, match="not signed in"):
        ask("big:120b-cloud")
    server.is_cloud_off = True
    trace = ask("big:120b-cloud")
    assert trace.status is Status.FAILED
    assert "ollama cloud is disabled: remote model is unavailable" in str(trace.error)
    assert "API key" not in str(trace.error)


def test_an_unknown_model_and_an_unload(connected: Connected) -> None:
    server = OllamaServer([OllamaModel("a:latest")])
    client, ask = connected(server)
    ask()
    assert probe(client).models[0].context_tokens == 4096
    client.post_json("/api/chat", {"model": "a", "messages": [], "keep_alive": 0})
    assert probe(client).models[0].context_tokens is None
    with pytest.raises(ServerError, match="'nope' not found"):
        ask("nope")
