"""Asking an OpenAI-compatible server: what it refuses, how its stream breaks, and what a probe finds."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.core.errors import ServerError, ServerErrorKind
from app.core.samples import CountSource, Status, Trace
from app.core.settings import Settings
from app.engines import find, probe
from app.engines.base import CompletionRequest
from app.engines.http import ServerClient
from app.engines.protocol.sse import Frame
from app.engines.protocol.trace_builder import Dialect, is_token
from tests.engines.conftest import Connect
from tests.engines.streams import GOOD, GOOD_STREAM, chunk, sse, usage
from tests.replay import Answerer, Replay, Request, Script, capture

CHAT = "/v1/chat/completions"


def play(client: ServerClient, **ask: Any) -> Trace:
    return find("openai").stream_completion(
        client, CompletionRequest(**{"prompt": "hello", "output_tokens": 8, "model": "m", **ask})
    )


def refuses(*fields: str, status: int = 400, error: Callable[[str], Any]) -> Answerer:
    """A server that knows none of `fields`."""

    def answer(request: Request) -> Script:
        for field in fields:
            if field in request.json():
                return Script.json(error(field), status)
        return GOOD_STREAM

    return answer


def test_what_is_sent(connect: Connect) -> None:
    replay, client = connect({CHAT: GOOD_STREAM})
    trace = play(client, nonce="0123abcd")
    assert (trace.status, trace.learned_capabilities) == (Status.OK, {})
    (body,) = replay.posted()
    assert body["messages"] == [{"role": "user", "content": "0123abcd\nhello"}]
    assert (body["model"], body["stream"], body["max_tokens"]) == ("m", True, 8)
    assert body["stream_options"] == {"include_usage": True}
    assert not {"max_completion_tokens", "ignore_eos", "min_tokens", "cache_prompt"} & body.keys()


def test_reusing_the_cache_needs_the_very_same_prompt(connect: Connect) -> None:
    replay, client = connect({CHAT: GOOD_STREAM})
    play(client, nonce="0123abcd", reuse_cache=True, model=None)
    assert replay.posted()[0]["messages"][0]["content"] == "hello"
    assert "model" not in replay.posted()[0]


def test_fixed_length_fields_only_where_they_are_known(connect: Connect) -> None:
    replay, client = connect({CHAT: GOOD_STREAM})
    play(client, capabilities={"ignore_eos": True, "min_tokens": True})
    assert (replay.posted()[0]["ignore_eos"], replay.posted()[0]["min_tokens"]) == (True, 8)


SHAPES: list[Callable[[str], Any]] = [
    lambda field: {
        "detail": [{"type": "extra_forbidden", "loc": ["body", field], "msg": "Extra", "input": {"seed": 1}}]
    },
    lambda field: {"error": {"message": "Unsupported parameter", "param": field}},
    lambda field: {"error": {"message": f"Unknown field '{field}'. Known: temperature, seed, max_tokens"}},
    lambda field: {"error": f"{field} is not permitted"},
    lambda field: {"error": json.dumps({"error": {"message": f"unexpected `{field}`"}})},
    lambda field: {"detail": f"Unrecognized request argument supplied: {field}"},
    lambda field: {"message": f"{field}: extra inputs are not permitted"},
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("field", ["stream_options", "seed", "temperature"])
@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_field_is_left_out_and_remembered(
    connect: Connect, shape: Callable[[str], Any], field: str, status: int
) -> None:
    replay, client = connect({CHAT: refuses(field, status=status, error=shape)})
    trace = play(client)
    assert trace.status is Status.OK
    assert trace.learned_capabilities == {"refused_fields": [field]}
    first, second = replay.posted()
    assert first.keys() - second.keys() == {field}
    play(client, capabilities=trace.learned_capabilities)
    assert len(replay.posted()) == 3


OPTIONAL = ["max_tokens", "stream_options", "temperature", "seed", "ignore_eos", "min_tokens"]


@pytest.mark.parametrize("shape", [*SHAPES, lambda field: {"error": f"TypeError: unexpected keyword '{field}'"}])
@pytest.mark.parametrize("status", [400, 422, 500])
def test_all_fields_refused_one_after_the_other(connect: Connect, shape: Callable[[str], Any], status: int) -> None:
    replay, client = connect({CHAT: refuses(*OPTIONAL, status=status, error=shape)})
    trace = play(client, capabilities={"ignore_eos": True, "min_tokens": True})
    assert trace.status is Status.OK
    assert trace.learned_capabilities == {"refused_fields": sorted(OPTIONAL)}
    assert len(replay.posted()) == len(OPTIONAL) + 1
    assert replay.posted()[-1].keys() == {"model", "messages", "stream", "max_completion_tokens"}
    play(client, capabilities={"ignore_eos": True, "min_tokens": True, **trace.learned_capabilities})
    assert len(replay.posted()) == len(OPTIONAL) + 2


def test_a_value_that_is_refused_is_left_out(connect: Connect) -> None:
    def answer(request: Request) -> Script:
        if request.json().get("temperature") == 0:
            words = "Input validation error: `temperature` must be strictly positive"
            return Script.json({"error": words, "error_type": "validation"}, 422)
        return GOOD_STREAM

    replay, client = connect({CHAT: answer})
    assert play(client).learned_capabilities == {"refused_fields": ["temperature"]}
    assert len(replay.posted()) == 2


@pytest.mark.parametrize(
    "refusal",
    [
        Script.json({"error": {"message": "Unknown field 'top_k'", "param": "top_k"}}, 400),
        Script.json({"detail": [{"loc": ["body", "tools"], "msg": "Extra inputs are not permitted"}]}, 422),
        Script.text("Bad Request", 400),
        Script.json({"error": {"message": "seed, temperature, stream_options: all unknown"}}, 400),
        Script.json({"error": {"message": "unexpected keyword argument 'seed'"}}, 500),
    ],
)
def test_a_server_that_refuses_whatever_is_left_out_is_asked_only_so_often(connect: Connect, refusal: Script) -> None:
    replay, client = connect({CHAT: refusal})
    trace = play(client)
    assert trace.status is Status.FAILED
    assert trace.learned_capabilities == {}
    assert len(replay.posted()) <= 1 + len(OPTIONAL)
    assert all("max_tokens" in body for body in replay.posted())


def test_plain_text_refusals_work_too(connect: Connect) -> None:
    def answer(request: Request) -> Script:
        return Script.text("bad request: stream_options", 400) if "stream_options" in request.json() else GOOD_STREAM

    _, client = connect({CHAT: answer})
    assert play(client).learned_capabilities == {"refused_fields": ["stream_options"]}


@pytest.mark.parametrize("refused", [["max_tokens"], ["max_tokens", "stream_options", "seed"]])
def test_the_limit_has_two_names(connect: Connect, refused: list[str]) -> None:
    replay, client = connect({CHAT: refuses(*refused, error=SHAPES[2])})
    trace = play(client)
    assert trace.learned_capabilities == {"refused_fields": sorted(refused)}
    assert replay.posted()[-1]["max_completion_tokens"] == 8
    assert all(len({"max_tokens", "max_completion_tokens"} & body.keys()) == 1 for body in replay.posted())


def test_the_limit_under_neither_name(connect: Connect) -> None:
    replay, client = connect({CHAT: refuses("max_tokens", "max_completion_tokens", error=SHAPES[1])})
    trace = play(client)
    assert trace.status is Status.FAILED
    assert "Unsupported parameter" in str(trace.error)
    assert len(replay.posted()) == 2


def test_a_server_that_went_back_to_max_tokens(connect: Connect) -> None:
    replay, client = connect({CHAT: refuses("max_completion_tokens", error=SHAPES[1])})
    trace = play(client, capabilities={"refused_fields": ["max_tokens", "seed"]})
    assert (trace.status, trace.learned_capabilities) == (
        Status.OK,
        {"refused_fields": ["max_completion_tokens", "seed"]},
    )
    assert [body.keys() & {"max_tokens", "max_completion_tokens"} for body in replay.posted()] == [
        {"max_completion_tokens"},
        {"max_tokens"},
    ]


@pytest.mark.parametrize(
    ("script", "trouble", "words"),
    [
        (Script.json({"error": "Unauthorized"}, 401), ServerErrorKind.NEEDS_KEY, "wants an API key"),
        (capture("vllm", "err-noauth"), ServerErrorKind.NEEDS_KEY, "wants an API key"),
        (capture("vllm", "err-unknown-model"), ServerErrorKind.UNKNOWN_MODEL, "`nope` does not exist"),
        (
            Script.json({"error": {"message": "model 'm' not found"}}, 404),
            ServerErrorKind.UNKNOWN_MODEL,
            "model 'm' not found",
        ),
        (Script.json({"error": {"message": "x", "code": "model_not_found"}}, 400), ServerErrorKind.UNKNOWN_MODEL, "x"),
        (capture("llama.cpp", "chat_stream_prompt_too_long"), ServerErrorKind.PROMPT_TOO_LONG, "6024 tokens"),
        (capture("vllm", "err-maxtokens-too-big"), ServerErrorKind.PROMPT_TOO_LONG, "max_model_len"),
        (
            Script.json({"error": '{"error": "the prompt is too long"}'}, 400),
            ServerErrorKind.PROMPT_TOO_LONG,
            "too long",
        ),
        (Script.text("", 413), ServerErrorKind.PROMPT_TOO_LONG, "too long"),
        (Script.json({"error": {"message": "Loading model"}}, 503), ServerErrorKind.LOADING, "loading"),
    ],
)
def test_refusals_that_every_request_would_meet(
    connect: Connect, script: Script, trouble: ServerErrorKind, words: str
) -> None:
    _, client = connect({CHAT: script})
    with pytest.raises(ServerError) as caught:
        play(client)
    assert caught.value.trouble is trouble
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (Script.json({"error": {"message": "boom"}}, 500), "HTTP 500: boom"),
        (Script.text("<html>secret", 502), "An HTML page"),
        (Script.json({"detail": "Not Found"}, 404), "has no /v1/chat/completions"),
        (Script.json({"error": "slow down"}, 429), "busy"),
        (Script(status=307, headers={"location": "http://169.254.169.254/"}), "redirects"),
        (Script.text("<html>secret", content_type="text/html"), "An HTML page"),
        (Script(status=204, framing="close"), "HTTP 204"),
        (Script(framing="length"), "empty answer"),
        (Script(end="mute"), "did not answer within"),
        (Script.sse(end="hang"), "No token came"),
        (Script.sse(b": ping\n\n", sse(chunk()), end="hang"), "No token came"),
        (Script.sse(*[b": ping\n\n"] * 30, step_ms=50), "No token came"),
        (Script.sse(end="rst"), "lost before the first token"),
    ],
)
def test_failures_before_any_token(connect: Connect, script: Script, words: str) -> None:
    _, client = connect({CHAT: script}, first_byte_timeout_s=0.4)
    trace = play(client)
    assert trace.status is Status.FAILED
    assert words in str(trace.error)
    assert "secret" not in str(trace.error)
    assert trace.output_tokens is None


def test_nothing_listens() -> None:
    with ServerClient("http://127.0.0.1:1", None, Settings()) as client:
        trace = play(client)
    assert (trace.status, trace.text_sha256) == (Status.FAILED, None)
    assert "refused" in str(trace.error)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (Script.sse(*GOOD[:2], end="rst"), "lost after 2 token events"),
        (Script.sse(*GOOD[:2], b"data: {", end="rst", framing="close"), "lost after 2 token events"),
        (Script.sse(*GOOD[:2], end="hang"), "stood still"),
        (Script.sse(*GOOD[:2], *[b": ping\n\n"] * 30, step_ms=50), "stood still"),
        (Script.sse(*GOOD[:2], framing="close", http="1.0"), "without a finish reason"),
    ],
)
def test_breaks_after_tokens_keep_them(connect: Connect, script: Script, words: str) -> None:
    _, client = connect({CHAT: script}, idle_timeout_s=0.4)
    trace = play(client)
    assert trace.status is Status.INCOMPLETE
    assert words in str(trace.error)
    assert (trace.output_tokens, trace.count_source) == (2, CountSource.EVENTS)


@pytest.mark.parametrize(
    "script",
    [
        GOOD_STREAM,
        Script.sse(*GOOD, http="1.0", framing="close"),
        Script.sse(*GOOD, framing="close"),
        Script.sse(*GOOD, framing="length"),
        Script.sse(*GOOD, end="hang"),
        Script.sse(*GOOD, end="rst"),
        Script.sse(*(bytes([byte]) for byte in b"".join(GOOD)), step_ms=0.05, end="hang"),
        Script.sse(b"".join(GOOD)[:-7], b"".join(GOOD)[-7:], end="hang"),
        Script.sse(b"".join(GOOD).replace(b"\n", b"\r\n"), end="hang"),
        Script.sse(*GOOD, *[b": ping\n\n"] * 100, step_ms=20),
    ],
    ids=["chunked", "http 1.0", "close", "length", "hang", "reset", "bytes", "cut in done", "crlf", "pings after"],
)
def test_a_good_answer_in_any_wrapping(connect: Connect, script: Script) -> None:
    _, client = connect({CHAT: script}, first_byte_timeout_s=20.0, idle_timeout_s=20.0)
    trace = play(client)
    assert (trace.status, trace.error, trace.output_tokens) == (Status.OK, None, 2)
    assert trace.end_ms is not None
    assert trace.end_ms < 10_000


def test_a_huge_line_is_read_and_an_endless_stream_is_stopped(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = chunk("x" * 300_000)
    _, client = connect({"/big": Script.sse(sse(big), *GOOD[2:]), "/endless": Script.sse(*[sse(big)] * 40, step_ms=0)})
    with ServerClient(client.base_url + "/big", None, client.settings) as stream_client:
        assert play(stream_client).status is Status.OK
    with ServerClient(client.base_url + "/endless", None, client.settings) as stream_client:
        trace = play(stream_client)
    assert trace.status is Status.INCOMPLETE
    assert "far more than was asked for" in str(trace.error)


def test_the_next_request_waits_as_long_as_the_first(connect: Connect) -> None:
    slow = Script.sse(*GOOD, headers_ms=600)
    _, client = connect({CHAT: slow}, first_byte_timeout_s=20.0, idle_timeout_s=0.2)
    assert [play(client).status for _ in range(2)] == [Status.OK, Status.OK]


def test_closing_the_client_ends_a_stream_that_is_being_read(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    _, client = connect({CHAT: Script.sse(*GOOD[:1], end="hang")}, idle_timeout_s=60.0)
    has_token = threading.Event()

    def noticed(frame: Frame, dialect: Dialect) -> bool:
        has_token.set()
        return is_token(frame, dialect)

    monkeypatch.setattr("app.engines.protocol.chat_engine.is_token", noticed)
    with ThreadPoolExecutor(1) as threads:
        playing = threads.submit(play, client)
        assert has_token.wait(30)
        client.close()
        trace = playing.result(timeout=30)
    assert (trace.status, trace.output_tokens) == (Status.INCOMPLETE, 1)


def test_an_error_body_that_never_ends(connect: Connect) -> None:
    script = Script([(0, b"{")], 500, {"content-type": "application/json"}, end="hang")
    _, client = connect({CHAT: script}, probe_timeout_s=0.2, first_byte_timeout_s=60.0)
    trace = play(client)
    assert trace.status is Status.FAILED
    assert "did not come to its end" in str(trace.error)


class Interrupted(BaseException):
    pass


def test_what_interrupts_the_reading_passes(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    # without a last line, so that no piece is read without a look for tokens
    _, client = connect({CHAT: Script.sse(*GOOD[:2], sse(chunk(finish="stop", **usage(5, 2))))})

    def interrupt(_: object, dialect: Dialect) -> bool:
        raise Interrupted

    monkeypatch.setattr("app.engines.protocol.chat_engine.is_token", interrupt)
    with pytest.raises(Interrupted):
        play(client)
    monkeypatch.undo()
    assert play(client).status is Status.OK


def test_a_real_vllm_stream(connect: Connect) -> None:
    for name, tokens in (("chat-stream-usage", 24), ("chat-stream-continuous", 16)):
        _, client = connect({CHAT: capture("vllm", name)}, pace=0.01)
        trace = play(client)
        assert (trace.status, trace.finish_reason, trace.count_source) == (Status.OK, "length", CountSource.USAGE)
        assert trace.output_tokens == tokens


def test_a_real_transformers_stream_has_no_last_line(connect: Connect) -> None:
    _, client = connect({CHAT: capture("transformers-serve", "chat-stream-1")}, pace=0.01)
    trace = play(client)
    assert (trace.status, trace.prompt_tokens, trace.output_tokens) == (Status.OK, 20, 16)


def connect_to(connect: Connect, routes: dict[str, Script | Answerer], **how: Any) -> tuple[Replay, ServerClient]:
    return connect(routes, probe_timeout_s=1.0, **how)


def test_probe_of_a_generic_server(connect: Connect) -> None:
    models = {"data": [{"id": "/models/tiny-Q8_0.gguf", "max_model_len": 2048}, {"id": "other"}, {"no": "id"}]}
    _, client = connect_to(connect, {"/v1/models": Script.json(models)})
    facts = probe(client)
    # what one of them may use says nothing of the other
    assert (facts.engine, facts.context_tokens, facts.settings) == ("openai", None, {})
    assert [(m.id, m.name, m.quantization, m.context_tokens) for m in facts.models] == [
        ("/models/tiny-Q8_0.gguf", "tiny", "Q8_0", 2048),
        ("other", "other", None, None),
    ]


def test_probe_of_a_server_without_models(connect: Connect) -> None:
    _, client = connect_to(connect, {"/v1/models": Script.json({"object": "list", "data": []})})
    facts = probe(client)
    assert (facts.models, len(facts.notes)) == ((), 1)


def test_probe_of_a_server_that_cannot_list_its_models(connect: Connect) -> None:
    missing = Script.json({"detail": [{"loc": ["body", "messages"], "msg": "Field required"}]}, 422)
    _, client = connect_to(connect, {"/v1/models": capture("transformers-serve", "models"), CHAT: missing})
    assert probe(client).engine == "openai"


@pytest.mark.parametrize(
    ("routes", "trouble", "words"),
    [
        ({}, ServerErrorKind.NOT_LLM, "has no /v1/models"),
        ({"/": Script.text("<html>hi", content_type="text/html")}, ServerErrorKind.NOT_LLM, "An HTML page"),
        ({"/": Script.json({"hello": "world"})}, ServerErrorKind.NOT_LLM, "no LLM server"),
        ({"/": Script.json({"error": "no"}, 401)}, ServerErrorKind.NEEDS_KEY, "wants an API key"),
        ({"/": Script.json({"error": "loading model"}, 503)}, ServerErrorKind.LOADING, "loading"),
        ({"/": Script(status=302, headers={"location": "http://h/"})}, ServerErrorKind.NOT_LLM, "redirects"),
        ({"/": Script(end="mute")}, ServerErrorKind.TIMEOUT, "did not answer"),
        ({"/": Script.text("oops", 500)}, ServerErrorKind.SERVER_ERROR, "HTTP 500"),
    ],
)
def test_probe_says_why_it_failed(
    connect: Connect, routes: dict[str, Script | Answerer], trouble: ServerErrorKind, words: str
) -> None:
    _, client = connect_to(connect, routes)
    with pytest.raises(ServerError) as caught:
        probe(client)
    assert caught.value.trouble is trouble
    assert words in str(caught.value)


def test_a_server_that_lets_odd_questions_hang_is_asked_the_usual_one(connect: Connect) -> None:
    models = Script.json({"data": [{"id": "m"}]})
    replay, client = connect({"/": Script(end="mute"), "/v1/models": models}, probe_timeout_s=0.3)
    assert [model.id for model in probe(client).models] == ["m"]
    assert [request.path for request in replay.requests] == ["/v1/models", "/health/liveliness"]


@pytest.mark.parametrize(
    ("script", "ready"),
    [
        (Script.json({"data": []}), True),
        (Script.json({"error": "nope"}, 500), True),
        (Script.json({"error": "Loading model"}, 503), False),
        (Script.text("", 503), False),
    ],
)
def test_health(connect: Connect, script: Script, ready: bool) -> None:
    _, client = connect_to(connect, {"/v1/models": script})
    health = find("openai").health(client)
    assert health.ready is ready
    assert health.detail.endswith(".")


def test_health_without_a_key(connect: Connect) -> None:
    _, client = connect_to(connect, {"/v1/models": Script.json({}, 401)})
    with pytest.raises(ServerError):
        find("openai").health(client)
