"""Strata: its health in old and new words, and which record of `/metrics` is that of our request."""

from collections.abc import Sequence
from typing import Any

import pytest

from app.core.samples import Trace
from app.engines import find, probe
from app.engines.base import CompletionRequest
from app.engines.http import ServerClient
from app.metrics.decode import read_decode
from app.metrics.expert_cache import read_expert_cache
from tests.engines.conftest import Connect
from tests.engines.servers import (
    CHAT,
    ROLE,
    WORDS,
    Finishing,
    Route,
    chunk,
    models,
    no_choices,
    sample_of,
    stream,
    usage,
)  # fmt: skip
from tests.engines.written import strata
from tests.replay import Script
from tests.traces import sample

STRATA = find("strata")
OURS = sample_of("strata", "metrics")["requests"][0]
"""1757 prompt tokens, all read, in 1898 ms; 66.4 tokens per second; 235 of 385 drafts; 97.1 %."""
LAST = no_choices(**usage(1757, 3))


def record(**changes: Any) -> dict[str, Any]:
    return {**OURS, "time": 1795950800.0, **changes}


def play(client: ServerClient) -> Trace:
    return STRATA.stream_completion(client, CompletionRequest("hello", 8, "m", nonce="0123abcd"))


def routes(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], last: dict[str, Any] = LAST
) -> dict[str, Route]:
    document = sample_of("strata", "metrics")
    engine = Finishing(
        stream(ROLE, *WORDS, chunk({}, "length"), last),
        Script.json({**document, "requests": before}),
        Script.json({**document, "requests": after}),
    )
    return {CHAT: engine.chat, "/metrics": engine.status, "/health": Script.json(sample_of("strata", "health-new"))}


@pytest.mark.parametrize(
    ("before", "after", "is_found"),
    [
        ([], [OURS], True),
        ([record()], [record(), OURS], True),
        ([record()], [OURS], True),  # the list keeps only so many
        ([], [record(prompt_tokens=20), OURS], True),  # somebody else's, of another length
        ([], [record(), OURS], False),  # two of the same length
        ([OURS], [OURS], False),
        ([], [], False),
    ],
    ids=["first", "behind another", "list is full", "another's length", "ambiguous", "nothing new", "nothing"],
)
def test_the_record_of_our_request(
    connect: Connect, before: list[dict[str, Any]], after: list[dict[str, Any]], is_found: bool
) -> None:
    _, client = connect(routes(before, after))
    trace = play(client)
    assert trace.output_tokens == 3
    assert (trace.server is not None) is is_found
    if trace.server is not None:
        assert trace.server.prompt_ms == 1898.0
        assert trace.server.expert_hit_share == pytest.approx(0.971)
        assert trace.server.raw["time"] == OURS["time"]


def test_numbers_of_the_record(connect: Connect) -> None:
    _, client = connect(routes([], [{**OURS, "reused": 1700, "prompt_read": 57}]))
    trace = play(client)
    assert trace.server is not None
    assert (trace.cached_tokens, trace.server.prompt_tokens) == (1700, 57)
    rates = {reading.source: reading.value for reading in read_decode(sample(trace))}
    assert rates["server"] == pytest.approx(66.4)
    assert [reading.value for reading in read_expert_cache(sample(trace))] == [pytest.approx(0.971)]


def test_timings_of_the_stream_outrank_the_record(connect: Connect) -> None:
    timings = {"prompt_n": 1757, "prompt_ms": 1900.5, "predicted_n": 3, "predicted_ms": 30.25, "cache_n": 0}
    _, client = connect(routes([], [OURS], no_choices(**usage(1757, 3), timings=timings)))
    server = play(client).server
    assert server is not None
    assert (server.prompt_ms, server.decode_ms, server.draft_tokens) == (1900.5, 30.25, 385)
    assert server.raw.items() >= timings.items()


def test_a_server_without_metrics(connect: Connect) -> None:
    _, client = connect({CHAT: stream(ROLE, *WORDS, chunk({}, "length"), LAST)})
    trace = play(client)
    assert (trace.output_tokens, trace.server) == (3, None)
    assert not read_expert_cache(sample(trace))


@pytest.mark.parametrize(
    ("health", "live", "ready", "busy", "words"),
    [
        (sample_of("strata", "health-old"), "idle", True, False, "ready"),
        ({"engine": "loaded"}, "decode", True, True, "1 other request."),
        ({"engine": "loaded"}, None, True, None, "ready"),
        ({"engine": "loading"}, None, False, None, "loading its model"),
        ({"engine": "unloaded"}, None, True, None, "first request loads"),
    ],
)
def test_health(
    connect: Connect, health: dict[str, Any], live: str | None, ready: bool, busy: bool | None, words: str
) -> None:
    document = {"live": {"state": live} if live else {}}
    _, client = connect({"/health": Script.json({"status": "ok", **health}), "/metrics": Script.json(document)})
    reported_health = STRATA.health(client)
    assert (reported_health.ready, reported_health.busy) == (ready, busy)
    assert words in reported_health.detail


def test_probe_of_an_old_one(connect: Connect) -> None:
    old: dict[str, Route] = {"/health": Script.json(sample_of("strata", "health-old")), "/v1/models": models()}
    _, client = connect(old)
    facts = probe(client)
    assert (facts.engine, facts.engine_version, facts.context_tokens) == ("strata", None, 131072)
    assert [model.id for model in facts.models] == ["qwen3.8-flash-next"]


@pytest.mark.parametrize("status", [200, 503])
def test_probe_while_it_loads(connect: Connect, status: int) -> None:
    loading = {**sample_of("strata", "health-new"), "engine": "loading"}
    _, client = connect({**strata.server().routes, "/health": Script.json(loading, status)})
    facts = probe(client)
    assert (facts.engine, facts.loading, facts.models) == ("strata", True, ())
