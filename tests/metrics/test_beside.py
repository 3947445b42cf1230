"""What the server counted beside what the client timed: the expected figures are worked out by hand."""

import pytest

from app.counted import Counted
from app.metrics.beside import beside, client_figure, decode_cause, stated
from app.samples import Point, Sample, Status
from tests.traces import figures, sample, stream, trace

# 11 tokens each: TTFT 800 and 1000 ms, then 10 steps of 25 and of 75 ms
TAKEN = [sample(trace(stream(800, 25)), is_warmup=True), sample(trace(stream(1000, 75)), ordinal=1)]


def counted(name: str, value: float, statistic: str = "mean", **bounds: float) -> Counted:
    return Counted(name, statistic, "ms", value, "how", **bounds)  # type: ignore[arg-type]  # a statistic


@pytest.mark.parametrize(
    ("name", "statistic", "value"),
    [
        ("ttft_ms", "mean", 900),
        ("ttft_ms", "p50", 900),
        ("itl_ms", "mean", 50),
        ("itl_ms", "p99", 75),
        ("tpot_ms", "mean", 50),
        ("e2e_ms", "mean", (1050 + 1750) / 2),
        ("decode_tokens_per_s", "mean", 20),  # 20 steps in 1 s
        ("prefill_tokens_per_s", "mean", 1024 / 1.8),
        ("prompt_tokens", "total", 1024),
        ("cached_tokens", "total", 0),
        ("output_tokens", "total", 22),
        ("requests", "total", 2),
        ("preemptions", "total", None),
        ("queue_ms", "mean", None),
        ("kv_cache_use", "now", None),
    ],
)
def test_the_clients_figure_of_the_same(name: str, statistic: str, value: float | None) -> None:
    assert client_figure(name, statistic, TAKEN) == (None if value is None else pytest.approx(value))
    assert client_figure(name, statistic, []) is None


def test_prefill_beside_other_streams_is_mostly_waiting() -> None:
    together = [*TAKEN, sample(trace(stream(2000, 25)), point=Point(512, 11, 2))]
    for name in ("prefill_ms", "prefill_tokens_per_s"):
        assert client_figure(name, "mean", TAKEN) is not None
        assert client_figure(name, "mean", together) is None
    assert client_figure("ttft_ms", "mean", together) == pytest.approx((800 + 1000 + 2000) / 3)


def test_fresh_prompt_tokens_are_those_not_found_in_the_cache() -> None:
    taken = [sample(), sample(trace(cached_tokens=500))]
    assert client_figure("fresh_prompt_tokens", "total", taken) == 512 + 12
    assert client_figure("fresh_prompt_tokens", "total", [sample(trace(cached_tokens=None))]) is None


def test_a_small_difference_has_no_cause_and_a_large_one_has() -> None:
    near, far = beside([counted("ttft_ms", 880), counted("ttft_ms", 700)], TAKEN)
    assert near.difference == pytest.approx(900 / 880 - 1)
    assert near.cause == ""
    assert "HTTP, the chat template" in far.cause


def test_a_value_within_the_bucket_is_no_difference() -> None:
    within, outside = beside(
        [counted("ttft_ms", 700, "p50", low=500, high=1000), counted("ttft_ms", 200, "p50", low=100, high=250)], TAKEN
    )
    assert (within.cause, outside.cause != "") == ("", True)


def test_the_cause_of_a_slower_clock_is_read_off_the_flags() -> None:
    bundled = [sample(trace(stream(800, 25)), flags=("bundled",))]
    (found,) = beside([counted("itl_ms", 15)], bundled)
    assert "several tokens each" in found.cause
    (found,) = beside([counted("decode_tokens_per_s", 44)], [sample(trace(stream(800, 25)))])  # 11 / 0.25 s
    assert "one interval less" in found.cause


@pytest.mark.parametrize(
    ("flags", "difference", "cause"),
    [
        (("buffered",), -0.3, "holds tokens back"),
        (("token_count_estimated",), -0.3, "may hold several"),
        (("hidden_tokens",), 0.3, "never showed"),
        (("bundled",), 0.3, "several tokens each"),
        (("loop_lag",), -0.3, "own reader was late"),
        (("loop_lag", "bundled"), -0.3, "several tokens each"),
        (("short",), -0.3, "slow network"),  # a flag that explains nothing
        ((), -0.3, "slow network"),
        ((), 0.3, "held the first ones back"),
        ((), -0.1, "one interval less"),  # 11 tokens: an error of a tenth
        ((), 0.1, "hold its first token too"),
    ],
)
def test_each_cause_of_a_decode_that_differs(flags: tuple[str, ...], difference: float, cause: str) -> None:
    assert cause in decode_cause(difference, [sample(flags=flags, ordinal=n) for n in range(3)])


def test_what_few_samples_have_explains_nothing() -> None:
    mostly = [sample(flags=("bundled",)), sample(flags=("bundled",)), sample()]
    seldom = [sample(flags=("bundled",)), sample(), sample()]
    assert "several tokens each" in decode_cause(-0.3, mostly)
    assert "slow network" in decode_cause(-0.3, seldom)
    assert decode_cause(-0.3, [])


def test_a_time_that_is_longer_is_a_speed_that_is_lower() -> None:
    (longer,) = beside([counted("tpot_ms", 30)], TAKEN)  # 50 ms here
    (shorter,) = beside([counted("tpot_ms", 70)], TAKEN)
    assert "slow network" in longer.cause
    assert "held the first ones back" in shorter.cause


def test_strangers_requests_explain_everything() -> None:
    found = beside([counted("requests", 5, "total"), counted("ttft_ms", 300)], TAKEN)
    assert [each.cause for each in found] == ["The server's figure holds requests of others too."] * 2


def of(**changes: object) -> Sample:
    return sample(trace(server=figures(**changes)))


def test_what_was_stated_with_each_answer() -> None:
    taken = [
        of(load_ms=10.0, draft_tokens=40, draft_accepted_tokens=10, expert_hit_share=0.9),
        of(prompt_ms=210.0, decode_ms=750.0, draft_tokens=10, draft_accepted_tokens=10, expert_hit_share=0.8),
        sample(trace(server=figures(prompt_ms=0.79)), flags=("unit_mismatch",)),
        sample(trace(status=Status.FAILED)),
    ]
    found = {each.name: each for each in stated(taken)}
    assert {name: each.value for name, each in found.items()} == {
        "prefill_tokens_per_s": pytest.approx(1024),  # 1024 tokens in 1 s
        "decode_tokens_per_s": pytest.approx(20),
        "load_ms": 10,
        "draft_acceptance": 0.4,
        "expert_cache_hit_rate": pytest.approx(0.85),
    }
    assert found["load_ms"].how == "stated with 2 of 3 answers"
    assert stated([sample()]) == []
