"""mistral.rs: times that are cut to whole milliseconds, models with a status, gauges that nobody resets."""

from typing import Any

import pytest

from app import engines
from app.engines.base import CompletionRequest
from app.engines.mistralrs import ENGINE
from app.metrics.decode import read_decode
from tests.engines.conftest import Connect
from tests.engines.prompt_cache import Turn
from tests.engines.servers import CHAT, models
from tests.engines.written.mistralrs import MODEL, answer, metrics, server
from tests.replay import Script
from tests.traces import sample


def decode_ms(connect: Connect, script: Script) -> float | None:
    _, client = connect({CHAT: script}, pace=0.01)
    trace = ENGINE.stream_completion(client, CompletionRequest("hello", 32, MODEL, nonce="x"))
    assert trace.server is not None
    return trace.server.decode_ms


@pytest.mark.parametrize(
    ("step_ms", "expected_ms"),
    [
        (30.0, 31 * 30.5),
        (30.9, 31 * 30.5),  # 31 of these were cut to 30
        (10.0, 31 * 10.5),
        (9.9, None),  # cut to 9: off by up to 10 %
        (0.9, None),
    ],
)
def test_steps_that_are_cut_to_whole_milliseconds(connect: Connect, step_ms: float, expected_ms: float | None) -> None:
    assert decode_ms(connect, answer(Turn(prompt_tokens=20, output_tokens=32), step_ms)) == expected_ms


def test_a_request_as_it_was_measured(connect: Connect) -> None:
    """0.9.5 with a small model on a CPU; a client saw 1,093.8 ms between the first and the last token."""
    usage = {
        "completion_tokens": 32,
        "prompt_tokens": 700,
        "total_tokens": 732,
        "prompt_tokens_details": {"cached_tokens": 8},
        "total_time_sec": 1.282,
        "total_prompt_time_sec": 0.203,
        "total_completion_time_sec": 1.079,
    }
    turn = Turn(prompt_tokens=20, output_tokens=32)
    pieces = [_chunk(word) for word in turn.words]
    pieces[-1] = _chunk(turn.words[-1], "length", usage=usage)
    _, client = connect({CHAT: turn.script([], pieces, ["data: [DONE]\n\n"])}, pace=0.01)
    trace = ENGINE.stream_completion(client, CompletionRequest("hello", 32, MODEL, nonce="x"))
    assert trace.server is not None
    assert (trace.cached_tokens, trace.server.prompt_tokens, trace.server.prompt_ms) == (8, 692, 203.0)
    assert trace.server.decode_ms == pytest.approx(1093.8, rel=0.001)


def test_a_version_whose_time_is_one_span(connect: Connect) -> None:
    """Until 0.8 the total went from the request's arrival, and the completion's time was one clock's."""
    turn = Turn(prompt_tokens=20, output_tokens=32)
    old = turn.script(
        [],
        [_chunk(word) for word in turn.words],
        [_chunk("", "length", usage=_usage(total_time_sec=0.301, completion_s=0.155)), "data: [DONE]\n\n"],
    )
    assert decode_ms(connect, old) == 155.0


def test_a_prompt_too_short_for_whole_milliseconds(connect: Connect) -> None:
    _, client = connect({CHAT: answer(Turn(prompt_tokens=9))}, pace=0.01)
    trace = ENGINE.stream_completion(client, CompletionRequest("hello", 3, MODEL, nonce="x"))
    assert trace.server is not None
    assert trace.server.prompt_ms is None
    assert trace.server.raw["total_prompt_time_sec"] == 0.018


def test_its_rate_covers_the_steps_behind_the_first_token(connect: Connect) -> None:
    """31 steps of 30 ms that were cut from 30.5: 32.8 steps a second."""
    _, client = connect({CHAT: answer(Turn(prompt_tokens=20, output_tokens=32), 30.5)}, pace=0.01)
    trace = ENGINE.stream_completion(client, CompletionRequest("hello", 32, MODEL, nonce="x"))
    rates = {reading.source: reading.value for reading in read_decode(sample(trace))}
    assert rates["server"] == pytest.approx(1000 / 30.5)


def test_which_models_are_loaded(connect: Connect) -> None:
    _, client = connect(server().routes)
    info = engines.probe(client)
    assert [(model.id, model.is_loaded) for model in info.models] == [(MODEL, True), ("unsloth/gemma-3-4b-it", False)]
    assert info.model(None) is info.models[0]


def test_a_server_that_is_known_by_its_list_alone(connect: Connect) -> None:
    _, client = connect({"/v1/models": server().routes["/v1/models"]})
    info = engines.probe(client)
    assert (info.engine, info.engine_version, len(info.models)) == ("mistralrs", None, 2)
    _, other = connect({"/v1/models": models("default", owned_by="local")})
    assert engines.probe(other).engine == "openai"


@pytest.mark.parametrize(
    ("build", "settings"),
    [
        ({"cuda": False, "metal": False}, {"cards": 0}),
        ({"cuda": False, "metal": True}, {}),
        ({"cuda": True, "flash_attn": False, "flash_attn_v3": False}, {"flash_attention": "off"}),
        ({"cuda": True, "flash_attn_v3": True}, {"flash_attention": "on"}),
    ],
)
def test_what_its_build_decides(connect: Connect, build: dict[str, Any], settings: dict[str, Any]) -> None:
    info = Script.json({"build": {"version": "0.9.2", "git_revision": "9e922623", **build}})
    _, client = connect({**server().routes, "/v1/system/info": info})
    assert engines.probe(client).settings == settings


def test_a_gauge_that_keeps_its_last_value_makes_it_not_busy(connect: Connect) -> None:
    _, idle = connect(server().routes)
    assert (ENGINE.health(idle).busy, ENGINE.load(idle)) == (False, {"requests_running": 0.0})
    _, busy = connect({**server().routes, "/metrics": metrics(in_flight=2)})
    assert (ENGINE.health(busy).busy, ENGINE.load(busy)) == (True, {"requests_running": 2.0})


def test_its_counters(connect: Connect) -> None:
    _, client = connect(server().routes)
    _, later = connect({**server().routes, "/metrics": metrics(completed=6, proposed=30, accepted=20, ttft_s=0.3)})
    before, after = ENGINE.counters(client), ENGINE.counters(later)
    assert before is not None
    assert after is not None
    measured = {(m.name, m.statistic): m.value for m in ENGINE.server_metrics(before, after, MODEL, 2)}
    assert measured["requests", "total"] == 2
    assert measured["draft_acceptance", "mean"] == 0.75
    assert measured["ttft_ms", "mean"] == pytest.approx(50.0)


def test_without_metrics(connect: Connect) -> None:
    _, client = connect({**server().routes, "/metrics": Script.text("metrics disabled", 503)})
    assert (ENGINE.health(client).busy, ENGINE.counters(client), ENGINE.load(client)) == (None, None, {})


def _chunk(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"finish_reason": finish, "index": 0, "delta": {"content": text, "role": "assistant"}}
    return {"id": "0", "model": MODEL, "object": "chat.completion.chunk", "choices": [choice], **more}


def _usage(total_time_sec: float, completion_s: float) -> dict[str, Any]:
    counts = {"completion_tokens": 32, "prompt_tokens": 20, "total_tokens": 52, "total_prompt_time_sec": 0.04}
    return {**counts, "total_time_sec": total_time_sec, "total_completion_time_sec": completion_s}
