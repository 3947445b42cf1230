"""vLLM: its own durations, tokens of each event, the first token behind the role chunk, counters, and its errors."""

import json
from typing import Any

import pytest

from app.core.errors import ServerError, ServerErrorKind
from app.core.samples import CacheDefeat, Kind, Status, Trace, Workload
from app.engines import find, probe
from app.engines.base import CompletionRequest, Counters, Health
from app.engines.http import ServerClient
from app.metrics import flags_of
from app.metrics.decode import read_decode
from app.metrics.prefill import read_prefill
from tests.engines.conftest import Connect
from tests.engines.recorded import read, recorded, tokens
from tests.engines.servers import CHAT, scrape
from tests.engines.streams import chunk, sse
from tests.engines.written import vllm
from tests.replay import Script, capture
from tests.traces import sample

VLLM = find("vllm")


def play(client: ServerClient, **ask: Any) -> Trace:
    return VLLM.stream_completion(
        client, CompletionRequest(**{"prompt": "hello", "output_tokens": 24, "model": "tiny-qwen3", **ask})
    )


@pytest.mark.parametrize(
    ("name", "first_ms", "last_ms", "prompt", "cached", "n"),
    [
        ("chat-stream-perreqmetrics", 459.717, 4748.24, 190, 0, 24),
        ("chat-stream-perreqmetrics-cached", 315.78, 2771.717, 190, 128, 24),
        ("chat-stream-continuous", 2632.366, 12108.681, 192, None, 16),
        ("chat-stream-tokenids", 986.971, 1525.133, 610, 512, 4),
        ("chat-stream-usage", 4190.904, 22767.164, 190, None, 24),
    ],
)
def test_captured_streams(name: str, first_ms: float, last_ms: float, prompt: int, cached: int | None, n: int) -> None:
    trace = recorded("vllm", "vllm", name)
    seen = tokens(trace)
    assert (trace.status, trace.finish_reason) == (Status.OK, "length")
    assert (trace.prompt_tokens, trace.cached_tokens, trace.output_tokens, len(seen)) == (prompt, cached, n, n)
    assert (seen[0].at_ms, seen[-1].at_ms) == (first_ms, last_ms)
    assert trace.events[0].kind is Kind.ROLE


@pytest.mark.parametrize(
    ("name", "fresh", "prompt_ms", "decode_ms", "queue_ms"),
    [
        ("chat-stream-perreqmetrics", 190, 382.682, 4289.147, 0.150474),
        ("chat-stream-perreqmetrics-cached", 62, 232.002, 2390.828, 0.624141),
        ("chat-stream-tokenids", 98, 693.413, 552.921, 0.603282),
    ],
)
def test_its_own_durations(name: str, fresh: int, prompt_ms: float, decode_ms: float, queue_ms: float) -> None:
    server = recorded("vllm", "vllm", name).server
    assert server is not None
    assert server.prompt_tokens == fresh
    assert [server.prompt_ms, server.decode_ms, server.queue_ms] == pytest.approx(
        [prompt_ms, decode_ms, queue_ms], abs=1e-3
    )
    assert server.raw["mean_itl_ms"] > 0


def test_rates_are_computed_and_not_taken_over() -> None:
    """Its tokens_per_second has the prefill in it: 5.14 where the decode makes 23 steps in 4.289 s."""
    clean = sample(recorded("vllm", "vllm", "chat-stream-perreqmetrics"), point=Workload(190, 24))
    rates = {reading.source: reading.value for reading in read_decode(clean)}
    assert rates["server"] == pytest.approx(23 / 4.289147, rel=1e-5)
    assert rates["client"] == pytest.approx(23 / 4.288523, rel=1e-5)
    prefill = {reading.source: reading.value for reading in read_prefill(clean)}
    assert prefill["server"] == pytest.approx(190 / 0.382682, rel=1e-5)
    assert flags_of(clean) == ()
    assert flags_of(sample(recorded("vllm", "vllm", "chat-stream-perreqmetrics-cached"), point=Workload(190, 24))) == (
        "cached",
    )


def test_a_cached_prompt_of_unknown_share_has_no_prefill_of_the_servers() -> None:
    metrics = {"time_to_first_token_ms": 20.0, "generation_time_ms": 40.0}
    usage = {"prompt_tokens": 100, "completion_tokens": 2}
    rows = [(ms, sse(data)) for ms, data in ((30.0, chunk("a")), (70.0, chunk("b", finish="length")))]
    rows.append((70.0, sse(chunk(usage=usage, metrics=metrics), b"[DONE]")))
    for defeat, fresh in ((CacheDefeat.NONE, None), (CacheDefeat.SWITCH, 100)):
        server = read("vllm", Script(rows), defeat).server
        assert server is not None
        assert (server.prompt_tokens, server.prompt_ms, server.decode_ms) == (fresh, 20.0, 40.0)


def test_usage_in_every_chunk_tells_the_tokens_of_each_event() -> None:
    seen = tokens(recorded("vllm", "vllm", "chat-stream-continuous"))
    assert [event.tokens for event in seen] == list(range(1, 17))


def test_an_answer_in_one_piece() -> None:
    trace = recorded("vllm", "vllm", "chat-nonstream-perreqmetrics")
    assert (trace.status, trace.not_streamed, trace.output_tokens) == (Status.OK, True, 24)


def stream(role_ms: float, first_ms: float, first_count: int | None, n: int, step_ms: float = 20) -> Trace:
    """Four visible tokens, with the running total in each event where `told` is that of the first."""
    name = {"id": "chatcmpl-1", "model": "m"}
    role = json.dumps({**name, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}).encode()
    rows = [(role_ms, sse(role))]
    for i in range(4):
        total = None if first_count is None else {"prompt_tokens": 9, "completion_tokens": first_count + i}
        rows.append((first_ms + step_ms * i, sse(chunk("x", usage=total, **name))))
    last = chunk(finish="stop", usage={"prompt_tokens": 9, "completion_tokens": n}, **name)
    return read("vllm", Script([*rows, (rows[-1][0], sse(last))]))


@pytest.mark.parametrize(
    ("trace", "first_ms"),
    [
        (stream(100, 160, 4, 7), 100),
        (stream(100, 160, None, 7), 100),
        (stream(100, 160, 1, 4), 160),
        (stream(100, 160, None, 4), 160),
        (stream(100, 100.05, 3, 6), 100.05),
        (stream(100, 108, None, 5), 108),
    ],
    ids=["told", "counted", "told otherwise", "all seen", "several in one event", "more tokens at the end"],
)
def test_the_role_chunk_is_the_first_token_where_others_came_before_the_visible_one(
    trace: Trace, first_ms: float
) -> None:
    assert tokens(trace)[0].at_ms == first_ms


@pytest.mark.parametrize(
    ("version", "defeat"),
    [
        ("0.32.0", CacheDefeat.SWITCH),
        ("0.9.1.dev12+g1234", CacheDefeat.SWITCH),
        ("v1.0.0", CacheDefeat.SWITCH),
        ("0.8.5", CacheDefeat.NONCE),
        ("dev", CacheDefeat.NONCE),
    ],
)
def test_the_switch_is_used_where_the_version_has_it(connect: Connect, version: str, defeat: CacheDefeat) -> None:
    replay, client = connect({**vllm.server().routes, "/version": Script.json({"version": version})}, pace=0.01)
    trace = play(client, nonce="0123abcd", capabilities=probe(client).capabilities)
    (body,) = replay.posted()
    assert trace.cache_defeat is defeat
    assert ("cache_salt" in body) == (defeat is CacheDefeat.SWITCH)
    assert body["messages"][0]["content"] == ("0123abcd\nhello" if defeat is CacheDefeat.NONCE else "hello")


def test_each_request_has_a_salt_of_its_own(connect: Connect) -> None:
    replay, client = connect(vllm.server().routes, pace=0.01)
    play(client)
    play(client)
    assert len({body["cache_salt"] for body in replay.posted()}) == 2


def test_prompt_tokens_are_counted_by_the_server(connect: Connect) -> None:
    replay, client = connect(vllm.server().routes)
    assert VLLM.prompt_tokens(client, CompletionRequest("hi there", 1, "tiny-qwen3", nonce="x")) == 12
    assert replay.posted() == [{"model": "tiny-qwen3", "messages": [{"role": "user", "content": "hi there"}]}]
    _, client = connect({})
    assert VLLM.prompt_tokens(client, CompletionRequest("hi there", 1, None)) is None


def test_counters_hold_fresh_and_cached_tokens_apart(connect: Connect) -> None:
    """750 + 2761 prompt tokens, of which 256 came from the cache before the 20 requests between the two scrapes."""
    counters = []
    for name in ("metrics-2-before-bench", "metrics-3-after-bench"):
        _, client = connect({"/metrics": scrape("vllm", name)})
        counters.append(VLLM.counters(client))
    assert counters == [
        Counters(prompt_tokens=494, cached_prompt_tokens=256, output_tokens=96, requests=4),
        Counters(prompt_tokens=3255, cached_prompt_tokens=256, output_tokens=416, requests=24),
    ]
    _, client = connect({})
    assert VLLM.counters(client) is None


@pytest.mark.parametrize(
    ("metrics", "busy", "detail"),
    [
        (
            'vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_waiting{engine="0"} 2\n',
            True,
            "3 other requests",
        ),
        (
            'vllm:num_requests_running{engine="0"} 0\nvllm:num_requests_running{engine="1"} 1\n',
            True,
            "1 other request.",
        ),
        ('vllm:num_requests_running{engine="0"} 0\n', False, "ready"),
        ('vllm:num_requests_running{engine="0"} 1e308\nvllm:num_requests_running{engine="1"} 1e308\n', None, "ready"),
        ('vllm:num_requests_running{engine="0"} -5\nvllm:num_requests_waiting{engine="0"} NaN\n', None, "ready"),
        ("", None, "ready"),
    ],
)
def test_other_requests(connect: Connect, metrics: str, busy: bool | None, detail: str) -> None:
    _, client = connect({**vllm.server().routes, "/metrics": Script.text(metrics)})
    health = VLLM.health(client)
    assert health == Health(ready=True, detail=health.detail, busy=busy)
    assert detail in health.detail


def test_a_kv_cache_of_another_type(connect: Connect) -> None:
    info = 'vllm:cache_config_info{block_size="16",cache_dtype="fp8_e4m3",engine="0"} 1.0\n'
    _, client = connect({**vllm.server().routes, "/metrics": Script.text(info)})
    assert probe(client).settings == {"context": 2048, "kv_type_k": "fp8_e4m3", "kv_type_v": "fp8_e4m3"}


@pytest.mark.parametrize(
    ("name", "trouble", "words"),
    [
        ("err-too-long", ServerErrorKind.PROMPT_TOO_LONG, "at least 2049 input tokens"),
        ("err-maxtokens-too-big", ServerErrorKind.PROMPT_TOO_LONG, "max_model_len=2048"),
        ("err-unknown-model", ServerErrorKind.UNKNOWN_MODEL, "`nope` does not exist"),
        ("err-noauth", ServerErrorKind.NEEDS_KEY, "wants an API key"),
    ],
)
def test_refusals_that_every_request_would_meet(
    connect: Connect, name: str, trouble: ServerErrorKind, words: str
) -> None:
    _, client = connect({CHAT: capture("vllm", name)})
    with pytest.raises(ServerError, match=words) as caught:
        play(client)
    assert caught.value.trouble is trouble


@pytest.mark.parametrize(("name", "words"), [("err-badjson", "valid list"), ("err-404path", "Not Found")])
def test_other_refusals_are_told(connect: Connect, name: str, words: str) -> None:
    replay, client = connect({CHAT: capture("vllm", name)})
    trace = play(client)
    assert (trace.status, trace.learned_capabilities, len(replay.posted())) == (Status.FAILED, {}, 1)
    assert words in str(trace.error)


def test_a_key_is_wanted(connect: Connect) -> None:
    _, client = connect({**vllm.server().routes, "/v1/models": capture("vllm", "err-noauth")})
    with pytest.raises(ServerError) as caught:
        probe(client)
    assert caught.value.trouble is ServerErrorKind.NEEDS_KEY
