"""Somebody else's work during a round: told by the server's own counters, and by what it does after its answer."""

from collections.abc import Callable
from typing import Any

import pytest

from app.core.samples import Status, Trace
from app.engines.base import Counters
from app.measure.interference import foreign_work
from tests.measuring.playing import CHAT, IDLE, READY, job, played, samples_of
from tests.replay import Request, Script, capture
from tests.traces import trace

PROMPT_TOKENS = 30
"""Prompt tokens of the recorded answer."""


def counting(foreign_tokens: Callable[[int], int]) -> dict[str, Any]:
    """A llama.cpp that counts; `others` gives the prompt tokens of strangers during each of our requests."""
    answer = capture("llama.cpp", "chat_stream_usage_cache_prompt_false")
    state = {"asked": 0, "tokens": 1000}

    def chat(_: Request) -> Script:
        state["tokens"] += PROMPT_TOKENS + foreign_tokens(state["asked"])
        state["asked"] += 1
        return answer

    metrics = "llamacpp:prompt_tokens_total {}\nllamacpp:prompt_tokens_cached_total 0\n"
    return {
        CHAT: chat,
        "/health": READY,
        "/slots": IDLE,
        "/metrics": lambda _: Script.text(metrics.format(state["tokens"])),
    }


def flagged(routes: dict[str, Any]) -> list[bool]:
    with job(routes, "llama.cpp") as (made, _):
        return ["concurrent" in sample.flags for sample in samples_of(played(made))]


def test_only_the_sample_beside_a_strangers_request_is_concurrent() -> None:
    assert flagged(counting(lambda _: 0)) == [False, False, False]
    assert flagged(counting(lambda request: 40 if request == 1 else 0)) == [False, True, False]


def busy_after_our_answer(times: int) -> dict[str, Any]:
    """Routes of a llama.cpp whose slots are busy for the next so many looks at them."""
    routes = counting(lambda _: 0)
    chat, busy, left = routes[CHAT], capture("llama.cpp", "get_slots_busy"), [0]

    def answer(request: Request) -> Script:
        left[0] = times
        answer: Script = chat(request)
        return answer

    def slots(_: Request) -> Script:
        left[0] -= 1
        return busy if left[0] >= 0 else IDLE

    return {**routes, CHAT: answer, "/slots": slots}


def test_a_server_that_works_on_after_its_answer_works_for_somebody_else() -> None:
    assert flagged(busy_after_our_answer(5)) == [True, True, True]


def test_a_slot_that_is_freed_a_moment_after_our_own_answer_is_ours() -> None:
    assert flagged(busy_after_our_answer(1)) == [False, False, False]


@pytest.mark.parametrize(
    ("traces", "before", "after", "expected"),
    [
        ([trace()], Counters(requests=3), Counters(requests=4), ""),
        ([trace()], Counters(requests=3), Counters(requests=6), "2 requests"),
        ([trace()] * 4, Counters(100, 0), Counters(100 + 4 * 512, 0), ""),
        # a start token that usage leaves out is no stranger
        ([trace()], Counters(100, 0), Counters(613, 0), ""),
        ([trace()], Counters(100, 0), Counters(612, 40), "40 prompt tokens"),
        ([trace()], Counters(100, 0), Counters(50, 0), None),
        # a stranger whose prompt was in the cache is told by its answer
        ([trace()], Counters(100, 0, 50), Counters(613, 0, 261), "200 output tokens"),
        ([trace()], Counters(100, 0, 50), Counters(612, 0, 61), ""),
        # cached tokens are ours, but not every server counts them
        ([trace(cached_tokens=511)], Counters(100, None, 50), Counters(101, None, 61), ""),
        ([trace(cached_tokens=511)], Counters(100, None, 50), Counters(141, None, 61), "40 prompt tokens"),
        ([trace(cached_tokens=None)], Counters(100, None), Counters(101, None), None),
        ([trace()], Counters(requests=3, since=1.0), Counters(requests=6, since=2.0), None),
        ([trace()], Counters(requests=5), Counters(requests=1), None),
        ([trace(prompt_tokens=None)], Counters(100, 0), Counters(612, 0), None),
        ([trace(status=Status.INCOMPLETE)], Counters(requests=3), Counters(requests=6), None),
        ([trace()], None, Counters(requests=6), None),
    ],
)
def test_work_beyond_our_own(
    traces: list[Trace], before: Counters | None, after: Counters, expected: str | None
) -> None:
    assert foreign_work(traces, before, after) == expected
