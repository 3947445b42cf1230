"""Every engine's stream, cut in every way, gives the same events; and no bytes confuse any engine's reading."""

import json
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.samples import CacheDefeat, Status, Trace
from app.engines.protocol.sse import End, Recording
from tests.engines.recorded import chat_engine
from tests.engines.streams import json_values, sse
from tests.engines.written import SERVERS
from tests.replay import Request, Script

EXAMPLES = 10
"""Of each engine; together that makes hundreds."""
CONTENT = {"ollama": "application/x-ndjson"}
# names that mean something in one of the dialects
KEYS = [
    "message", "content", "thinking", "response", "done", "done_reason", "eval_count", "prompt_eval_count", "usage",
    "prompt_eval_cached_count", "eval_duration", "load_duration", "metrics", "time_to_first_token_ms", "queue_time_ms",
    "stats", "generation_time", "runtime", "prompt_time", "completion_time", "timing_prompt_processing", "choices",
    "timings", "model", "error", "type", "result",
]  # fmt: skip
odd_objects = st.dictionaries(
    st.sampled_from(KEYS), json_values | st.dictionaries(st.sampled_from(KEYS), json_values, max_size=4), max_size=5
)


@cache
def body(key: str) -> bytes:
    server = SERVERS[key]()
    script = server.routes[server.path]
    if not isinstance(script, Script):
        script = script(Request("POST", server.path, {}, b'{"messages": [1]}'))
    return b"".join(piece for _, piece in script.rows)


def read(key: str, pieces: list[bytes], end: End = End.CLOSED) -> Trace:
    engine = chat_engine(key)
    rows = [((position + 1) * 1_000_000, piece) for position, piece in enumerate(pieces)]
    kind = CONTENT.get(key, "text/event-stream")
    recording = Recording(rows, end, 0, len(rows) * 1_000_000, content_type=kind)
    return engine.read(recording, {}, CacheDefeat.NONCE)


def without_times(trace: Trace) -> Trace:
    return replace(
        trace,
        events=tuple(event._replace(at_ms=0) for event in trace.events),
        end_ms=None,
    )


@pytest.mark.parametrize("key", SERVERS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_any_cutting_gives_the_same_answer(key: str, data: st.DataObject) -> None:
    whole = body(key).replace(b"\n", data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"])))
    cuts = sorted({0, len(whole), *data.draw(st.lists(st.integers(0, len(whole)), max_size=30))})
    trace = read(key, [whole[a:b] for a, b in pairwise(cuts)])
    assert trace.status is Status.OK
    times = [event.at_ms for event in trace.events]
    assert times == sorted(times)
    if key not in ("llama.cpp", "vllm"):  # there, which events stand for tokens without text depends on their times
        assert without_times(trace) == without_times(read(key, [whole]))
    assert (trace.output_tokens, trace.server) == (read(key, [whole]).output_tokens, read(key, [whole]).server)


@pytest.mark.parametrize("key", SERVERS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_stream_that_breaks_anywhere_is_never_a_whole_one(key: str, data: st.DataObject) -> None:
    whole = body(key)
    end = data.draw(st.integers(0, len(whole) - 1))
    trace = read(key, [whole[:end]], End.LOST)
    if trace.status is Status.OK:  # only where nothing but the last line is missing
        assert (trace.output_tokens, trace.prompt_tokens) == (read(key, [whole]).output_tokens, trace.prompt_tokens)
        assert trace.finish_reason
    else:
        assert str(trace.error).endswith(".")


@pytest.mark.parametrize("key", SERVERS)
@settings(max_examples=EXAMPLES)
@given(pieces=st.lists(st.binary(max_size=40), max_size=8), end=st.sampled_from(End))
def test_garbage_becomes_a_clear_error(key: str, pieces: list[bytes], end: End) -> None:
    trace = read(key, pieces, end)
    assert trace.status is not Status.OK or trace.events or trace.not_streamed
    if trace.status is not Status.OK:
        assert str(trace.error).endswith(".")
        assert "\n" not in str(trace.error)


@pytest.mark.parametrize("key", SERVERS)
@settings(max_examples=EXAMPLES)
@given(values=st.lists(odd_objects, min_size=1, max_size=4))
def test_objects_of_any_shape_are_read(key: str, values: list[dict[str, Any]]) -> None:
    lines = [json.dumps(value).encode() for value in values]
    trace = read(key, [b"\n".join(lines) + b"\n"] if key == "ollama" else [sse(*lines)])
    assert trace.output_tokens is None or trace.output_tokens >= 0
    if trace.server is not None:
        durations = (trace.server.prompt_ms, trace.server.decode_ms, trace.server.load_ms, trace.server.queue_ms)
        assert all(value is None or value > 0 for value in durations)
        json.dumps(trace.server.raw, allow_nan=False)
