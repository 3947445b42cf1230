"""Text in a stream that is not the model's never starts a clock; a stream without names is read as it is."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.samples import Kind, Status, Trace, Workload
from app.engines.base import CompletionRequest
from app.engines.openai import OpenAI
from app.engines.protocol.sse import End, Frame, Recording
from app.engines.protocol.trace_builder import Dialect, is_token, read_trace
from app.metrics import headline_metrics
from tests.engines.conftest import Connect
from tests.engines.recorded import read as read_script
from tests.engines.streams import sse
from tests.replay import Script, capture
from tests.traces import sample

NAMED = (
    ("llama.cpp", "llama.cpp", "chat_stream_usage_cache_prompt_false"),
    ("llama.cpp", "llama.cpp", "reasoning_chat_stream"),
    ("vllm", "vllm", "chat-stream-continuous"),
    ("vllm", "vllm", "chat-stream-usage"),
    ("transformers", "transformers-serve", "chat-stream-1"),
    ("ollama", "ollama", "chat-stream"),
)
LOADED_MS = 1500.0


def words(text: str, field: str = "reasoning_content", **names: str) -> bytes:
    """A chunk as llama-swap's Go code marshals it while it loads a model: no names, no index, no finish reason."""
    return sse(json.dumps({**names, "choices": [{"delta": {field: text}}]}, separators=(",", ":")).encode())


LOADING = tuple(map(words, ("━━━━━", "\n", "llama", "-swap", " load", "ing", "\n", ".", ".", "\n", "Done!", "\n", " ")))


def behind(chatter: Sequence[bytes], script: Script) -> Script:
    """The script's stream, which begins after the chatter: words 10 ms apart from 0.7 ms on."""
    rows = [(0.7 + 10 * place, piece) for place, piece in enumerate(chatter)]
    return Script([*rows, *((LOADED_MS + ms, data) for ms, data in script.rows)], headers=script.headers)


def without_comments(trace: Trace, shift_ms: float = 0.0) -> list[tuple[float, Kind, int, int | None]]:
    return [
        (round(event.at_ms - shift_ms, 3), event.kind, event.size_bytes, event.tokens)
        for event in trace.events
        if event.kind is not Kind.COMMENT
    ]


@pytest.mark.parametrize(("engine", "folder", "name"), NAMED)
@pytest.mark.parametrize("field", ["reasoning_content", "content", "reasoning"])
def test_a_gateways_words_before_the_answer_start_no_clock(engine: str, folder: str, name: str, field: str) -> None:
    script = capture(folder, name)
    plain = read_script(engine, script)
    shown = read_script(engine, behind([words("loading", field), words(".", field)], script))
    assert without_comments(shown, LOADED_MS) == without_comments(plain)
    assert (shown.text_sha256, shown.output_tokens) == (plain.text_sha256, plain.output_tokens)
    measured, alone = (headline_metrics(sample(trace, point=Workload(30, 16))) for trace in (shown, plain))
    assert measured["ttft_ms"] == pytest.approx((alone["ttft_ms"] or 0) + LOADED_MS)
    assert measured["decode_tokens_per_s"] == pytest.approx(alone["decode_tokens_per_s"])


@given(st.data())
def test_words_anywhere_among_an_answer_with_names_change_nothing(data: st.DataObject) -> None:
    engine, folder, name = data.draw(st.sampled_from(NAMED))
    script = capture(folder, name)
    whole = b"".join(piece for _, piece in script.rows)
    separator = b"\n" if engine == "ollama" else b"\n\n"
    pieces = [piece + separator for piece in whole.split(separator) if piece]
    plain = read_script(engine, Script([(float(ms), piece) for ms, piece in enumerate(pieces)], headers=script.headers))
    rows: list[tuple[float, bytes]] = []
    for ms, piece in enumerate(pieces):
        if data.draw(st.integers(0, 4)) == 0:
            field = data.draw(st.sampled_from(["content", "reasoning_content"]))
            rows.append((float(ms), words(data.draw(st.text(min_size=1, max_size=5)), field)))
        rows.append((float(ms), piece))
    shown = read_script(engine, Script(rows, headers=script.headers))
    assert without_comments(shown) == without_comments(plain)
    assert (shown.status, shown.text_sha256, shown.model) == (plain.status, plain.text_sha256, plain.model)


def chunk(text: str, finish: str | None = None, **names: str) -> bytes:
    return sse(
        json.dumps({**names, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}).encode()
    )


def role(**names: str) -> bytes:
    return sse(
        json.dumps({**names, "choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]}).encode()
    )


OWN = {"id": "c1", "model": "m"}
END = chunk("", "stop", **OWN)
A, B = chunk("a", **OWN), chunk("b", **OWN)
AD = chunk(".", id="g", model="gateway")


@given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=12))
def test_a_stream_without_names_is_read_as_it_is(texts: list[str]) -> None:
    trace = _read(*map(chunk, texts), chunk("", "stop", **OWN))
    assert [event.kind for event in trace.events] == [Kind.ANSWER] * len(texts) + [Kind.FINISH]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        # names in the first chunk only, or in the role chunk only
        ([chunk("a", **OWN), chunk("b"), chunk("c"), chunk("", "stop")], "aaaf"),
        ([role(**OWN), chunk("a"), chunk("b"), chunk("", "stop", **OWN)], "raaf"),
        # an answer without text behind a gateway's words
        ([words("."), words("."), role(**OWN), chunk("", "stop", **OWN)], "##rf"),
        # words between the role chunk and the text, as a gateway before a server that sends its role at once
        ([role(**OWN), words("."), words("."), chunk("a", **OWN), chunk("b", "stop", **OWN)], "r##aa"),
        # names of the gateway's own
        ([chunk(".", id="g", model="gateway"), chunk("a", **OWN), chunk("b", **OWN), chunk("", "stop", **OWN)], "#aaf"),
        # a gateway that calls itself by the model that was asked for, or speaks behind the answer
        ([chunk(".", id="g", model="m"), role(**OWN), A, END], "#raf"),
        ([role(**OWN), A, B, AD, END], "raa#f"),
        ([A, chunk("b", "stop", **OWN), AD, AD], "aa##"),
        ([A, END, chunk(".", "stop", id="g", model="g")], "af#"),
        # each chunk has an id of its own
        ([role(id="1", model="m"), *(chunk("a", id=str(n), model="m") for n in (2, 3)), END], "raaf"),
        # one of the two names is enough, and each chunk may have an id of its own
        ([chunk("a", model="m"), chunk("b", id="c2", model="m"), chunk("", "stop", **OWN)], "aaf"),
        ([chunk("a", id="1"), chunk("b", id="2"), chunk("c", id="3"), chunk("", "stop", id="4")], "aaaf"),
        # a model that is called by another name in the first chunk
        ([chunk("a", id="c1", model="alias"), chunk("b", **OWN), chunk("", "stop", **OWN)], "aaf"),
        ([words("."), chunk("a", "stop", **OWN)], "#a"),
        ([chunk("a", id="", model=""), chunk("b", id="", model=""), chunk("", "stop", id="", model="")], "aaf"),
    ],
)  # fmt: skip
def test_whose_text_it_is(pieces: list[bytes], expected: str) -> None:
    letters = {Kind.ANSWER: "a", Kind.REASONING: "a", Kind.COMMENT: "#", Kind.ROLE: "r", Kind.FINISH: "f"}
    assert "".join(letters[event.kind] for event in _read(*pieces).events) == expected


def test_words_behind_an_answer_name_no_model() -> None:
    trace = _read(chunk("a", **OWN), chunk("", "stop", **OWN), chunk("bye", id="g", model="gateway"))
    assert (trace.model, trace.output_tokens) == ("m", 1)


def test_words_without_an_answer_behind_them() -> None:
    named = Dialect(is_named=True)
    refused = _read(*LOADING, b'{"error": {"message": "cannot start"}}\n', dialect=named)
    assert (refused.status, refused.output_tokens) == (Status.FAILED, None)
    assert "before the first token: cannot start" in str(refused.error)
    data = LOADING[0].removeprefix(b"data: ").strip()
    assert (is_token(Frame(0, data)), is_token(Frame(0, data), named)) == (True, False)
    own = chunk("a", **OWN).removeprefix(b"data: ").strip()
    assert is_token(Frame(0, own), named)


def _read(*pieces: bytes, dialect: Dialect | None = None) -> Trace:
    rows = [((place + 1) * 1_000_000, piece) for place, piece in enumerate(pieces)]
    how: dict[str, Any] = {} if dialect is None else {"dialect": dialect}
    return read_trace(Recording(rows, End.CLOSED, 0, rows[-1][0], content_type="text/event-stream"), {}, **how)


class _Gateway(OpenAI):
    dialect = Dialect(is_named=True)


def test_a_pause_after_the_words_is_still_the_wait_for_the_first_token(connect: Connect) -> None:
    """The real prompt is processed after them, which may take as long as before any token."""
    answer = [chunk("a", **OWN), chunk("b", "stop", **OWN), sse(b"[DONE]")]
    rows = [(0.7, LOADING[0]), (1.0, LOADING[1]), *((600.0 + place, piece) for place, piece in enumerate(answer))]
    stream = Script(rows, headers={"content-type": "text/event-stream"})
    _, client = connect({"/v1/chat/completions": stream}, idle_timeout_s=0.2, first_byte_timeout_s=20)
    trace = _Gateway().stream_completion(client, CompletionRequest("hello", 2, None))
    assert (trace.status, trace.error, len(trace.token_events)) == (Status.OK, None, 2)
