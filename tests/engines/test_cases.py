"""Answers that broke other tools: fed into the parser with their exact times, and played over a socket."""

import hashlib
from itertools import pairwise
from typing import Any

import pytest

from app.core.samples import TOKEN_KINDS, CacheDefeat, CountSource, Kind, Sample, Status, Trace, Workload
from app.engines.base import CompletionRequest
from app.engines.protocol.chat_engine import ChatEngine
from app.engines.protocol.sse import End, Recording
from app.engines.protocol.trace_builder import read_trace
from app.metrics import flags_of
from app.metrics.decode import read_decode
from app.metrics.prefill import read_prefill
from tests.engines.conftest import Connect
from tests.engines.recorded import chat_engine
from tests.replay import HERE, case, case_rows
from tests.traces import sample

CASES = sorted(path.name.split(".")[0] for path in (HERE / "cases").glob("*.stream.json"))
STATUS = {"ok": Status.OK, "partial": Status.INCOMPLETE, "error": Status.FAILED}
COMPRESSED = {"S21"}
FLAGS = {
    "cached_prefill": "cached", "cold_start": "model_load", "prompt_truncated": "truncated_prompt",
    "short_output": "early_stop", "empty_output": "empty", "buffered": "buffered", "not_streamed": "not_streamed",
}  # fmt: skip
"""Ours for the ideas of the cases."""


def engine_of(name: str) -> ChatEngine:
    return chat_engine(case_rows(name)[1]["protocol"])


def recorded(name: str) -> Trace:
    rows, expected = case_rows(name)
    how = expected["transport"]
    return read_trace(
        Recording(
            rows=[(round(ms * 1e6), data) for ms, data in rows],
            end=End.LOST if how["end"] == "rst" else End.CLOSED,
            t0_ns=0,
            end_ns=round(rows[-1][0] * 1e6),
            content_type=how["headers"]["content-type"],
        ),
        {},
        dialect=engine_of(name).dialect,
    )


def sample_of(name: str) -> Sample:
    trace, expected = recorded(name), case_rows(name)[1]["expect"]
    sent = expected.get("sent_prompt_tokens_estimate", expected["prompt_tokens"] or 20)
    asked = expected.get("requested_max_tokens", expected["completion_tokens"] or expected["token_chunks"] or 1)
    return sample(trace, point=Workload(sent, asked), cache_defeat=CacheDefeat.NONCE)


def check_facts(trace: Trace, expected: dict[str, Any]) -> None:
    assert trace.status is STATUS[expected.get("status", "ok")]
    assert trace.finish_reason == expected["finish_reason"]
    assert trace.prompt_tokens == expected["prompt_tokens"]
    assert trace.cached_tokens == expected.get("cached_tokens")
    assert trace.text_sha256 == hashlib.sha256(expected["text"].encode()).hexdigest()
    assert sum(event.kind in TOKEN_KINDS for event in trace.events) == expected["token_chunks"]
    if expected["completion_tokens"] is None:
        assert trace.count_source in (CountSource.EVENTS, None)
        assert trace.output_tokens == (expected["token_chunks"] or None)
    else:
        assert (trace.output_tokens, trace.count_source) == (expected["completion_tokens"], CountSource.USAGE)
    assert (trace.error is None) == (trace.status is Status.OK)
    if "error" in expected:
        assert expected["error"] in str(trace.error)
    if "server_timings" in expected:
        assert trace.server is not None
        assert trace.server.raw == expected["server_timings"]
        assert trace.server.prompt_tokens == expected["server_timings"]["prompt_n"]
        assert trace.server.decode_ms == expected["server_timings"]["predicted_ms"]
    if "load_ms" in expected:
        assert trace.server is not None
        assert trace.server.load_ms == expected["load_ms"]
    if "processed_prompt_tokens" in expected:
        assert trace.server is not None
        assert trace.server.prompt_tokens == expected["processed_prompt_tokens"]


@pytest.mark.parametrize("name", [name for name in CASES if name not in COMPRESSED])
def test_recorded_case_has_its_exact_times(name: str) -> None:
    expected = case_rows(name)[1]["expect"]
    trace = recorded(name)
    check_facts(trace, expected)
    tokens = [event for event in trace.events if event.kind in TOKEN_KINDS]
    answers = [event for event in tokens if event.kind is Kind.ANSWER]
    assert (tokens[0].at_ms if tokens else None) == expected["ttft_ms"]
    assert (answers[0].at_ms if answers else None) == expected["ttfo_ms"]
    assert (tokens[-1].at_ms if tokens else None) == expected.get("last_token_ms")
    if expected.get("itl_ms"):
        gaps = [b.at_ms - a.at_ms for a, b in pairwise(tokens)]
        assert gaps == expected["itl_ms"]


@pytest.mark.parametrize("name", CASES)
def test_played_case(name: str, connect: Connect) -> None:
    replay, client = connect({f"/{name}": case(name)}, f"/{name}", pace=0.02)
    expected = case_rows(name)[1]["expect"]
    trace = engine_of(name).stream_completion(
        client, CompletionRequest("hello", expected.get("requested_max_tokens", 32), "syn-1")
    )
    check_facts(trace, expected)
    assert len(replay.posted()) == expected.get("requests_needed", 1)
    assert trace.not_streamed == ("not_streamed" in expected.get("flags_any", ()))
    assert trace.events == () or trace.events[0].at_ms > 0
    assert [event.at_ms for event in trace.events] == sorted(event.at_ms for event in trace.events)


@pytest.mark.parametrize("name", [name for name in CASES if name not in COMPRESSED])
def test_what_is_computed_from_a_case(name: str) -> None:
    expected = case_rows(name)[1]["expect"]
    if expected["decode_tps_client"] != "not_checked":
        (client,) = [reading.value for reading in read_decode(sample_of(name)) if reading.source == "client"]
        expected_rate = expected.get("decode_tps_if_first_event_size_known", expected["decode_tps_client"])
        assert client == (None if expected_rate is None else pytest.approx(expected_rate, rel=1e-4))
    server = {reading.source: reading for reading in read_prefill(sample_of(name))}.get("server")
    if "prefill_tps_server" in expected:
        assert server is not None
        assert server.value == pytest.approx(expected["prefill_tps_server"], rel=1e-4)
    if "prefill_tps" in expected:
        assert server is not None
        assert (server.value, server.null_reason) == (expected["prefill_tps"], "cached")
    if "decode_tps_server" in expected:
        assert [reading.value for reading in read_decode(sample_of(name)) if reading.source == "server"] == [None]


@pytest.mark.parametrize("name", [name for name in CASES if name not in COMPRESSED])
def test_flags_of_a_case(name: str) -> None:
    expected = {FLAGS[idea] for idea in case_rows(name)[1]["expect"].get("flags_any") or ()}
    assert set(flags_of(sample_of(name))) & set(FLAGS.values()) == expected


def test_usage_on_every_chunk_tells_the_tokens_so_far() -> None:
    tokens = [event.tokens for event in recorded("S15").events if event.kind is Kind.ANSWER]
    assert tokens == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_buffered_answer_arrives_in_one_piece() -> None:
    trace = recorded("S20")
    assert {event.at_ms for event in trace.events} == {2000}


def test_comments_are_recorded_but_are_no_tokens() -> None:
    kinds = [event.kind for event in recorded("S12").events]
    assert kinds[:4] == [Kind.ROLE, Kind.COMMENT, Kind.COMMENT, Kind.COMMENT]
    assert kinds.count(Kind.COMMENT) == 4
