"""What counts as an answer, what as its end, and which of a server's figures are none."""

import json
from typing import Any

import pytest

from app.core.samples import Kind, Status, Trace
from app.engines import find
from app.engines.base import CompletionRequest
from app.engines.protocol.sse import End, frames
from tests.engines.conftest import Connect
from tests.engines.streams import chunk, read, sha256, sse, usage
from tests.replay import Script

GOOD = (chunk("a"), chunk("b"), chunk(finish="stop"), chunk(**usage(40, 2)))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "no answer"),
        ([], "no answer"),
        ([1, "x"], "no answer"),
        ({"hello": "world"}, "no answer"),
        ({"choices": [], "object": "chat.completion"}, "no answer"),
        ({"choices": [{"message": {"content": ""}}]}, "no answer"),
        (
            {"choices": [{"message": {"content": None}, "finish_reason": None}], "usage": usage(0, 0)["usage"]},
            "no answer",
        ),
        ({"message": "model crashed", "code": 500}, "model crashed"),
        ({"success": False, "msg": "out of memory"}, "out of memory"),
        ({"type": "error", "message": "oom"}, "oom"),
        ({"object": "error", "code": 40303}, "code 40303"),
        ({"code": 500}, "code 500"),
        ({"detail": "Not Found"}, "Not Found"),
        ([{"error": {"message": "boom", "code": 400}}], "boom"),
        ([{"message": "boom"}], "boom"),
    ],
)
def test_json_that_is_no_answer_is_an_error(body: Any, words: str) -> None:
    data = json.dumps(body).encode()
    for pieces in (data, json.dumps(body, indent=1).encode(), sse(data, b"[DONE]")):
        trace = read(pieces)
        assert (trace.status, trace.not_streamed, trace.output_tokens) == (Status.FAILED, False, None)
        assert words in str(trace.error)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": {"content": "hi"}}]},
        {"choices": [{"text": "hi"}]},
        {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]},
        {"choices": [], **usage(9, 1)},
        {"message": {"role": "assistant", "content": "hi"}},
        {"response": "hi"},
    ],
)
def test_text_or_a_finish_reason_or_usage_make_an_answer(body: Any) -> None:
    trace = read(json.dumps(body).encode())
    assert (trace.status, trace.not_streamed) == (Status.OK, True)


@pytest.mark.parametrize("error", [{"message": "oom"}, {"type": "error", "message": "oom"}, {"code": 7, "msg": "oom"}])
def test_an_error_event_among_tokens(error: Any) -> None:
    trace = read(sse(chunk("a"), json.dumps(error).encode(), b"[DONE]"))
    assert trace.status is Status.INCOMPLETE
    assert "oom" in str(trace.error)


@pytest.mark.parametrize(
    "extra", [b"{}", b"null", b'{"type": "ping"}', b'{"choices": []}', b'{"error": null}', b"ping"]
)
def test_what_is_no_answer_beside_one_does_no_harm(extra: bytes) -> None:
    assert read(sse(extra, *GOOD, extra, b"[DONE]")).status is Status.OK
    assert read(sse(extra, *GOOD, extra)).status is Status.OK
    assert read(sse(extra, b"[DONE]")).status is Status.FAILED


def test_broken_json_is_missing_text_unless_the_counts_are_there() -> None:
    assert read(sse(GOOD[0], b'{"choi', *GOOD[1:3], b"[DONE]")).status is Status.INCOMPLETE
    assert read(sse(GOOD[0], b'{"choi', *GOOD[1:], b"[DONE]")).status is Status.OK


@pytest.mark.parametrize(
    "after", [sse(b'{"error": "late"}'), sse(b"garbage"), sse(chunk("late")), sse(b"[DONE]"), b"<html>", b'{"x'],
)  # fmt: skip
def test_nothing_counts_after_the_last_line(after: bytes) -> None:
    for pieces in ((sse(*GOOD, b"[DONE]"), after), (sse(*GOOD, b"[DONE]") + after,)):
        trace = read(*pieces)
        assert (trace.status, trace.error, trace.events[-1].kind) == (Status.OK, None, Kind.DONE)


@pytest.mark.parametrize("end", [End.LOST, End.IDLE_TIMEOUT])
def test_a_complete_answer_needs_no_proper_end_of_the_connection(end: End) -> None:
    assert read(sse(*GOOD), end=end).status is Status.OK
    assert read(sse(*GOOD), b'data: {"x', end=end).status is Status.OK
    assert read(sse(*GOOD[:3]), end=end).status is Status.INCOMPLETE
    assert read(sse(*GOOD[:2], GOOD[3]), end=end).status is Status.INCOMPLETE
    assert read(sse(*GOOD), end=End.TOO_LARGE).status is Status.INCOMPLETE


@pytest.mark.parametrize(
    "script",
    [
        Script.sse(sse(*GOOD), end="rst"),
        Script.sse(sse(*GOOD), framing="close", http="1.0"),
        Script([(1, sse(*GOOD))], headers={"content-length": "99999"}, framing="close"),
        Script([(1, sse(*GOOD, b"[DONE]"))], status=201),
        Script([(1, sse(*GOOD))], status=206),
    ],
)
def test_played(connect: Connect, script: Script) -> None:
    _, client = connect({"/": script})
    trace = find("openai").stream_completion(client, CompletionRequest("hello", 2, "m"))
    assert (trace.status, trace.output_tokens, trace.error) == (Status.OK, 2, None)


def figures(*timings: dict[str, Any], **usage_fields: Any) -> Trace:
    return read(
        sse(
            chunk("a"),
            *(chunk(timings=timing) for timing in timings),
            chunk(finish="stop", usage=usage_fields),
            b"[DONE]",
        )
    )


ZEROS = {"prompt_n": 0, "prompt_ms": 0, "predicted_n": 0, "predicted_ms": 0}
REAL = {"prompt_n": 40, "cache_n": 0, "prompt_ms": 5.5, "predicted_n": 2, "predicted_ms": 7.5}


def test_zeros_are_unknown() -> None:
    assert figures(ZEROS).server is None
    server = figures(REAL, ZEROS).server
    assert server is not None
    assert (server.prompt_tokens, server.decode_ms) == (40, 7.5)
    assert figures(prompt_tokens=0, completion_tokens=2).prompt_tokens is None
    assert figures(REAL, prompt_tokens=0, completion_tokens=2).prompt_tokens == 40
    partly = figures({**REAL, "prompt_n": 0, "prompt_ms": 0}).server
    assert partly is not None
    assert (partly.prompt_tokens, partly.prompt_ms, partly.output_tokens) == (None, None, 2)


def test_no_more_can_be_cached_than_there_is() -> None:
    def cached(tokens: int) -> int | None:
        details = {"cached_tokens": tokens}
        return figures(prompt_tokens=512, completion_tokens=2, prompt_tokens_details=details).cached_tokens

    assert (cached(512), cached(0), cached(513)) == (512, 0, None)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), 1e300, True, "Indeterminate", None])
def test_what_is_no_duration_is_unknown(value: Any) -> None:
    server = figures({**REAL, "prompt_ms": value}).server
    assert server is not None
    assert (server.prompt_ms, server.decode_ms) == (None, 7.5)


def test_the_first_choice_is_the_one_with_index_0() -> None:
    choices = [{"index": 1, "delta": {}, "finish_reason": "stop"}, {"index": 0, "delta": {"content": "x"}}]
    trace = read(sse(json.dumps({"choices": choices}).encode()))
    assert [event.kind for event in trace.events] == [Kind.ANSWER]
    assert trace.finish_reason is None


@pytest.mark.parametrize("reason", ["null", "None", "", None, 5])
def test_what_is_no_finish_reason(reason: Any) -> None:
    trace = read(sse(chunk("a"), chunk(finish=reason)))
    assert (trace.status, trace.finish_reason) == (Status.INCOMPLETE, None)


def test_arguments_that_are_parsed_already_have_their_size_too() -> None:
    delta = {"tool_calls": [{"function": {"name": "f", "arguments": {"a": [1]}}}]}
    (event, _) = read(sse(json.dumps({"choices": [{"delta": delta}]}).encode(), chunk(finish="tool_calls"))).events
    assert (event.kind, event.size_bytes) == (Kind.TOOL, len('f{"a":[1]}'))


def test_function_calls_are_tokens() -> None:
    delta = {"function_call": {"name": "f", "arguments": "{"}}
    trace = read(sse(json.dumps({"choices": [{"delta": delta}]}).encode(), chunk(finish="function_call")))
    assert [(event.kind, event.size_bytes) for event in trace.events] == [(Kind.TOOL, 2), (Kind.FINISH, 0)]


def test_sizes_are_bytes_and_the_model_is_kept() -> None:
    trace = read(sse(chunk("\U0001f9d1ä", model="one"), chunk(finish="stop", model="two")))
    assert (trace.events[0].size_bytes, trace.text_sha256, trace.model) == (6, sha256("\U0001f9d1ä"), "two")


def test_one_event_in_a_stream_of_nothing() -> None:
    assert frames([(1, b"data: ping\n\n")])[0].data == b"ping"
    assert "not JSON" in str(read(sse(b"ping")).error)
