"""Bytes to events: the same events from any cutting of the same bytes, and no bytes that raise anything."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.samples import Kind, Status, Trace
from app.engines.protocol.sse import End, Frame, frames
from app.engines.protocol.trace_builder import is_token
from tests.engines.streams import chunk, json_values, read, sha256, sse, usage
from tests.replay import case_rows

WHOLE = sse(chunk("one"), chunk(" two"), chunk(finish="stop"), b"[DONE]")


def seen(trace: Trace) -> list[tuple[Kind, int]]:
    return [(event.kind, event.size_bytes) for event in trace.events]


EXPECTED = [(Kind.ANSWER, 3), (Kind.ANSWER, 4), (Kind.FINISH, 0), (Kind.DONE, 0)]


@pytest.mark.parametrize(
    "body",
    [
        WHOLE,
        WHOLE.replace(b"\n", b"\r\n"),
        WHOLE.replace(b"\n", b"\r"),
        WHOLE.replace(b"data: ", b"data:"),
        b"\xef\xbb\xbf" + WHOLE,
        WHOLE.rstrip(b"\n"),
        WHOLE.replace(b"\n\n", b"\n"),
        WHOLE.replace(b"data: ", b"id: 7\nevent: message\nretry: 10\nunknown\ndata: "),
        WHOLE.replace(b"\n\n", b"\n\n\n\ndata:\n\ndata: \n\n"),
        WHOLE.replace(b', "delta"', b',\ndata: "delta"'),
        b"".join(line + b"\n" for line in (chunk("one"), chunk(" two"), chunk(finish="stop"), b"[DONE]")),
    ],
    ids=[
        "lf", "crlf", "cr", "no space", "bom", "no last blank line", "one line break per event", "other fields",
        "empty data", "several data lines", "json lines",
    ],
)  # fmt: skip
def test_dialects_of_the_same_stream(body: bytes) -> None:
    trace = read(body)
    assert seen(trace) == EXPECTED
    assert (trace.status, trace.error, trace.finish_reason) == (Status.OK, None, "stop")


@given(st.data())
def test_any_cutting_gives_the_same_events(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["S03", "S09", "S12", "S15", "S19"]))
    line_end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    body = b"".join(piece for _, piece in case_rows(name)[0]).replace(b"\n", line_end)
    cuts = sorted({0, len(body), *data.draw(st.lists(st.integers(0, len(body)), max_size=40))})
    pieces = [(position, body[a:b]) for position, (a, b) in enumerate(pairwise(cuts))]
    cut, whole = frames(pieces), frames([(0, body)])
    assert [frame[1:] for frame in cut] == [frame[1:] for frame in whole]
    assert [frame.at_ns for frame in cut] == sorted(frame.at_ns for frame in cut)


def test_the_time_is_that_of_the_byte_that_completed_the_data() -> None:
    rows = [
        (10, b"data: {"),
        (20, b"}\r"),
        (30, b"\n\r\n"),
        (40, b": note\n"),
        (50, b"data: 1"),
        (60, b"\n"),
        (70, b"\n"),
    ]
    assert frames(rows) == [Frame(20, b"{}"), Frame(40, b"", comment=b"note"), Frame(60, b"1")]


@given(st.lists(st.binary(max_size=60), max_size=12), st.sampled_from(End))
def test_garbage_becomes_a_clear_error(pieces: list[bytes], end: End) -> None:
    trace = read(*pieces, end=end)
    assert trace.status is not Status.OK or trace.events or trace.not_streamed
    if trace.status is not Status.OK:
        assert trace.error
        assert trace.error.endswith(".")
        assert "\n" not in trace.error


@given(st.lists(json_values, min_size=1, max_size=4))
def test_json_of_any_shape_is_read(values: list[object]) -> None:
    trace = read(sse(*(json.dumps(value).encode() for value in values), b"[DONE]"))
    assert trace.output_tokens is None or trace.output_tokens >= 0
    json.dumps([trace.server.raw if trace.server else None, trace.finish_reason], allow_nan=False)


@pytest.mark.parametrize(
    ("delta", "kind"),
    [
        ({"content": "a"}, Kind.ANSWER),
        ({"content": [{"type": "text", "text": "a"}]}, Kind.ANSWER),
        ({"reasoning_content": "a"}, Kind.REASONING),
        ({"reasoning": "a"}, Kind.REASONING),
        ({"thinking": "a"}, Kind.REASONING),
        ({"reasoning": "a", "content": ""}, Kind.REASONING),
        ({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}, Kind.TOOL),
        ({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}, Kind.TOOL),
        ({"tool_calls": []}, Kind.EMPTY),
        ({"role": "assistant", "content": ""}, Kind.ROLE),
        ({"role": "assistant", "content": None}, Kind.ROLE),
        ({"role": "assistant", "content": "a"}, Kind.ANSWER),
        ({"content": ""}, Kind.EMPTY),
        ({}, Kind.EMPTY),
    ],
)
def test_kind_of_a_delta(delta: dict[str, object], kind: Kind) -> None:
    data = json.dumps({"choices": [{"delta": delta}]}).encode()
    assert [event.kind for event in read(sse(data)).events] == [kind]
    assert is_token(Frame(0, data)) == (kind in {Kind.ANSWER, Kind.REASONING, Kind.TOOL})


@pytest.mark.parametrize("field", ["text", "response"])
def test_text_outside_of_a_delta(field: str) -> None:
    assert seen(read(sse(json.dumps({"choices": [{field: "abc"}]}).encode(), b"[DONE]"))) == [
        (Kind.ANSWER, 3),
        (Kind.DONE, 0),
    ]
    assert seen(read(json.dumps({field: "abc"}).encode() + b"\n[DONE]\n")) == [(Kind.ANSWER, 3), (Kind.DONE, 0)]


@pytest.mark.parametrize(
    ("events", "tokens"),
    [
        ([chunk("a"), chunk("b"), chunk(finish="stop", **usage(9, 5))], 5),
        ([chunk("a", **usage(9, 1)), chunk("b", **usage(9, 2)), chunk(finish="stop", **usage(9, 2))], 2),
        ([chunk("a"), chunk(finish="stop", **usage(9, 4)), chunk(**usage(9, 5))], 5),
        ([chunk("a"), chunk(finish="stop", **usage(9, 4)), chunk(**usage(0, 0))], 4),
        ([chunk("a"), chunk("b"), chunk(finish="stop", **usage(0, 0))], 2),
        ([chunk("a"), chunk("b"), chunk(finish="stop", **usage(9, 0))], 2),
        ([chunk("a"), chunk(finish="stop", usage=None), chunk(**usage(9, 7))], 7),
    ],
    ids=["finish", "every chunk", "twice", "zeros after", "zeros only", "output never counted", "null before"],
)
def test_usage(events: list[bytes], tokens: int) -> None:
    trace = read(sse(*events, b"[DONE]"))
    assert (trace.status, trace.output_tokens) == (Status.OK, tokens)


def test_timings_count_where_there_is_no_usage() -> None:
    timings = {"prompt_n": 7, "cache_n": 3, "prompt_ms": 5.5, "predicted_n": 2, "predicted_ms": 1e999, "draft_n": 4}
    trace = read(sse(chunk("a"), chunk("b", finish="length", timings=timings)))
    assert (trace.prompt_tokens, trace.cached_tokens, trace.output_tokens) == (10, 3, 2)
    assert trace.server is not None
    assert (trace.server.prompt_ms, trace.server.decode_ms, trace.server.draft_tokens) == (5.5, None, 4)
    assert "predicted_ms" not in trace.server.raw


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"error": {"message": "out of memory", "code": 500}}, "out of memory"),
        ({"error": "out of memory"}, "out of memory"),
        ({"error": '{"error": {"message": "out of memory"}}'}, "out of memory"),
        ({"object": "error", "message": "out of memory"}, "out of memory"),
        ({"detail": [{"loc": ["body", "seed"], "msg": "bad"}]}, "body.seed: bad"),
    ],
)
def test_error_events(error: object, message: str) -> None:
    data = json.dumps(error).encode()
    for body in (sse(data, b"[DONE]"), b"event: error\n" + sse(data), b"error: " + data + b"\n\n"):
        trace = read(body)
        assert trace.status is Status.FAILED
        assert message in str(trace.error)
    late = read(sse(chunk("a"), data, b"[DONE]"))
    assert (late.status, late.output_tokens) == (Status.INCOMPLETE, 1)
    assert message in str(late.error)


@pytest.mark.parametrize(
    ("trace", "status", "words"),
    [
        (read(sse(chunk("a"), chunk("b"))), Status.INCOMPLETE, "without a finish reason"),
        (read(sse(chunk("a", **usage(9, 1)), chunk("b", **usage(9, 2)))), Status.INCOMPLETE, "without a finish reason"),
        (read(sse(chunk("a"), b'{"choices": [{', chunk("b", finish="stop"))), Status.INCOMPLETE, "not JSON"),
        (read(sse(chunk("a")), b'data: {"cho', end=End.LOST), Status.INCOMPLETE, "lost after 1 token event"),
        (read(end=End.LOST), Status.FAILED, "lost before the first token"),
        (read(sse(chunk("a")), end=End.IDLE_TIMEOUT), Status.INCOMPLETE, "stood still"),
        (read(b": ping\n\n", end=End.FIRST_TOKEN_TIMEOUT), Status.FAILED, "No token came"),
        (read(sse(chunk("a")), end=End.TOO_LARGE), Status.INCOMPLETE, "far more"),
        (read(b"<!DOCTYPE html><p>secret"), Status.FAILED, "An HTML page came back"),
        (read(b"secret", content_type="text/html"), Status.FAILED, "An HTML page came back"),
        (read(b"plain words"), Status.FAILED, "neither an event stream nor JSON"),
        (read(b"[" * 100_000), Status.FAILED, "not JSON"),
        (read(), Status.FAILED, "empty answer"),
        (read(b": ping\n\n"), Status.FAILED, "ended before the first token"),
    ],
)
def test_bad_ends(trace: Trace, status: Status, words: str) -> None:
    assert trace.status is status
    assert words in str(trace.error)
    assert "secret" not in str(trace.error)


@pytest.mark.parametrize("body", [sse(chunk(finish="stop"), b"[DONE]"), sse(b"[DONE]"), sse(chunk(**usage(9, 1)))])
def test_an_empty_answer_with_a_proper_end_is_ok(body: bytes) -> None:
    trace = read(body)
    assert (trace.status, trace.error) == (Status.OK, None)
    assert trace.text_sha256 == sha256("")


@pytest.mark.parametrize("indent", [None, 2])
def test_one_body_instead_of_a_stream(indent: int | None) -> None:
    body = {
        "object": "chat.completion",
        "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
        **usage(9, 3),
    }
    for data in (json.dumps(body, indent=indent).encode(), sse(json.dumps(body).encode(), b"[DONE]")):
        trace = read(data)
        assert (trace.status, trace.not_streamed, trace.output_tokens) == (Status.OK, True, 3)
        assert trace.text_sha256 == sha256("hi")
        assert all(event.kind is Kind.DONE for event in trace.events)


def test_half_characters_in_escapes_are_joined() -> None:
    halves = [b'{"choices": [{"delta": {"content": "\\ud83e"}}]}', b'{"choices": [{"delta": {"content": "\\udd99"}}]}']
    assert read(sse(*halves, b"[DONE]")).text_sha256 == read(sse(chunk("\U0001f999"), b"[DONE]")).text_sha256
    assert read(sse(halves[0], b"[DONE]")).status is Status.OK
