"""exo: its endpoint for benchmarks, its statistics in a comment, and which of its models run where."""

from typing import Any

import pytest

from app import engines
from app.core.samples import CacheDefeat, Kind
from app.engines.base import CompletionRequest
from app.engines.exo import ENGINE
from app.metrics.decode import read_decode
from tests.engines.conftest import Connect
from tests.engines.prompt_cache import Turn
from tests.engines.servers import CHAT
from tests.engines.written.exo import BENCH, MODEL, answer, instances, runners, schema, server
from tests.replay import Script
from tests.traces import sample

LOADING = ("RunnerLoading", "RunnerConnected")


@pytest.mark.parametrize(
    ("answer_schema", "path", "defeat"),
    [({}, BENCH, CacheDefeat.SWITCH), ({"$ref": "#/components/schemas/B"}, CHAT, CacheDefeat.NONCE)],
    ids=["streams", "answers in one piece"],
)
def test_its_endpoint_for_benchmarks(
    connect: Connect, answer_schema: dict[str, Any], path: str, defeat: CacheDefeat
) -> None:
    script = answer(Turn(prompt_tokens=20))
    replay, client = connect(
        {**server().routes, "/openapi.json": schema(answer_schema), CHAT: script, BENCH: script}, pace=0.01
    )
    request = CompletionRequest("hello", 3, MODEL, nonce="0123", capabilities=engines.probe(client).capabilities)
    trace = ENGINE.stream_completion(client, request)
    assert (trace.cache_defeat, trace.not_streamed) == (defeat, False)
    (sent,) = [request for request in replay.requests if request.method == "POST"]
    assert sent.path == path
    assert sent.json().get("use_prefix_cache") is (False if path == BENCH else None)
    assert sent.json()["messages"][0]["content"] == ("hello" if path == BENCH else "0123\nhello")


def test_a_cached_prompt_is_asked_for(connect: Connect) -> None:
    replay, client = connect({BENCH: answer(Turn(20, 19))}, pace=0.01)
    request = CompletionRequest("hello", 3, MODEL, reuse_cache=True, capabilities={"use_prefix_cache": True})
    trace = ENGINE.stream_completion(client, request)
    assert (trace.cache_defeat, trace.cached_tokens) == (CacheDefeat.NONE, 19)
    assert replay.requests[0].json()["use_prefix_cache"] is True
    assert trace.server is not None
    # for a prompt that it has whole, it repeats the rate of the request that filled the cache
    assert (trace.server.prompt_tokens, trace.server.prompt_ms) == (None, None)
    assert trace.server.raw["prefix_cache_hit"] == "exact"


def test_a_part_of_the_prompt_from_the_cache(connect: Connect) -> None:
    _, client = connect({CHAT: answer(Turn(20, 8))}, pace=0.01)
    trace = ENGINE.stream_completion(client, CompletionRequest("hello", 3, MODEL, nonce="x"))
    assert trace.server is not None
    assert (trace.server.prompt_tokens, trace.server.prompt_ms) == (12, 24.0)


def test_its_rate_covers_the_steps_behind_the_first_token(connect: Connect) -> None:
    _, client = connect({CHAT: answer(Turn(20, output_tokens=5))}, pace=0.01)
    trace = ENGINE.stream_completion(client, CompletionRequest("hello", 5, MODEL, nonce="x"))
    rates = {reading.source: reading.value for reading in read_decode(sample(trace))}
    assert rates["server"] == pytest.approx(100.0)


def test_comments_that_are_no_statistics(connect: Connect) -> None:
    turn = Turn(20)
    chunk = {"id": "c", "object": "chat.completion", "model": MODEL}
    choice = {"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": "length"}
    comments = (": keep-alive\n\n", ": generation_stats {\n\n", ": generation_stats 7\n\n")
    _, client = connect({CHAT: turn.script([], [{**chunk, "choices": [choice]}], [*comments, "data: [DONE]\n\n"])})
    trace = ENGINE.stream_completion(client, CompletionRequest("hello", 1, MODEL, nonce="x"))
    assert (trace.error, trace.server) == (None, None)
    assert [event.kind for event in trace.events].count(Kind.COMMENT) == 3


def test_models_with_an_instance_alone(connect: Connect) -> None:
    _, client = connect(server().routes)
    (model,) = engines.probe(client).models
    assert (model.is_loaded, model.size_bytes) == (True, 4_600_000_000)
    assert model.settings == {"split_mode": "layer", "cards": 2}
    _, empty = connect({**server().routes, "/state/instances": Script.json({})})
    info = engines.probe(empty)
    assert (info.engine, info.models) == ("exo", ())
    assert "load one first" in info.notes[0]


def test_a_model_whose_layers_are_divided(connect: Connect) -> None:
    assignments = instances()["i0"]["MlxRingInstance"]["shardAssignments"]
    shards: dict[str, Any] = {name: {"TensorShardMetadata": {}} for name in assignments["runnerToShard"]}
    tensor = {"i0": {"MlxJacclInstance": {"shardAssignments": {**assignments, "runnerToShard": shards}}}}
    _, client = connect({**server().routes, "/state/instances": Script.json(tensor)})
    (model,) = engines.probe(client).models
    assert model.settings == {"split_mode": "tensor", "cards": 2}


@pytest.mark.parametrize(
    ("states", "ready", "busy"),
    [
        (("RunnerReady", "RunnerReady"), True, False),
        (("RunnerRunning", "RunnerReady"), True, True),
        (LOADING, False, None),
        (("RunnerWarmingUp", "RunnerReady"), True, False),  # a second model
        ((), True, False),
    ],
)
def test_health(connect: Connect, states: tuple[str, ...], ready: bool, busy: bool | None) -> None:
    _, client = connect({**server().routes, "/state/runners": Script.json(runners(*states))})
    health = ENGINE.health(client)
    assert (health.ready, health.busy) == (ready, busy)


def test_an_older_version_without_the_state_of_its_runners(connect: Connect) -> None:
    _, client = connect({**server().routes, "/state/runners": Script.json({"detail": "Not Found"}, 404)})
    assert (ENGINE.health(client).ready, ENGINE.health(client).busy) == (True, None)


def test_a_probe_while_it_loads(connect: Connect) -> None:
    _, client = connect({**server().routes, "/state/runners": Script.json(runners(*LOADING))})
    assert engines.probe(client).loading
