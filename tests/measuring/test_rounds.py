"""Several streams at once, prompts left in the cache on purpose, and the step that is being taken."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from app.core.errors import Cancelled, ServerError, ServerErrorKind
from app.core.samples import CacheDefeat, Workload
from app.measure.job import TimedSample, prepare, step_label
from app.measure.play import failure_reason, run_suite
from app.measure.waiting import Phase, Stop
from app.metrics import compute_metrics, is_usable
from app.suites import BUILT_IN, Case, Suite
from tests.measuring.playing import CHAT, IDLE, MODELS, READY, job, played, samples_of
from tests.replay import Request, Script, capture, case

WORD = b'data: {"choices": [{"index": 0, "delta": {"content": " word"}, "finish_reason": null}]}\n\n'
END = (
    b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}], '
    b'"usage": {"prompt_tokens": 100, "completion_tokens": 5}}\n\ndata: [DONE]\n\n'
)
STREAM = Script.sse(*[WORD] * 5, END, step_ms=500)


def suite(*concurrencies: int, repetitions: int = 1, warmups: int = 0, output_tokens: int = 5) -> Suite:
    cases = tuple(Case(Workload(100, output_tokens, concurrency), "word " * 100) for concurrency in concurrencies)
    return Suite("mine", "Mine", "", cases, repetitions, warmups)


def test_the_streams_of_a_round_run_at_the_same_time() -> None:
    together = threading.Barrier(4)

    def chat(request: Request) -> Script:
        together.wait(10)  # a server that answers nobody before all four have asked
        return STREAM

    with job({CHAT: chat, "/v1/models": MODELS}, suite=suite(4, repetitions=2, warmups=1)) as (made, replay):
        samples_ = samples_of(played(made))
    assert [sample.ordinal for sample in samples_] == list(range(12))
    assert [(sample.round, sample.stream) for sample in samples_] == [(r, s) for r in range(3) for s in range(4)]
    assert [sample.is_warmup for sample in samples_] == [True] * 4 + [False] * 8
    assert len({body["messages"][0]["content"] for body in replay.posted()}) == 12  # a nonce of its own each
    for number in range(3):
        assert min(sample.sent_at_ms for sample in samples_ if sample.round == number) == 0
    of_all = {metric.metric: metric for metric in compute_metrics(samples_)}
    assert of_all["output_tokens_per_s"].samples == 2  # rounds
    assert of_all["ttft_ms"].samples == 8
    together_per_s, alone_per_s = of_all["output_tokens_per_s"].value, of_all["decode_tokens_per_s"].value
    assert together_per_s is not None
    assert alone_per_s is not None
    assert together_per_s > 2 * alone_per_s


def test_one_stream_that_fails_ends_the_run_and_the_others_are_kept() -> None:
    turns = iter(["S23", "S17", "S23"])
    lock = threading.Lock()

    def chat(request: Request) -> Script:
        with lock:
            name = next(turns)
        return case(name)(request)

    with job({CHAT: chat, "/v1/models": MODELS}, suite=suite(3, repetitions=5, output_tokens=7)) as (made, _):
        samples_ = samples_of(played(made))
    assert sorted(sample.trace.status for sample in samples_) == ["failed", "ok", "ok"]
    assert "out of memory" in (failure_reason(samples_) or "")


def test_a_server_too_busy_to_say_how_it_is_still_answers() -> None:
    """What is asked only to connect loses no stream of the round."""
    request_count, lock = [0], threading.Lock()

    def models(_: Request) -> Script:
        with lock:
            request_count[0] += 1
        return MODELS if request_count[0] == 1 else Script(status=502)

    with job({CHAT: STREAM, "/v1/models": models}, suite=suite(3)) as (made, _):
        samples_ = samples_of(played(made))
    assert [sample.trace.status for sample in samples_] == ["ok"] * 3


def test_a_problem_that_all_meet_is_raised_once() -> None:
    refusal = Script.json({"error": {"message": "The model `x` does not exist.", "code": "model_not_found"}}, 404)
    with job({CHAT: refusal, "/v1/models": MODELS}, suite=suite(3)) as (made, _):
        with pytest.raises(ServerError) as caught:
            played(made)
        assert caught.value.trouble is ServerErrorKind.UNKNOWN_MODEL


def test_what_one_stream_meets_is_a_failed_request_among_the_answers_of_the_others() -> None:
    refusal = Script.json({"error": {"message": "The model `x` does not exist.", "code": "model_not_found"}}, 404)
    turns, lock = iter([STREAM, refusal, STREAM]), threading.Lock()

    def chat(_: Request) -> Script:
        with lock:
            return next(turns)

    with job({CHAT: chat, "/v1/models": MODELS}, suite=suite(3, repetitions=5)) as (made, _):
        samples_ = samples_of(played(made))
    assert sorted(sample.trace.status for sample in samples_) == ["failed", "ok", "ok"]
    (failed,) = (sample for sample in samples_ if sample.trace.status == "failed")
    assert "does not exist" in (failed.trace.error or "")
    assert failed.trace.end_ms is not None
    assert failed.sent_at_ms >= 0
    (throughput,) = (metric for metric in compute_metrics(samples_) if metric.metric == "output_tokens_per_s")
    assert throughput.value is not None
    assert throughput.samples == 1


def test_stopping_wakes_every_stream() -> None:
    stop, arrived = Stop(), threading.Semaphore(0)

    def chat(request: Request) -> Script:
        arrived.release()
        return Script(headers={"content-type": "text/event-stream"}, end="hang")

    def cancel() -> None:
        for _ in range(3):
            arrived.acquire()
        os.kill(os.getpid(), signal.SIGINT)

    with job({CHAT: chat, "/v1/models": MODELS}, suite=suite(3)) as (made, _), stop.on_signals():
        threading.Thread(target=cancel, daemon=True).start()
        with pytest.raises(Cancelled):
            played(made, stop)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stream")]


def keep(steps: Iterator[Phase | TimedSample], samples_: list[Any]) -> None:
    """Each sample the moment it comes, whatever comes after it."""
    for step in steps:
        if isinstance(step, TimedSample):
            samples_.append(step.sample)


@pytest.mark.parametrize("streams", [1, 3])
def test_what_had_come_when_a_run_was_cancelled_is_kept_and_not_counted(streams: int) -> None:
    """The first round is whole; in the second one stream has not even begun."""
    stop, arrived, turn = Stop(), threading.Semaphore(0), count()
    whole = Script.sse(*[WORD] * 5, END)

    def chat(request: Request) -> Script:
        number = next(turn)
        if number < streams:
            return whole
        arrived.release()
        return Script.sse(*[WORD] * (0 if number == streams > 1 else 2), end="hang")

    def cancel() -> None:
        for _ in range(streams):
            arrived.acquire()
        time.sleep(0.3)  # for the two words to arrive
        os.kill(os.getpid(), signal.SIGINT)

    samples_: list[Any] = []
    with job({CHAT: chat, "/v1/models": MODELS}, suite=suite(streams, repetitions=3)) as (made, _), stop.on_signals():
        threading.Thread(target=cancel, daemon=True).start()
        with pytest.raises(Cancelled):
            keep(run_suite(made, prepare(made), stop), samples_)
    cut = samples_[streams:]
    assert [sample.trace.status for sample in samples_[:streams]] == ["ok"] * streams
    assert len(cut) == max(1, streams - 1)
    for sample in cut:
        assert (sample.trace.status, sample.trace.output_tokens) == ("incomplete", 2)
        assert sample.trace.error == "The run was cancelled in the middle of this answer."
        assert {"incomplete", "interrupted"} <= set(sample.flags)
        assert not is_usable(sample)
    assert {metric.samples for metric in compute_metrics(samples_) if metric.metric == "ttft_ms"} == {streams}


def test_the_cache_suite_measures_fresh_and_reused_apart() -> None:
    fresh = capture("llama.cpp", "chat_stream_usage_cache_prompt_false")
    reused = capture("llama.cpp", "chat_stream_usage_repeat_cachehit")

    def chat(request: Request) -> Script:
        return reused if request.json()["cache_prompt"] else fresh

    routes = {"/health": READY, "/slots": IDLE, CHAT: chat}
    with job(routes, "llama.cpp", suite=BUILT_IN["cache"].with_counts(2, 1)) as (made, replay):
        samples_ = samples_of(played(made))
    assert [sample.reuses_cache for sample in samples_] == [False] * 3 + [True] * 3
    assert {sample.cache_defeat for sample in samples_ if sample.reuses_cache} == {CacheDefeat.NONE}
    assert not any({"cached", "cache_state_unknown"} & set(sample.flags) for sample in samples_)
    assert len({body["messages"][0]["content"] for body in replay.posted()}) == 1
    metrics = {(metric.metric, metric.source): metric for metric in compute_metrics(samples_)}
    for ttft in (metrics["ttft_ms", "client"], metrics["ttft_reused_ms", "client"]):
        # a busy machine may read an answer in one piece
        assert ttft.samples + ttft.left_out.get("one_piece", 0) == 2


def test_a_server_that_reuses_nothing_has_no_reused_ttft() -> None:
    routes = {"/health": READY, "/slots": IDLE, CHAT: capture("llama.cpp", "chat_stream_usage_cache_prompt_false")}
    with job(routes, "llama.cpp", suite=BUILT_IN["cache"].with_counts(2, 0)) as (made, _):
        metrics = compute_metrics(samples_of(played(made)))
    (reused,) = [metric for metric in metrics if metric.metric == "ttft_reused_ms"]
    assert (reused.value, reused.null_reason) == (None, "not_reused")


def steps(of: Suite) -> Iterator[str]:
    for done in range(of.sample_count(of.cases) + 1):
        yield step_label(of, of.cases, done)


def test_the_step_is_named() -> None:
    assert list(steps(suite(1, repetitions=2, warmups=1))) == [
        "warm-up 1 of 1",
        "sample 1 of 2",
        "sample 2 of 2",
        "",
    ]
    assert list(steps(suite(1, 2, repetitions=2))) == [
        "sample 1 of 2, point 1 of 2",
        "sample 2 of 2, point 1 of 2",
        *["sample 1 of 2, point 2 of 2, 2 streams at once"] * 2,
        *["sample 2 of 2, point 2 of 2, 2 streams at once"] * 2,
        "",
    ]


def test_taken_samples_of_a_round_share_its_time() -> None:
    with job({CHAT: STREAM, "/v1/models": MODELS}, suite=suite(2)) as (made, _):
        timed: list[Any] = [timed for timed in played(made) if isinstance(timed, TimedSample)]
    assert len({timed.seconds for timed in timed}) == 1
