"""Playing a suite: waiting for a server, counting prompts, learning from refusals, stopping; over real sockets."""

import json
from itertools import count
from typing import Any

import pytest

from app.core.errors import BadInput, Cancelled, ServerError, ServerErrorKind
from app.core.samples import CacheDefeat
from app.engines.koboldcpp import PERF
from app.measure.job import TimedSample, prepare
from app.measure.play import failure_reason, run_suite
from app.measure.waiting import Phase, Stop, WaitLimits, wait_until_ready
from app.suites import BUILT_IN
from tests.measuring.playing import CHAT, IDLE, MODELS, READY, SUITE, job, played, samples_of
from tests.replay import Answerer, Script, capture, case

LOADING = Script.json({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503)
BUSY = capture("llama.cpp", "get_slots_busy")


def in_order(*scripts: Script) -> Answerer:
    """The answers one after the other; the last one for ever."""
    turn = count()
    return lambda _request: scripts[min(next(turn), len(scripts) - 1)]


def test_warmups_come_first_and_each_request_has_its_own_nonce() -> None:
    with job({CHAT: case("S23"), "/v1/models": MODELS}) as (made, replay):
        samples_ = samples_of(played(made))
    assert [(sample.ordinal, sample.is_warmup) for sample in samples_] == [(0, True), (1, False), (2, False)]
    assert all(sample.cache_defeat is CacheDefeat.NONCE for sample in samples_)
    prompts = [body["messages"][0]["content"] for body in replay.posted()]
    assert len(set(prompts)) == 3
    assert len({len(prompt) for prompt in prompts}) == 1
    assert all(prompt.endswith(SUITE.cases[0].prompt) for prompt in prompts)


def test_what_one_request_learned_the_next_one_knows() -> None:
    with job({CHAT: case("S16"), "/v1/models": MODELS}) as (made, replay):
        samples_ = samples_of(played(made))
    assert len(replay.posted()) == 4  # refused once, then three requests without the refused field
    assert samples_[0].trace.learned_capabilities["refused_fields"] == ["stream_options"]
    assert all("stream_options" not in body for body in replay.posted()[1:])


def test_a_loading_and_then_a_busy_server_is_waited_for() -> None:
    routes = {
        "/health": in_order(LOADING, READY),
        "/slots": in_order(BUSY, IDLE),
        CHAT: capture("llama.cpp", "chat_stream_usage_cache_prompt_false"),
    }
    with job(routes, "llama.cpp") as (made, _):
        steps = played(made)
    phases = [step.sentence for step in steps if isinstance(step, Phase)]
    assert len(phases) == 2
    assert "oading" in phases[0]
    assert "working on 1 other request" in phases[1]
    assert all(sample.flags == () or "concurrent" not in sample.flags for sample in samples_of(steps))


def test_a_server_that_stays_busy_is_measured_and_flagged() -> None:
    routes = {"/health": READY, "/slots": BUSY, CHAT: capture("llama.cpp", "chat_stream_usage_cache_prompt_false")}
    with job(routes, "llama.cpp", limits=WaitLimits(5, 0)) as (made, _):
        samples_ = samples_of(played(made))
    assert all("concurrent" in sample.flags for sample in samples_)
    assert "working for somebody else" in (failure_reason(samples_) or "")


def test_a_server_that_never_gets_ready_is_given_up() -> None:
    with job({"/health": LOADING}, "llama.cpp", limits=WaitLimits(0, 0)) as (made, _):
        with pytest.raises(ServerError) as problem:
            list(wait_until_ready(made.engine, made.client, made.limits, Stop()))
        assert problem.value.trouble is ServerErrorKind.LOADING


@pytest.mark.parametrize("status", [401, 403, 500])
@pytest.mark.parametrize(("engine", "path"), [("ik_llama.cpp", "/props"), ("vllm", "/health"), ("koboldcpp", PERF)])
def test_a_proxy_that_refuses_the_path_of_a_servers_health(engine: str, path: str, status: int) -> None:
    """The list of models says that the server is there; where that is refused too, the refusal counts."""
    refused = Script.json({"error": "no"}, status)
    with job({path: refused, "/v1/models": MODELS}, engine) as (made, _):
        assert list(wait_until_ready(made.engine, made.client, made.limits, Stop())) == []
    with job({path: refused, "/v1/models": refused}, engine) as (made, _), pytest.raises(ServerError):
        list(wait_until_ready(made.engine, made.client, made.limits, Stop()))


def test_a_server_that_says_it_is_loading_only_when_asked_is_waited_for() -> None:
    turn = count()
    stream = case("S23")

    def chat(request: Any) -> Script:
        return LOADING if next(turn) < 2 else stream(request)

    with job({CHAT: chat, "/v1/models": MODELS}) as (made, _):
        steps = played(made)
    assert len([step for step in steps if isinstance(step, Phase)]) == 2
    assert len(samples_of(steps)) == 3


def test_playing_ends_with_the_first_failure_and_keeps_what_was_taken() -> None:
    turn = count()
    good, bad = case("S23"), case("S17")

    def chat(request: Any) -> Script:
        return (good if next(turn) < 2 else bad)(request)

    with job({CHAT: chat, "/v1/models": MODELS}, suite=SUITE.with_counts(10, 0)) as (made, _):
        samples_ = samples_of(played(made))
    assert [sample.trace.status for sample in samples_] == ["ok", "ok", "failed"]
    assert "out of memory" in (failure_reason(samples_) or "")


def test_a_broken_stream_is_no_reason_to_stop() -> None:
    turn = count()
    good, broken = case("S23"), case("S19")

    def chat(request: Any) -> Script:
        return (broken if next(turn) == 1 else good)(request)

    with job({CHAT: chat, "/v1/models": MODELS}) as (made, _):
        samples_ = samples_of(played(made))
    assert [sample.trace.status for sample in samples_] == ["ok", "incomplete", "ok"]
    assert failure_reason(samples_) is None


def test_no_usable_sample_is_a_reason() -> None:
    with job({CHAT: case("S18"), "/v1/models": MODELS}) as (made, _):
        samples_ = samples_of(played(made))
    assert (failure_reason(samples_) or "").startswith("No sample was complete: The stream ended")


def test_a_stop_between_samples() -> None:
    stop = Stop()
    with job({CHAT: case("S23"), "/v1/models": MODELS}) as (made, _):
        steps = run_suite(made, prepare(made), stop)
        assert isinstance(next(steps), TimedSample)
        stop.request()
        with pytest.raises(Cancelled):
            list(steps)


def test_points_that_do_not_fit_are_left_out_with_a_sentence() -> None:
    with job({"/v1/models": MODELS}, suite=BUILT_IN["lengths"], context_tokens=4096) as (made, _):
        prepared = prepare(made)
    assert [case.point.prompt_tokens for case, _ in prepared.cases] == [200, 2000]
    ((left_out, sentence),) = prepared.left_out
    assert left_out.point.prompt_tokens == 8000
    assert "do not fit into the server's context of 4,096 tokens" in sentence


def test_nothing_fits_is_said_before_anything_is_sent() -> None:
    with job({"/v1/models": MODELS}, context_tokens=256) as (made, replay), pytest.raises(BadInput, match="do not fit"):
        prepare(made)
    assert replay.posted() == []


def test_the_servers_own_tokenizer_decides_where_there_is_one() -> None:
    routes = {
        "/apply-template": Script.json({"prompt": "x"}),
        "/tokenize": Script.json({"tokens": list(range(505))}),
    }
    with job(routes, "llama.cpp", context_tokens=512) as (made, replay):
        prepared = prepare(made)
        ((_, prompt_tokens),) = prepared.cases
    assert prompt_tokens == 505
    assert json.dumps(SUITE.cases[0].prompt) in json.dumps(replay.posted()[0])
    with job(routes, "llama.cpp", context_tokens=511) as (made, _), pytest.raises(BadInput, match="505 tokens"):
        prepare(made)
