"""LMDeploy, Aphrodite, MLC-LLM, OpenVINO Model Server, vllm-mlx and Rapid-MLX: what each has beyond OpenAI's API."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from app import engines
from app.core.errors import ServerError, ServerErrorKind
from app.engines.base import CompletionRequest, Engine
from app.engines.http import ServerClient
from app.metrics.decode import read_decode
from tests.engines.conftest import Connect
from tests.engines.prompt_cache import Turn
from tests.engines.servers import CHAT, Route
from tests.engines.written import aphrodite, lmdeploy, mlcllm, ovms, rapidmlx, vllmmlx
from tests.replay import Script
from tests.traces import sample


def measured(engine: Engine, first: ServerClient, second: ServerClient, requests: int) -> Mapping[str, float | None]:
    """The means and totals of what the server measured between two readings."""
    before, after = engine.counters(first), engine.counters(second)
    assert before is not None
    assert after is not None
    metrics = engine.server_metrics(before, after, None, requests)
    return {metric.name: metric.value for metric in metrics if metric.statistic in ("mean", "total")}


UNKNOWN_MODELS: dict[str, tuple[Any, int]] = {
    "mistralrs": ({"message": "model `m` was not found"}, 422),
    "exo": ({"error": {"message": "No instance found for model m", "type": "Not Found", "code": 404}}, 404),
    "lmdeploy": ({"object": "error", "message": "The model 'm' does not exist.", "code": 404}, 404),
    "aphrodite": ({"error": {"message": "The model `m` does not exist.", "code": 404}}, 404),
    "mlc-llm": (json.dumps({"object": "error", "message": 'The requested model "m" is not served.', "code": 400}), 400),
    "ovms": ({"error": "Mediapipe graph definition with requested name is not found"}, 404),
    "rapid-mlx": ({"error": {"message": "The model `m` does not exist.", "code": "model_not_found"}}, 404),
    "vllm-mlx": ({"detail": "The model `m` does not exist. Available models: a."}, 404),
}


@pytest.mark.parametrize("key", UNKNOWN_MODELS)
def test_a_model_that_they_do_not_have(connect: Connect, key: str) -> None:
    body, status = UNKNOWN_MODELS[key]
    _, client = connect({CHAT: Script.json(body, status)})
    with pytest.raises(ServerError) as caught:
        engines.find(key).stream_completion(client, CompletionRequest("hello", 3, "m", nonce="x"))
    assert caught.value.trouble is ServerErrorKind.UNKNOWN_MODEL


# --- LMDeploy --------------------------------------------------------------------------------------------------------


def test_gauges_of_lmdeploy_that_are_seconds_old_make_it_not_busy(connect: Connect) -> None:
    engine = engines.find("lmdeploy")
    _, client = connect(lmdeploy.server().routes)
    assert (engine.health(client).busy, engine.load(client)) == (None, {})


@pytest.mark.parametrize(
    ("status", "http", "ready"),
    [("healthy", 200, True), ("sleeping", 200, True), ("initializing", 503, False)],
)
def test_health_of_lmdeploy(connect: Connect, status: str, http: int, ready: bool) -> None:
    _, client = connect({"/health": Script.json({"status": status, "message": "Engine is starting."}, http)})
    assert engines.find("lmdeploy").health(client).ready is ready


def test_counters_of_lmdeploy(connect: Connect) -> None:
    _, first = connect(lmdeploy.server().routes)
    _, second = connect({"/metrics": lmdeploy.metrics(requests=6, prompt=500, cached=140, output=100)})
    figures = measured(engines.find("lmdeploy"), first, second, 4)
    assert (figures["requests"], figures["prompt_tokens"], figures["cached_tokens"]) == (4, 400, 100)
    assert figures["cache_hit_rate"] == 0.25
    assert figures["prefill_tokens_per_s"] == pytest.approx(300 / 0.04)
    assert figures["decode_tokens_per_s"] == pytest.approx(50.0)  # 20 ms for each token but the first
    assert figures["ttft_ms"] == pytest.approx(30.0)


def test_lmdeploy_is_known_by_its_metrics_behind_a_gateway(connect: Connect) -> None:
    routes = {**lmdeploy.server().routes, "/v1/models": Script.json({"data": [{"id": "m"}]})}
    _, client = connect(routes)
    assert engines.probe(client).engine == "lmdeploy"


# --- Aphrodite -------------------------------------------------------------------------------------------------------


def test_aphrodite_has_the_metrics_of_vllm_under_its_own_names(connect: Connect) -> None:
    engine, vllm = engines.find("aphrodite"), engines.find("vllm")
    _, first = connect(aphrodite.server().routes)
    _, second = connect({"/metrics": aphrodite.metrics(requests=3, prompt=500, cached=130, output=60)})
    assert engine.health(first).busy is False
    assert measured(engine, first, second, 2) == {
        "requests": 2.0, "prompt_tokens": 400.0, "cached_tokens": 100.0, "output_tokens": 40.0,
    }  # fmt: skip
    assert vllm.counters(first) is None


@pytest.mark.parametrize("owner", ["aphrodite", "pygmalionai"])
def test_aphrodite_without_statistics(connect: Connect, owner: str) -> None:
    listed = Script.json({"data": [{"id": "m", "owned_by": owner}]})
    _, client = connect({**aphrodite.server().routes, "/metrics": Script.text("", 404), "/v1/models": listed})
    info = engines.probe(client)
    assert (info.engine, info.engine_version, info.capabilities) == ("aphrodite", "0.21.0", {"cache_salt": True})


# --- MLC-LLM ---------------------------------------------------------------------------------------------------------


def test_mlc_llm_without_debugging_has_no_figures_of_a_request(connect: Connect) -> None:
    _, client = connect({CHAT: mlcllm.answer(Turn(prompt_tokens=20), has_debug=False)}, pace=0.01)
    trace = engines.find("mlc-llm").stream_completion(client, CompletionRequest("hello", 3, "m", nonce="x"))
    assert (trace.error, trace.prompt_tokens, trace.cached_tokens, trace.server) == (None, 20, None, None)


def test_cached_tokens_of_mlc_llm_are_those_that_it_did_not_process(connect: Connect) -> None:
    _, client = connect({CHAT: mlcllm.answer(Turn(prompt_tokens=20, cached_tokens=12, output_tokens=5))}, pace=0.01)
    trace = engines.find("mlc-llm").stream_completion(client, CompletionRequest("hello", 5, "m", reuse_cache=True))
    assert trace.server is not None
    assert (trace.cached_tokens, trace.server.prompt_tokens, trace.server.prompt_ms) == (12, 8, 16.0)
    rates = {reading.source: reading.value for reading in read_decode(sample(trace))}
    assert rates["server"] == pytest.approx(100.0)  # the 4 steps behind the first token


def test_counters_of_mlc_llm(connect: Connect) -> None:
    _, first = connect(mlcllm.server().routes)
    _, second = connect({"/metrics": mlcllm.metrics(prompt=500, prefill=360, output=60, prefill_s=0.72, decode_s=0.58)})
    figures = measured(engines.find("mlc-llm"), first, second, 2)
    assert (figures["fresh_prompt_tokens"], figures["output_tokens"]) == (300, 40)
    assert figures["prefill_tokens_per_s"] == pytest.approx(500.0)
    assert figures["decode_tokens_per_s"] == pytest.approx(100.0)


# --- OpenVINO Model Server -------------------------------------------------------------------------------------------


def older_ovms() -> dict[str, Route]:
    """A version whose API is under `/v3` alone."""
    routes = {path: route for path, route in ovms.server().routes.items() if not path.startswith("/v1/")}
    return {**routes, ovms.CHAT_V3: lambda request: ovms.answer(Turn(prompt_tokens=20, body=request.json()))}


@pytest.mark.parametrize("path", ["", "/v3", "/v3/models", "/v3/chat/completions"])
def test_an_ovms_whose_api_is_under_v3_alone(connect: Connect, path: str) -> None:
    replay, client = connect(older_ovms(), path, pace=0.01)
    info = engines.probe(client)
    assert (info.engine, info.engine_version, info.capabilities["api_prefix"]) == ("ovms", "2026.3", "/v3")
    with engines.open_client(info.base_url or client.base_url, None, client.settings, info.capabilities) as other:
        trace = engines.find("ovms").stream_completion(other, CompletionRequest("hello", 3, ovms.MODEL, nonce="x"))
    assert (trace.error, trace.prompt_tokens, trace.output_tokens) == (None, 20, 3)
    assert replay.requests[-1].path == "/v3/chat/completions"


@pytest.mark.parametrize(
    ("routes", "busy", "load"),
    [
        ({"/metrics": ovms.metrics(2)}, True, {"requests_running": 2.0}),
        ({"/metrics": Script.json({"error": "Invalid request URL"}, 404)}, None, {}),
    ],
    ids=["busy", "no metrics"],
)
def test_load_of_an_ovms(
    connect: Connect, routes: dict[str, Script], busy: bool | None, load: dict[str, float]
) -> None:
    engine = engines.find("ovms")
    _, client = connect({**ovms.server().routes, **routes})
    assert (engine.health(client).ready, engine.health(client).busy, engine.load(client)) == (True, busy, load)


def test_an_ovms_that_loads(connect: Connect) -> None:
    _, client = connect({"/v2/health/ready": Script(status=503, framing="length")})
    assert not engines.find("ovms").health(client).ready


# --- vllm-mlx --------------------------------------------------------------------------------------------------------


def test_state_of_vllm_mlx(connect: Connect) -> None:
    engine = engines.find("vllm-mlx")
    _, client = connect({"/v1/status": vllmmlx.status(running=2)})
    assert (engine.health(client).busy, engine.load(client)["requests_running"]) == (True, 2.0)
    _, unloaded = connect({"/v1/status": Script.json({"status": "not_loaded", "model": "m", "requests": []})})
    assert (engine.health(unloaded).ready, engine.health(unloaded).busy, engine.load(unloaded)) == (True, None, {})
    assert engine.counters(unloaded) is None


def test_counters_of_vllm_mlx(connect: Connect) -> None:
    _, first = connect(vllmmlx.server().routes)
    _, second = connect({"/v1/status": vllmmlx.status(requests=5, prompt=400, saved=140, accepted=12)})
    engine = engines.find("vllm-mlx")
    assert measured(engine, first, second, 3) == {
        "requests": 3.0, "prompt_tokens": 300.0, "cached_tokens": 100.0, "output_tokens": 30.0, "draft_acceptance": 1.0,
    }  # fmt: skip
    before = engine.counters(first)
    assert before is not None
    assert (before.prompt_tokens, before.cached_prompt_tokens) == (60.0, 40.0)


# --- Rapid-MLX -------------------------------------------------------------------------------------------------------


def test_counters_and_load_of_rapid_mlx(connect: Connect) -> None:
    engine = engines.find("rapid-mlx")
    _, first = connect(rapidmlx.server().routes)
    _, second = connect({"/metrics": rapidmlx.metrics(requests=5, prompt=400, cached=140, accepted=20, running=1)})
    before, after = engine.counters(first), engine.counters(second)
    assert before is not None
    assert after is not None
    figures = {m.name: m.value for m in engine.server_metrics(before, after, rapidmlx.MODEL, 3)}
    assert (figures["requests"], figures["prompt_tokens"], figures["cached_tokens"]) == (3, 300, 100)
    assert figures["draft_acceptance"] == 0.5
    assert figures["ttft_ms"] == pytest.approx(50.0)
    assert engine.load(second) == {"requests_running": 1.0, "requests_waiting": 0.0}


def test_drafts_of_a_request_of_rapid_mlx(connect: Connect) -> None:
    drafts = {"verify_calls": 3, "accepted_by_depth": [3, 1], "drafted_by_depth": [3, 3]}
    script = rapidmlx.answer(Turn(prompt_tokens=20, output_tokens=5), speculative_decoding=drafts)
    _, client = connect({CHAT: script}, pace=0.01)
    trace = engines.find("rapid-mlx").stream_completion(client, CompletionRequest("hello", 5, "m", nonce="x"))
    assert trace.server is not None
    assert (trace.server.draft_tokens, trace.server.draft_accepted_tokens) == (6, 4)
    rates = {reading.source: reading.value for reading in read_decode(sample(trace))}
    assert rates["server"] == pytest.approx(100.0)  # the 4 steps behind the first token


def test_a_prompt_that_rapid_mlx_compressed_has_no_speed(connect: Connect) -> None:
    script = rapidmlx.answer(Turn(20), prompt_compression={"original_tokens": 20, "kept_tokens": 9})
    _, client = connect({CHAT: script}, pace=0.01)
    trace = engines.find("rapid-mlx").stream_completion(client, CompletionRequest("hello", 3, "m", nonce="x"))
    assert trace.server is not None
    assert (trace.prompt_tokens, trace.server.prompt_tokens) == (20, None)


def test_rapid_mlx_that_loads(connect: Connect) -> None:
    _, client = connect({"/health/ready": Script.json({"detail": "model loading"}, 503)})
    assert not engines.find("rapid-mlx").health(client).ready
