"""Ollama's native API: what its last line counts and times, how its streams end, and what a probe finds."""

import json
from typing import Any

import pytest

from app.core.errors import ServerError, ServerErrorKind
from app.core.samples import CacheDefeat, Kind, Status, Trace, Workload
from app.engines import find, probe
from app.engines.base import CompletionRequest
from app.engines.http import ServerClient
from app.metrics import flags_of
from app.metrics.decode import read_decode
from app.metrics.prefill import read_prefill
from tests.engines.conftest import Connect
from tests.engines.recorded import read, recorded, tokens
from tests.engines.streams import sha256
from tests.engines.written import ollama
from tests.replay import Answerer, Request, Script, capture
from tests.traces import sample

OLLAMA = find("ollama")


def play(client: ServerClient, **ask: Any) -> Trace:
    return OLLAMA.stream_completion(
        client, CompletionRequest(**{"prompt": "hello", "output_tokens": 8, "model": "m", **ask})
    )


def lines(*values: dict[str, Any]) -> Script:
    pieces = [json.dumps(value).encode() + b"\n" for value in values]
    rows = [(10.0 * (position + 1), piece) for position, piece in enumerate(pieces)]
    return Script(rows, headers={"content-type": "application/x-ndjson"})


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": text}, "done": False, **more}


LAST = {**says("", done=True, done_reason="stop"), "prompt_eval_count": 100, "eval_count": 2}


@pytest.mark.parametrize(
    ("name", "first_ms", "last_ms", "prompt", "prompt_ms", "n", "decode_ms", "load_ms"),
    [
        ("chat-stream", 1059.581, 1744.083, 195, 1007.246, 16, 698.197, 5.568669),
        ("generate-stream-cold", 8249.543, 9701.254, 169, 1383.891, 24, 1451.588, 6833.114275),
        ("generate-stream-nonce", 1175.38, 2985.449, 176, 1147.826, 24, 1808.061, 5.070195),
        ("generate-truncated", 6725.359, 7197.922, 259, 1444.398, 4, 485.824, 5245.869899),
        ("generate-onetoken", 876.794, 876.794, 172, 853.314, 1, 0.001, 2.583633),
    ],
)
def test_captured_streams(
    name: str, first_ms: float, last_ms: float, prompt: int, prompt_ms: float, n: int, decode_ms: float, load_ms: float
) -> None:
    trace = recorded("ollama", "ollama", name)
    seen = tokens(trace)
    assert (trace.status, trace.finish_reason, trace.model) == (Status.OK, "length", "gemma3-270m")
    assert (len(seen), trace.output_tokens, trace.prompt_tokens, trace.cached_tokens) == (n, n, prompt, None)
    assert (seen[0].at_ms, seen[-1].at_ms) == (first_ms, last_ms)
    assert trace.server is not None
    assert (trace.server.prompt_tokens, trace.server.output_tokens) == (prompt, n)
    assert trace.server.prompt_ms == pytest.approx(prompt_ms)
    assert trace.server.decode_ms == pytest.approx(decode_ms)
    assert trace.server.load_ms == pytest.approx(load_ms)


@pytest.mark.parametrize(
    ("name", "sent", "flags"),
    [
        ("generate-stream-cold", 169, {"model_load"}),
        ("generate-stream-nonce", 176, set()),
        ("generate-truncated", 1441, {"model_load", "truncated_prompt"}),
    ],
)
def test_flags_of_captured_streams(name: str, sent: int, flags: set[str]) -> None:
    trace = recorded("ollama", "ollama", name)
    raised_flags = flags_of(
        sample(trace, point=Workload(sent, trace.output_tokens or 0), cache_defeat=CacheDefeat.NONCE)
    )
    assert set(raised_flags) == flags


def test_client_and_server_agree_on_decode() -> None:
    rates = [reading.value for reading in read_decode(sample(recorded("ollama", "ollama", "chat-stream")))]
    # 15 steps in 684.502 ms as they arrived, and in 698.197 ms as Ollama says
    assert rates == [pytest.approx(21.9137, abs=1e-4), pytest.approx(21.4839, abs=1e-4)]


def test_one_token_has_no_speed() -> None:
    """1000 ns for it would be a million tokens per second."""
    readings = read_decode(sample(recorded("ollama", "ollama", "generate-onetoken")))
    assert [(reading.value, reading.null_reason) for reading in readings] == [(None, "one_token")] * 2


def test_counts_of_a_prompt_that_may_be_cached_are_no_prefill() -> None:
    """169 tokens in 88 ms: the count has cached tokens in it, the duration has not."""
    trace = recorded("ollama", "ollama", "generate-stream-cached", CacheDefeat.NONE)
    assert (trace.prompt_tokens, trace.cached_tokens) == (169, None)
    assert trace.server is not None
    assert trace.server.prompt_tokens is None
    assert trace.server.prompt_ms == pytest.approx(88.149)
    again = sample(trace, point=Workload(169, 24), cache_defeat=CacheDefeat.NONE)
    assert flags_of(again) == ("cache_state_unknown",)
    assert [reading.value for reading in read_prefill(again)] == [None]


def test_cached_tokens_that_are_told_are_taken_off() -> None:
    last = {**LAST, "prompt_eval_cached_count": 60, "prompt_eval_duration": 20_000_000}
    trace = read("ollama", lines(says("a"), says("b"), last), CacheDefeat.NONE)
    assert (trace.prompt_tokens, trace.cached_tokens) == (100, 60)
    assert trace.server is not None
    assert (trace.server.prompt_tokens, trace.server.prompt_ms) == (40, 20.0)


@pytest.mark.parametrize(
    ("changes", "queue_ms", "overhead_ms"),
    [
        ({}, 2410.0, None),
        ({"total_duration": 690_000_000}, None, 100.0),  # template, tokenizer, saving a slot
        ({"total_duration": 720_000_000}, 130.0, None),
        ({"total_duration": 720_000_000, "prompt_eval_count": 1000}, None, 130.0),
        ({"total_duration": 590_000_000}, None, None),  # nothing is left
        ({"eval_duration": None}, None, None),
        ({"total_duration": "soon"}, None, None),
    ],
)
def test_what_its_total_holds_beside_its_parts(
    changes: dict[str, Any], queue_ms: float | None, overhead_ms: float | None
) -> None:
    durations = {
        "total_duration": 3_000_000_000,
        "load_duration": 10_000_000,
        "prompt_eval_duration": 480_000_000,
        "eval_duration": 100_000_000,
    }
    server = read("ollama", lines(says("a"), says("b"), {**LAST, **durations, **changes})).server
    assert server is not None
    assert server.queue_ms == (queue_ms if queue_ms is None else pytest.approx(queue_ms))
    assert server.overhead_ms == (overhead_ms if overhead_ms is None else pytest.approx(overhead_ms))


@pytest.mark.parametrize(
    ("folder", "name", "overhead_ms"),
    [
        ("ollama", "chat-stream", 21.249),
        ("ollama-0.33", "chat-system-2", 35.471),
        ("ollama-0.33", "chat-system-load", 27.7),
    ],
)
def test_a_captured_answer_that_waited_for_nobody_has_no_queue(folder: str, name: str, overhead_ms: float) -> None:
    server = recorded("ollama", folder, name).server
    assert server is not None
    assert server.queue_ms is None
    assert server.overhead_ms == pytest.approx(overhead_ms, abs=0.001)


def test_what_is_left_out_was_zero_or_never_measured() -> None:
    trace = read("ollama", lines(says("a"), {**says("", done=True), "total_duration": 5}))
    assert (trace.status, trace.prompt_tokens, trace.output_tokens) == (Status.OK, None, 1)
    assert trace.server is not None
    assert (trace.server.prompt_ms, trace.server.decode_ms, trace.server.load_ms) == (None, None, None)


def test_thinking_comes_before_the_answer() -> None:
    thought = {"model": "m", "message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": False}
    trace = read("ollama", lines(thought, says("a"), LAST))
    assert [event.kind for event in trace.events] == [Kind.REASONING, Kind.ANSWER, Kind.FINISH]
    assert trace.text_sha256 == sha256("a")


def test_an_answer_in_one_piece_is_not_a_stream() -> None:
    trace = recorded("ollama", "ollama", "chat-nonstream")
    assert (trace.status, trace.not_streamed, trace.output_tokens, trace.prompt_tokens) == (Status.OK, True, 16, 195)
    assert trace.text_sha256 == sha256("<|im_end|>\n<|im_start|>\n<|")
    assert trace.server is not None


@pytest.mark.parametrize(
    ("script", "status", "count", "words"),
    [
        (capture("ollama", "generate-midstream-crash"), Status.INCOMPLETE, 90, "unexpected EOF"),
        (lines(says("a"), says("b")), Status.INCOMPLETE, 2, "ended after 2 token events"),
        (lines({"error": "llama runner has terminated"}), Status.FAILED, 0, "llama runner has terminated"),
        (lines({"error": '{"error":{"message":"out of memory"}}'}), Status.FAILED, 0, "out of memory"),
        (lines(says("a"), {"detail": "the proxy gave up"}), Status.INCOMPLETE, 1, "the proxy gave up"),
        (lines({"message": "no upstream"}), Status.FAILED, 0, "no upstream"),
    ],
)
def test_broken_streams(script: Script, status: Status, count: int, words: str) -> None:
    trace = read("ollama", script)
    assert (trace.status, len(tokens(trace))) == (status, count)
    assert words in str(trace.error)


@pytest.mark.parametrize(
    ("script", "trouble", "words"),
    [
        (capture("ollama", "generate-notruncate"), ServerErrorKind.PROMPT_TOO_LONG, "1441 tokens"),
        (capture("ollama", "err-model"), ServerErrorKind.UNKNOWN_MODEL, "model 'nope' not found"),
    ],
)
def test_refusals_that_every_request_would_meet(
    connect: Connect, script: Script, trouble: ServerErrorKind, words: str
) -> None:
    _, client = connect({"/api/chat": script})
    with pytest.raises(ServerError, match=words) as caught:
        play(client)
    assert caught.value.trouble is trouble


@pytest.mark.parametrize(
    ("name", "words"), [("err-badopt", 'option "num_predict" must be of type integer'), ("err-think", "thinking")]
)
def test_other_refusals_are_told_and_teach_nothing(connect: Connect, name: str, words: str) -> None:
    replay, client = connect({"/api/chat": capture("ollama", name)})
    trace = play(client)
    assert (trace.status, trace.learned_capabilities, len(replay.posted())) == (Status.FAILED, {}, 1)
    assert words in str(trace.error)


def test_a_version_without_truncate(connect: Connect) -> None:
    def answer(request: Request) -> Script:
        if "truncate" in request.json():
            return Script.json({"error": 'json: unknown field "truncate"'}, 400)
        return lines(says("a"), says("b"), LAST)

    replay, client = connect({"/api/chat": answer})
    trace = play(client)
    assert (trace.status, trace.learned_capabilities) == (Status.OK, {"refused_fields": ["truncate"]})
    assert "truncate" not in replay.posted()[1]


def test_context_and_nonce(connect: Connect) -> None:
    replay, client = connect({"/api/chat": lines(says("a"), says("b"), LAST)})
    play(client, nonce="0123abcd", context_tokens=8192)
    play(client, nonce="0123abcd", reuse_cache=True)
    first, second = replay.posted()
    assert first["options"] == {"num_predict": 8, "num_ctx": 8192, "temperature": 0, "seed": 1}
    assert first["messages"] == [
        {"role": "system", "content": "0123abcd"},
        {"role": "user", "content": "0123abcd\nhello"},
    ]
    assert "num_ctx" not in second["options"]
    assert second["messages"] == [{"role": "user", "content": "hello"}]


def test_where_the_model_was_is_kept_with_the_figures(connect: Connect) -> None:
    _, client = connect(ollama.server().routes, pace=0.01)
    trace = play(client)
    assert trace.server is not None
    assert trace.server.raw["eval_count"] == 16
    where = {key: trace.server.raw[key] for key in ("size", "size_vram", "context_length")}
    assert where == {"size": 224300892, "size_vram": 224300892, "context_length": 2048}


def test_probe(connect: Connect) -> None:
    ps = {"models": [{"name": "big:8b", "size": 8_000_000, "size_vram": 2_000_000, "context_length": 4096}]}
    details = {"quantization_level": "unknown"}
    tags = [
        {"name": "embed:latest", "capabilities": ["embedding"]},
        {"name": "hf.co/x/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "details": details},
        {"name": "big:8b", "details": {"quantization_level": "MXFP4", "context_length": 131072}},
    ]
    routes: dict[str, Script | Answerer] = {
        **ollama.server().routes,
        "/api/ps": Script.json(ps),
        "/api/tags": Script.json({"models": tags}),
    }
    _, client = connect(routes)
    facts = probe(client)
    assert [(m.id, m.name, m.quantization, m.context_tokens, m.max_context_tokens) for m in facts.models] == [
        ("big:8b", "big:8b", "MXFP4", 4096, 131072),
        ("hf.co/x/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "Llama-3.2-1B-Instruct-GGUF", "Q4_K_M", None, None),
    ]
    big, other = facts.models
    assert big.notes == ("Ollama holds 25 % of big:8b in GPU memory; the processor works on the rest.",)
    assert (big.settings, other.notes, facts.notes) == ({"gpu_share": 25}, (), ())


def test_its_own_words_about_a_model_are_handed_on(connect: Connect) -> None:
    document = {"details": {"family": "gemma3"}, "model_info": {"gemma3.block_count": 18}}
    replay, client = connect({"/api/show": Script.json(document)})
    assert OLLAMA.model_document(client, "m") == document
    assert replay.posted() == [{"model": "m"}]
    _, client = connect({"/api/show": capture("ollama", "err-model")})
    with pytest.raises(ServerError):
        OLLAMA.model_document(client, "nope")


def test_probe_of_an_empty_server(connect: Connect) -> None:
    empty: dict[str, Script | Answerer] = {"/api/ps": capture("ollama", "ps-empty"), "/api/tags": Script.json({})}
    _, client = connect({**ollama.server().routes, **empty})
    assert probe(client).notes == ("The server has no model: pull one first.",)
