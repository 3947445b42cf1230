"""What the server counted beside what the client timed: the expected figures are worked out by hand."""

import pytest

from app.core.samples import Sample, Status, Workload
from app.core.server_metrics import ServerMetric
from app.metrics import compute_metrics
from app.metrics.server_vs_client import client_figure, compare_with_client, decode_cause, disagreement, stated
from tests.traces import figures, sample, stream, trace

# 11 tokens each: TTFT 800 and 1000 ms, then 10 steps of 25 and of 75 ms
TAKEN = [sample(trace(stream(800, 25)), is_warmup=True), sample(trace(stream(1000, 75)), ordinal=1)]


def server_metric(name: str, value: float, statistic: str = "mean", **bounds: float) -> ServerMetric:
    return ServerMetric(name, statistic, "ms", value, "how", **bounds)  # type: ignore[arg-type]  # a statistic


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
    together = [*TAKEN, sample(trace(stream(2000, 25)), point=Workload(512, 11, 2))]
    for name in ("prefill_ms", "prefill_tokens_per_s"):
        assert client_figure(name, "mean", TAKEN) is not None
        assert client_figure(name, "mean", together) is None
    assert client_figure("ttft_ms", "mean", together) == pytest.approx((800 + 1000 + 2000) / 3)


def test_fresh_prompt_tokens_are_those_not_found_in_the_cache() -> None:
    samples = [sample(), sample(trace(cached_tokens=500))]
    assert client_figure("fresh_prompt_tokens", "total", samples) == 512 + 12
    assert client_figure("fresh_prompt_tokens", "total", [sample(trace(cached_tokens=None))]) is None


def test_a_small_difference_has_no_cause_and_a_large_one_has() -> None:
    near, far = compare_with_client([server_metric("ttft_ms", 880), server_metric("ttft_ms", 700)], TAKEN)
    assert near.difference == pytest.approx(900 / 880 - 1)
    assert near.cause == ""
    assert "HTTP, the chat template" in far.cause


def bucket(name: str, statistic: str, low: float, high: float | None) -> ServerMetric:
    return ServerMetric(name, statistic, "ms", None, "how", low, high)  # type: ignore[arg-type]  # a statistic


def test_a_range_is_no_point_to_differ_from() -> None:
    for figure in (
        bucket("ttft_ms", "p50", 500, 1000),
        bucket("ttft_ms", "p50", 1, 5),
        bucket("itl_ms", "p99", 5, None),
    ):
        (pair,) = compare_with_client([figure], TAKEN)
        assert pair.client == client_figure(figure.name, figure.statistic, TAKEN)
        assert (pair.difference, pair.cause, pair.null_reason) == (None, "", None)


def test_what_older_runs_kept_of_a_histogram_is_a_range_too() -> None:
    how = "vllm:queue, interpolated within its bucket, difference of two readings"
    old = {
        "name": "ttft_ms",
        "statistic": "p50",
        "unit": "ms",
        "value": 612.0,
        "how": how,
        "low": 500.0,
        "high": 1000.0,
    }
    figure = ServerMetric.from_json(old)
    assert (figure.value, figure.low, figure.high, figure.is_range) == (None, 500.0, 1000.0, True)
    assert figure.provenance == "vllm:queue, the bucket that holds it, difference of two readings"
    assert ServerMetric.from_json(figure.to_json()) == figure


def test_what_older_runs_kept_of_answers_is_of_those_that_state_it() -> None:
    old = {
        "name": "decode_tokens_per_s",
        "statistic": "mean",
        "unit": "tok/s",
        "value": 20.0,
        "low": None,
        "high": None,
    }
    assert ServerMetric.from_json({**old, "how": "stated with 2 of 3 answers"}).origin == "answers"
    assert ServerMetric.from_json({**old, "how": "totals of /metrics, difference of two readings"}).origin == "counters"


def test_what_some_answers_state_stands_beside_the_same_answers() -> None:
    """Two of three state a decode of 40 tok/s; the third, which does not, was four times slower."""
    samples = [sample(trace(stream(800, 25), server=figures()), ordinal=n) for n in range(2)]
    samples.append(sample(trace(stream(800, 100)), ordinal=2))
    (decode,) = [
        pair
        for pair in compare_with_client(stated(samples), samples)
        if pair.server_metric.name == "decode_tokens_per_s"
    ]
    assert decode.server_metric.provenance == "stated with 2 of 3 answers"
    assert decode.client == pytest.approx(40)
    assert decode.difference == pytest.approx(0)


def test_a_failed_request_may_be_in_the_servers_figure_and_not_in_ours() -> None:
    samples = [*TAKEN, sample(trace(status=Status.FAILED), ordinal=2)]
    figure = server_metric("ttft_ms", 300)
    (unknown,) = compare_with_client([figure], samples)
    assert (unknown.client, unknown.difference) == (900, None)
    (_, fewer) = compare_with_client([server_metric("requests", 3, "total"), figure], samples)
    assert fewer.difference is None
    (_, same) = compare_with_client([server_metric("requests", 2, "total"), figure], samples)
    assert same.difference == pytest.approx(2)


def test_a_warning_holds_client_and_server_of_the_same_samples_against_each_other() -> None:
    """Both agree wherever the server tells; where it does not, the answers were slower."""
    stating = [sample(trace(stream(800, 25), server=figures()), ordinal=n) for n in range(2)]
    silent = [sample(trace(stream(800, 50)), ordinal=n) for n in range(2, 5)]
    samples = [*stating, *silent]
    assert disagreement(compute_metrics(samples), samples) is None
    slower = [sample(trace(stream(800, 25), server=figures(decode_ms=500.0)), ordinal=n) for n in range(2)]
    warning = disagreement(compute_metrics([*slower, *silent]), [*slower, *silent])
    assert warning is not None
    assert warning.startswith("Roofmark timed 40.0 tok/s decode, the server states 20.0 tok/s: 100 % more.")
    assert disagreement(compute_metrics(silent), silent) is None
    assert disagreement(compute_metrics(slower), silent) is None
    assert disagreement(compute_metrics(slower), []) is None


def test_the_cause_of_a_slower_clock_is_read_off_the_flags() -> None:
    bundled = [sample(trace(stream(800, 25)), flags=("multi_token_chunks",))]
    (comparison,) = compare_with_client([server_metric("itl_ms", 15)], bundled)
    assert "several tokens each" in comparison.cause
    (comparison,) = compare_with_client(
        [server_metric("decode_tokens_per_s", 44)], [sample(trace(stream(800, 25)))]
    )  # 11 / 0.25 s
    assert "n - 1 intervals" in comparison.cause


@pytest.mark.parametrize(
    ("flags", "difference", "cause"),
    [
        (("buffered",), -0.3, "holds tokens back"),
        (("token_count_estimated",), -0.3, "may hold several"),
        (("hidden_tokens",), 0.3, "never appeared"),
        (("multi_token_chunks",), 0.3, "several tokens each"),
        (("client_scheduling_delay",), -0.3, "own reader was late"),
        (("client_scheduling_delay", "multi_token_chunks"), -0.3, "several tokens each"),
        (("early_stop",), -0.3, "slow network"),  # a flag that explains nothing
        ((), -0.3, "slow network"),
        ((), 0.3, "held the first ones back"),
        ((), -0.1, "n - 1 intervals"),  # 11 tokens: an error of a tenth
        ((), 0.1, "include its first token"),
    ],
)
def test_each_cause_of_a_decode_that_differs(flags: tuple[str, ...], difference: float, cause: str) -> None:
    assert cause in decode_cause(difference, [sample(flags=flags, ordinal=n) for n in range(3)])


def test_what_few_samples_have_explains_nothing() -> None:
    mostly = [sample(flags=("multi_token_chunks",)), sample(flags=("multi_token_chunks",)), sample()]
    seldom = [sample(flags=("multi_token_chunks",)), sample(), sample()]
    assert "several tokens each" in decode_cause(-0.3, mostly)
    assert "slow network" in decode_cause(-0.3, seldom)
    assert decode_cause(-0.3, [])


def test_a_time_that_is_longer_is_a_speed_that_is_lower() -> None:
    (longer,) = compare_with_client([server_metric("tpot_ms", 30)], TAKEN)  # 50 ms here
    (shorter,) = compare_with_client([server_metric("tpot_ms", 70)], TAKEN)
    assert "slow network" in longer.cause
    assert "held the first ones back" in shorter.cause


def test_strangers_requests_explain_everything() -> None:
    comparisons = compare_with_client([server_metric("requests", 5, "total"), server_metric("ttft_ms", 300)], TAKEN)
    assert [comparison.cause for comparison in comparisons] == [
        "The server's value includes requests of other clients."
    ] * 2


def of(**changes: object) -> Sample:
    return sample(trace(server=figures(**changes)))


def test_what_was_stated_with_each_answer() -> None:
    samples = [
        of(load_ms=1000.0, draft_tokens=40, draft_accepted_tokens=10, expert_hit_share=0.9),
        of(prompt_ms=210.0, decode_ms=750.0, draft_tokens=10, draft_accepted_tokens=10, expert_hit_share=0.8),
        sample(trace(server=figures(prompt_ms=0.79)), flags=("unit_mismatch",)),
        sample(trace(status=Status.FAILED)),
    ]
    metrics = {metric.name: metric for metric in stated(samples)}
    assert {name: comparison.value for name, comparison in metrics.items()} == {
        "prefill_tokens_per_s": pytest.approx(1024),  # 1024 tokens in 1 s
        "decode_tokens_per_s": pytest.approx(20),
        "load_ms": 1000,
        "draft_acceptance": 0.4,
        "expert_cache_hit_rate": pytest.approx(0.85),
    }
    assert metrics["load_ms"].provenance == "stated with 1 of 3 answers"
    assert stated([sample()]) == []


def test_an_answer_without_a_count_hides_no_cause() -> None:
    samples = [sample(trace(output_tokens=None)), sample(ordinal=1)]
    assert "include its first token" in decode_cause(0.1, samples)
    assert "held the first ones back" in decode_cause(0.1, samples[:1])
