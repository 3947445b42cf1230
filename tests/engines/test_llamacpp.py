"""llama.cpp: recognising it, and the two places where its stream says something about tokens without text."""

import json
from typing import Any

import pytest

from app.core.errors import ServerError, ServerErrorKind
from app.core.samples import TOKEN_KINDS, CacheDefeat, Event, Kind, Status, Trace, Workload
from app.engines import find, probe
from app.engines.base import CompletionRequest, Counters
from app.engines.http import ServerClient
from app.engines.llamacpp import LlamaCpp
from app.engines.protocol.sse import End, Recording, frames
from app.engines.protocol.trace_builder import read_trace
from app.metrics import flags_of
from tests.engines.conftest import Connect
from tests.engines.streams import chunk, sse
from tests.replay import Answerer, Request, Script, capture
from tests.traces import sample

CHAT = "/v1/chat/completions"
SERVER = {"server": "llama.cpp"}
LLAMA = find("llama.cpp")
ROUTES: dict[str, Script | Answerer] = {
    "/props": capture("llama.cpp", "get_props"),
    "/v1/models": capture("llama.cpp", "get_models"),
    "/health": capture("llama.cpp", "get_health"),
    "/slots": capture("llama.cpp", "get_slots_idle"),
    "/metrics": capture("llama.cpp", "get_metrics_after"),
    "/apply-template": capture("llama.cpp", "post_apply_template"),
    "/tokenize": capture("llama.cpp", "post_tokenize"),
}


def play(client: ServerClient, **ask: Any) -> Trace:
    return LLAMA.play(client, CompletionRequest(**{"prompt": "hello", "output_tokens": 16, "model": None, **ask}))


def test_recognise(connect: Connect) -> None:
    _, client = connect(ROUTES)
    facts = probe(client)
    assert (facts.engine, facts.engine_version) == ("llama.cpp", "b11434-sdist11434")
    assert (facts.context_tokens, facts.settings) == (4096, {"context": 4096, "parallel": 1})
    (model,) = facts.models
    assert (model.id, model.name) == ("/opt/llm/gemma-3-270m-q4_k_m.gguf", "gemma-3-270m")
    assert (model.quantization, model.parameters, model.size_bytes) == ("Q4_K_M", 268098176, 246587904)
    assert facts.model("gemma-3-270m-q4_k_m") is model


def test_recognise_by_the_header_alone(connect: Connect) -> None:
    models = Script.json({"data": [{"id": "tiny-Q8_0", "meta": {"n_ctx": 512}}]})
    _, client = connect({"/props": Script.json({"error": {"message": "off"}}, 501, **SERVER), "/v1/models": models})
    facts = probe(client)
    assert (facts.engine, facts.models[0].quantization, facts.models[0].context_tokens) == ("llama.cpp", "Q8_0", 512)


def test_while_loading(connect: Connect) -> None:
    loading = Script.json(
        {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503, **SERVER
    )
    _, client = connect({"/": loading})
    facts = probe(client)
    assert (facts.engine, facts.loading, facts.models) == ("llama.cpp", True, ())
    assert LLAMA.health(client).ready is False


def test_needs_a_key(connect: Connect) -> None:
    _, client = connect({"/": Script.json({"error": {"message": "Invalid API Key"}}, 401, **SERVER)})
    with pytest.raises(ServerError) as caught:
        probe(client)
    assert caught.value.trouble is ServerErrorKind.NEEDS_KEY


def test_other_servers_are_not_it(connect: Connect) -> None:
    for props in (Script.json({}), Script.text("hi"), Script.json([1])):
        _, client = connect({"/props": props})
        assert LLAMA.recognise(client) is None


@pytest.mark.parametrize(
    ("slots", "busy"),
    [
        (capture("llama.cpp", "get_slots_idle"), False),
        (capture("llama.cpp", "get_slots_busy"), True),
        (Script.json({"error": {"message": "disabled"}}, 501), None),
        (Script.text("?"), None),
    ],
)
def test_busy_slots(connect: Connect, slots: Script, busy: bool | None) -> None:
    _, client = connect({**ROUTES, "/slots": slots})
    health = LLAMA.health(client)
    assert (health.ready, health.busy) == (True, busy)


def test_slots_that_do_not_answer_are_at_work_on_a_long_prompt(connect: Connect) -> None:
    _, client = connect({**ROUTES, "/slots": Script(end="mute")}, probe_timeout_s=0.2)
    health = LLAMA.health(client)
    assert (health.ready, health.busy) == (True, True)
    _, client = connect({**ROUTES, "/slots": Script(end="rst")})
    with pytest.raises(ServerError):
        LLAMA.health(client)


def test_prompt_tokens_are_counted_by_the_server(connect: Connect) -> None:
    replay, client = connect(ROUTES)
    assert LLAMA.prompt_tokens(client, CompletionRequest("hello", 1, None, nonce="x")) == 4
    assert replay.posted()[0]["messages"][0]["content"] == "hello"
    assert "<|im_start|>user" in replay.posted()[1]["content"]
    _, client = connect({})
    assert LLAMA.prompt_tokens(client, CompletionRequest("hello", 1, None)) is None


def test_counters_are_totals(connect: Connect) -> None:
    _, client = connect(ROUTES)
    counters = LLAMA.counters(client)
    assert counters == Counters(prompt_tokens=4264, cached_prompt_tokens=308, output_tokens=281)
    _, client = connect({"/metrics": Script.json({"error": {"message": "off"}}, 501)})
    assert LLAMA.counters(client) is None


def test_what_is_sent(connect: Connect) -> None:
    replay, client = connect({CHAT: capture("llama.cpp", "chat_stream_max1")}, pace=0.01)
    assert play(client, nonce="x").cache_defeat is CacheDefeat.SWITCH
    assert play(client, nonce="x", reuse_cache=True).cache_defeat is CacheDefeat.NONE
    first, second = replay.posted()
    assert (first["cache_prompt"], second["cache_prompt"], first["ignore_eos"]) == (False, True, True)
    assert first["messages"][0]["content"] == "hello"


def test_a_refused_switch_gives_way_to_the_nonce(connect: Connect) -> None:
    stream = capture("llama.cpp", "chat_stream_max1")

    def answer(request: Request) -> Script:
        refusal = Script.json({"error": {"message": "Unsupported", "param": "cache_prompt"}}, 400)
        return refusal if "cache_prompt" in request.json() else stream

    replay, client = connect({CHAT: answer}, pace=0.01)
    trace = play(client, nonce="x")
    assert (trace.status, trace.cache_defeat) == (Status.OK, CacheDefeat.NONCE)
    assert [body["messages"][0]["content"] for body in replay.posted()] == ["hello", "x\nhello"]
    assert play(client, nonce="y", capabilities=trace.learned).cache_defeat is CacheDefeat.NONCE
    assert play(client, nonce="y", reuse_cache=True, capabilities=trace.learned).cache_defeat is CacheDefeat.NONE
    assert play(client, capabilities=trace.learned).cache_defeat is CacheDefeat.NONE
    assert "cache_prompt" not in replay.posted()[-1]


def recorded(name: str) -> Trace:
    """A captured stream with its exact times, as the engine reads it."""
    script = capture("llama.cpp", name)
    rows = [(round(ms * 1e6), data) for ms, data in script.rows]
    return LlamaCpp()._refine(read_trace(Recording(rows, End.CLOSED, 0, rows[-1][0]), {}))


def tokens(trace: Trace) -> list[Event]:
    return [event for event in trace.events if event.kind in TOKEN_KINDS]


@pytest.mark.parametrize(
    ("name", "first_ms", "last_ms", "hidden"),
    [
        ("chat_stream_usage_cache_prompt_false", 560.753, 19183.939, 0),
        ("chat_stream_timings_per_token", 4699.999, None, 0),
        ("chat_stream_max1", 870.527, 870.527, 0),
        ("chat_stream_natural_stop_eos", 5102.696, 22647.051, 1),
        ("chat_stream_stopword", 5187.927, 17669.47, 1),
        ("chat_stream_utf8_holdback", 626.921, 50406.735, 1),
        ("reasoning_chat_stream", 208.914, 2925.834, 2),
    ],
)
def test_tokens_without_text(name: str, first_ms: float, last_ms: float | None, hidden: int) -> None:
    trace = recorded(name)
    assert trace.status is Status.OK
    assert tokens(trace)[0].at_ms == pytest.approx(first_ms)
    if last_ms is not None:
        assert tokens(trace)[-1].at_ms == pytest.approx(last_ms)
    assert sum(event.kind is Kind.HIDDEN for event in trace.events) == hidden


def test_text_held_back_until_a_character_is_whole_hides_no_token() -> None:
    trace = recorded("chat_stream_utf8_holdback")
    assert trace.output_tokens is not None
    flags = flags_of(sample(trace, point=Workload(trace.prompt_tokens or 0, trace.output_tokens)))
    assert not {"hidden_tokens", "implausible", "unit_mismatch"} & set(flags)


@pytest.mark.parametrize("name", ["chat_stream_natural_stop_eos", "chat_stream_utf8_holdback", "reasoning_chat_stream"])
def test_client_and_server_agree_on_decode(name: str) -> None:
    trace = recorded(name)
    assert trace.server is not None
    assert trace.server.decode_ms is not None
    assert tokens(trace)[-1].at_ms - tokens(trace)[0].at_ms == pytest.approx(trace.server.decode_ms, rel=0.05)


def stream(role_ms: int, first_ms: int, finish_ms: int, n: int, decode_ms: float) -> Trace:
    role = json.dumps({"choices": [{"delta": {"role": "assistant", "content": None}}]}).encode()
    rows = [(role_ms, role), *((first_ms + 20 * i, chunk("x")) for i in range(4))]
    rows += [
        (finish_ms, chunk(finish="stop")),
        (finish_ms, chunk(timings={"predicted_n": n, "prompt_ms": 90, "predicted_ms": decode_ms})),
    ]
    pieces = [(ms * 1_000_000, sse(data)) for ms, data in rows]
    assert len(frames(pieces)) == 7
    return LlamaCpp()._refine(read_trace(Recording(pieces, End.CLOSED, 0, pieces[-1][0]), {}))


@pytest.mark.parametrize(
    ("trace", "first_ms", "last_ms"),
    [
        (stream(2, 100, 161, 4, 60), 100, 160),
        (stream(95, 140, 201, 6, 105), 95, 200),
        (stream(2, 140, 201, 6, 60), 140, 200),
        (stream(100, 100, 180, 5, 81), 100, 180),
        (stream(100, 100, 175, 4, 75), 100, 160),
        (stream(100, 100, 165, 5, 65), 100, 160),
        (stream(100, 100, 190, 5, 60), 100, 160),
        (stream(95, 140, 220, 9, 125), 95, 220),
    ],
    ids=[
        "nothing hidden", "first hidden", "role before the prompt", "end token", "all tokens seen", "finish at once",
        "finish late for another reason", "both ends hidden",
    ],
)  # fmt: skip
def test_evidence_for_tokens_without_text(trace: Trace, first_ms: float, last_ms: float) -> None:
    assert (tokens(trace)[0].at_ms, tokens(trace)[-1].at_ms) == (first_ms, last_ms)


@pytest.mark.parametrize(("drafts", "drafted"), [({}, 0), ({"draft_n": 4, "draft_n_accepted": 3}, 4)])
def test_it_tells_of_drafts_where_there_were_some(connect: Connect, drafts: dict[str, int], drafted: int) -> None:
    timings = {"prompt_n": 40, "prompt_ms": 9.0, "predicted_n": 2, "predicted_ms": 5.0, **drafts}
    stream = sse(chunk("a"), chunk("b"), chunk(finish="length", timings=timings))
    _, client = connect({CHAT: Script.sse(stream)})
    told, of_another_engine = play(client), find("openai").play(client, CompletionRequest("hello", 2, None))
    assert told.server is not None
    assert told.server.draft_tokens == drafted
    assert of_another_engine.server is not None
    assert of_another_engine.server.draft_tokens == drafts.get("draft_n")
