"""What a server says may hold our own key, and what is no text at all: neither gets in."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ServerError
from app.engines import find, probe
from app.engines.base import CompletionRequest
from app.engines.http.text import HIDDEN_KEY, TextCleaner
from tests.engines.conftest import Connect
from tests.engines.streams import chunk, sse, usage
from tests.replay import Script

CHAT = "/v1/chat/completions"
KEY = "sk-SECRET/123+x"
ESCAPED = json.dumps(KEY).replace("/", "\\/").replace("S", "\\u0053")


def everything_stored(connect: Connect, script: Script) -> str:
    """All that is stored of one answer, or of the problem in its place."""
    _, client = connect({"/": script}, key=KEY)
    results: list[Any] = []
    asked: list[Callable[[], Any]] = [
        lambda: asdict(find("openai").stream_completion(client, CompletionRequest("hello", 2, "m"))),
        lambda: client.get_json("/v1/models"),
        lambda: client.get("/").message,
        lambda: asdict(probe(client)),
        lambda: find("llama.cpp").health(client),
    ]
    for ask in asked:
        try:
            results.append(ask())
        except ServerError as problem:
            results.append(str(problem))
    return repr(results)


ERRORS = [
    {"error": {"message": f"Incorrect API key provided: {KEY}."}},
    {"error": f"Bearer {KEY}"},
    {"detail": [{"loc": ["header", KEY], "msg": "bad"}]},
    {"error": "x" * 295 + KEY},
    {"error": json.dumps({"error": {"message": f"nested {KEY}"}})},
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_our_key_in_an_error(connect: Connect, error: object, status: int) -> None:
    for body in (json.dumps(error), json.dumps(error).replace(KEY, ESCAPED[1:-1])):
        stored = everything_stored(connect, Script([(0, body.encode())], status, {"content-type": "application/json"}))
        assert "SECRET" not in stored
        assert "sk-" not in stored


@pytest.mark.parametrize(
    "script",
    [
        Script.text(f"no such key {KEY}", 400),
        Script.text("y" * 70 + KEY, 400),
        Script.sse(b"data: " + json.dumps(ERRORS[0]).encode() + b"\n\n"),
        Script.sse(sse(chunk("a"), json.dumps(ERRORS[0]).encode())),
        Script.sse(b"event: error\n" + sse(f"wrong {KEY}".encode())),
        Script.sse(
            sse(
                chunk("a", model=KEY),
                chunk(finish=KEY, timings={"predicted_n": 1, KEY: KEY}, **usage(40, 1)),
                b"[DONE]",
            )
        ),
        Script.json({"data": [{"id": f"model-{KEY}", "meta": {"ftype": KEY}}], "build_info": KEY, "model_path": KEY}),
    ],
)
def test_our_key_anywhere_else(connect: Connect, script: Script) -> None:
    stored = everything_stored(connect, script)
    assert "SECRET" not in stored


def test_a_short_key_is_hidden_as_a_word_only() -> None:
    cleaner = TextCleaner("test")
    assert cleaner.clean(["your key test.", "test-model", "latest", "org/test"]) == [
        f"your key {HIDDEN_KEY}.", "test-model", "latest", "org/test",
    ]  # fmt: skip
    assert "test" not in repr(cleaner)


LONE = "\ud800"


@pytest.mark.parametrize("status", [200, 400, 503])
def test_half_a_character_anywhere(connect: Connect, status: int) -> None:
    bodies = [
        json.dumps({"error": {"message": f"bad {LONE} thing"}}),
        json.dumps({"data": [{"id": f"m{LONE}x", "meta": {"ftype": LONE}}], "build_info": LONE, "model_path": LONE}),
        json.dumps({LONE: LONE, "detail": LONE}),
    ]
    stream = sse(
        chunk(LONE, model=LONE), chunk(finish=LONE, timings={"predicted_n": 1, LONE: LONE}, **usage(40, 1)), b"[DONE]"
    )
    for body in (*map(str.encode, bodies), stream):
        everything_stored(connect, Script([(0, body)], status, {"content-type": "application/json"})).encode()


json_texts = st.recursive(
    st.text(alphabet=st.characters(), max_size=5) | st.sampled_from(["\ud800", "\udfff", "a\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "\udc00"]), inner, max_size=2),
)


@given(json_texts)
def test_every_loaded_text_can_be_written(value: object) -> None:
    loaded = TextCleaner(KEY).load_json(json.dumps(value).encode())
    written = json.dumps(loaded, ensure_ascii=False)
    assert written.encode().decode() == written
    assert "\\u0000" not in written


def test_a_whole_pair_of_halves_is_a_character() -> None:
    assert TextCleaner().load_json(b'"\\ud83e\\udd99"') == "\U0001f999"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'event: error\ndata: {"error": {"message": "no slot"}}\n\n', "no slot"),
        (b'event:error\r\ndata:{"detail": "no slot"}', "no slot"),
        (b'{"errors": [{"message": "one"}, {"message": "two"}]}', "one; two"),
        (b'{"error": 500}', "code 500"),
        (b'{"error": {"type": "server_error"}}', "server_error"),
        (b'{"error": {"message": "took -nan ms", "ms": -nan}}', "took -nan ms"),
        (b'{"error": true}', None),
        (b'{"error": {"message": "data: is missing"}}', "data: is missing"),
    ],
)
def test_messages_in_odd_shapes(body: bytes, message: str | None) -> None:
    assert TextCleaner().message_in_body(body) == message
