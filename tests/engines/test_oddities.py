"""Streams as gateways and unusual servers word them: the triple is that of the same stream in plain words."""

import json
from typing import Any

import pytest

from app.core.samples import CacheDefeat, CountSource, Kind, Status, Trace, Workload
from app.engines.protocol.sse import End
from app.metrics import flags_of, headline_metrics
from app.metrics.ttft import read_ttfa
from tests.engines.recorded import read as read_script
from tests.engines.streams import chunk, read, sha256, sse, usage
from tests.replay import Script
from tests.traces import sample

WORDS = [sse(chunk(" word"))] * 8
FINISH = sse(chunk(finish="length"))
DONE = sse(b"[DONE]")
PLAIN = {"ttft_ms": 200.0, "prefill_tokens_per_s": 2560.0, "decode_tokens_per_s": 40.0}


def timed(*pieces: bytes, engine: str = "openai") -> Trace:
    """The first piece after 200 ms, each further one 25 ms later."""
    rows = [(200.0 + 25 * place, piece) for place, piece in enumerate(pieces)]
    return read_script(engine, Script(rows, headers={"content-type": "text/event-stream"}))


def last(**stated: Any) -> bytes:
    return sse(json.dumps({"choices": [], **stated}).encode())


def in_choice(**stated: Any) -> bytes:
    return sse(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "length", **stated}]}).encode())


@pytest.mark.parametrize(
    "ending",
    [
        last(**usage(512, 8)),
        last(usage={"prompt_tokens": "512", "completion_tokens": "8"}),
        last(usage={"prompt_tokens": 512.0, "completion_tokens": 8.0, "total_tokens": None}),
        last(usage={"input_tokens": 512, "output_tokens": 8}),
        in_choice(**usage(512, 8)),
        last(usage={**usage(512, 8)["usage"], "completion_tokens_details": None, "prompt_tokens_details": None}),
        last(**usage(512, 8)) + last(usage=None) + last(**usage(0, 0)),
        sse(b'{"choices": [], "usage": {"prompt_tokens": 512, "completion_tokens": 8, "seconds": nan}}'),
    ],
)
def test_usage_in_other_words(ending: bytes) -> None:
    trace = timed(*WORDS, FINISH + ending + DONE)
    assert (trace.status, trace.prompt_tokens, trace.output_tokens) == (Status.OK, 512, 8)
    assert trace.count_source is CountSource.USAGE
    taken = sample(trace, point=Workload(512, 8), cache_defeat=CacheDefeat.NONCE)
    assert flags_of(taken) == ()
    assert headline_metrics(taken) == pytest.approx(PLAIN)


@pytest.mark.parametrize("stated", [None, {}, [], "8", {"completion_tokens": -1}, {"completion_tokens": "many"}])
def test_usage_that_says_nothing(stated: Any) -> None:
    trace = timed(*WORDS, FINISH + last(usage=stated) + DONE)
    assert (trace.status, trace.output_tokens, trace.count_source) == (Status.OK, 8, CountSource.EVENTS)
    taken = sample(trace, point=Workload(512, 8), cache_defeat=CacheDefeat.NONCE)
    assert flags_of(taken) == ("token_count_estimated",)
    assert headline_metrics(taken) == {**PLAIN, "prefill_tokens_per_s": None}


@pytest.mark.parametrize(
    "stated",
    [
        {"prompt_tokens_details": {"cached_tokens": 500}},
        {"cached_tokens": 500},
        {"prompt_cache_hit_tokens": 500, "prompt_cache_miss_tokens": 12},
        {"input_tokens_details": {"cached_tokens": "500"}},
    ],
)
def test_cached_tokens_in_other_words(stated: dict[str, Any]) -> None:
    ending = last(usage={**usage(512, 8)["usage"], **stated})
    taken = sample(timed(*WORDS, FINISH + ending + DONE), point=Workload(512, 8))
    assert taken.trace.cached_tokens == 500
    assert flags_of(taken) == ("cached",)
    assert headline_metrics(taken)["prefill_tokens_per_s"] is None


def test_durations_that_c_prints_as_no_number_are_none() -> None:
    timings = b'"timings": {"prompt_n": 512, "prompt_ms": -nan, "predicted_n": 8, "predicted_ms": inf}'
    trace = timed(*WORDS, FINISH + sse(b'{"choices": [], %s}' % timings) + DONE, engine="llama.cpp")
    assert (trace.status, trace.output_tokens, trace.prompt_tokens) == (Status.OK, 8, 512)
    assert trace.server is not None
    assert (trace.server.prompt_ms, trace.server.decode_ms) == (None, None)


def pieces_of(*texts: str) -> list[bytes]:
    return [sse(chunk(text)) for text in texts]


@pytest.mark.parametrize(
    ("texts", "thoughts"),
    [
        (["<think>", " so", " so", "</think>", "\n\n", "Hi", " there"], 5),
        (["<th", "ink>so", " so</thi", "nk>", "Hi", " there"], 4),
        (["\n<thinking>", "so", "</thinking>", "Hi", " there"], 3),
        (["[THINK]so", "[/THINK]", "Hi", " there"], 2),
        (["so", " so", "</think>\n", "Hi", " there"], 3),  # the template had opened it
        (["<think>\n\n</think>\n\nHi", " there"], 0),  # in the first event the answer has begun
        (["Hi", " there"], 0),
    ],
)
def test_thinking_among_the_text_is_no_answer(texts: list[str], thoughts: int) -> None:
    trace = timed(*pieces_of(*texts), FINISH + last(**usage(512, len(texts))) + DONE)
    tokens = [event for event in trace.events if event.kind in (Kind.ANSWER, Kind.REASONING)]
    assert [event.kind for event in tokens] == [Kind.REASONING] * thoughts + [Kind.ANSWER] * 2
    (ttfa,) = read_ttfa(sample(trace))
    assert ttfa.value == 200 + 25 * thoughts
    assert headline_metrics(sample(trace))["ttft_ms"] == 200
    assert trace.text_sha256 == read(sse(chunk("Hi there"), b"[DONE]")).text_sha256


def test_who_still_thinks_has_not_answered() -> None:
    trace = timed(*pieces_of("<think>", " so", " so"), FINISH + DONE)
    assert [event.kind for event in trace.events[:3]] == [Kind.REASONING] * 3
    assert read_ttfa(sample(trace))[0].null_reason == "no_answer_token"
    assert trace.text_sha256 == sha256("")


def test_words_about_thinking_are_an_answer() -> None:
    trace = timed(*pieces_of("Put it between", " <think> and", " </think>."), FINISH + DONE)
    assert {event.kind for event in trace.events[:3]} == {Kind.ANSWER}


@pytest.mark.parametrize("reason", ["error", "abort", "Cancelled"])
def test_a_finish_reason_that_is_a_fault(reason: str) -> None:
    for begun, status in ((WORDS, Status.INCOMPLETE), ([], Status.FAILED)):
        trace = timed(*begun, sse(chunk(finish=reason)) + last(**usage(512, 8)) + DONE)
        assert trace.status is status
        assert f"`{reason}`" in str(trace.error)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (in_choice(error={"message": "upstream died", "code": 502}), "upstream died"),
        (sse(b'{"errors": [{"message": "no slot left"}]}'), "no slot left"),
        (sse(b'{"error": 500}'), "code 500"),
        (b"event: error\ndata:\n\n", "no message was given"),
        (b"event: error\n\n", "no message was given"),
        (b"event: error\ndata: out of memory\n\n", "out of memory"),
    ],
)
def test_a_fault_among_tokens_is_never_an_answer(fault: bytes, words: str) -> None:
    trace = timed(*WORDS, fault + FINISH + last(**usage(512, 8)) + DONE)
    assert trace.status is Status.INCOMPLETE
    assert words in str(trace.error)
    assert (trace.output_tokens, flags_of(sample(trace))[0]) == (8, "incomplete")
    assert timed(fault + DONE).status is Status.FAILED


def test_a_fault_may_be_the_last_thing_that_comes() -> None:
    trace = read(b"".join(WORDS), b"event: error", end=End.LOST)
    assert trace.status is Status.INCOMPLETE
