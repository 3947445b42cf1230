"""Prompts that are processed at the same time: no server's time of one of them is its own."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import engines
from app.core.samples import Sample, Status, Workload
from app.core.server_metrics import ServerMetric
from app.metrics import MetricResult, compute_metrics, headline_metrics
from app.metrics.overlap import shared_ms, with_prefill_overlaps
from app.metrics.server_vs_client import compare_with_client, stated
from tests.traces import figures, sample, stream, trace


def played(
    *streams: tuple[float, float | None], number: int = 0, of: int | None = None, **changes: object
) -> list[Sample]:
    """Of each stream of a round when its first token came, and how long its prompt took, as the server says."""
    point = Workload(512, 11, of or len(streams))
    return [
        sample(
            trace(stream(first_ms), server=figures(prompt_ms=prompt_ms)),
            point=point, round=number, stream=n, ordinal=10 * number + n, **changes,
        )
        for n, (first_ms, prompt_ms) in enumerate(streams)
    ]  # fmt: skip


def prefill(samples: Sequence[Sample]) -> MetricResult:
    (measured,) = (e for e in compute_metrics(samples) if (e.metric, e.source) == ("prefill_tokens_per_s", "server"))
    return measured


def test_prompts_in_one_batch_have_no_speed_of_their_own() -> None:
    """Four prompts of 512 tokens in 1,430 ms: 358 tok/s, says the server of each, where a lone one has 800."""
    measured = prefill(played(*[(1430.0, 1430.0)] * 4))
    assert (measured.value, measured.null_reason) == (None, "overlapping_prefill")


def test_prompts_in_turns_keep_theirs() -> None:
    """One slot: each begins when the answer before it is over."""
    measured = prefill(played((640.0, 640.0), (1640.0, 640.0), (2640.0, 640.0)))
    assert measured.value == pytest.approx(800)
    assert (measured.samples, measured.left_out) == (3, {})


def test_of_some_streams_only_those_that_were_alone_count() -> None:
    """Two begin together, the third when they have ended; nobody knows better of the two."""
    measured = prefill(played((1280.0, 1280.0), (1280.0, 1280.0), (2640.0, 640.0)))
    assert measured.value == pytest.approx(800)
    assert measured.samples == 1
    assert measured.left_out == {"overlapping_prefill": 2}


@pytest.mark.parametrize(
    ("second", "is_shared"),
    [
        ((1280.0, 640.0), False),
        ((1278.5, 640.0), False),  # the network's delay
        ((1250.0, 640.0), False),  # 30 of 640 ms
        ((1240.0, 640.0), True),  # 40 of 640 ms: more than 5 %
        ((700.0, 640.0), True),
        ((9000.0, None), True),  # it may have been processed at any time before
    ],
)
def test_a_little_overlap_is_none(second: tuple[float, float | None], is_shared: bool) -> None:
    first, _ = with_prefill_overlaps(played((640.0, 640.0), second))
    assert first.prefill_overlaps is is_shared
    assert (headline_metrics(first)["prefill_tokens_per_s"] is None) is is_shared


@pytest.mark.parametrize(("second_ms", "is_shared"), [(38.5, False), (37.5, True)])
def test_a_late_first_token_of_a_short_prompt_is_no_overlap(second_ms: float, is_shared: bool) -> None:
    """1.5 and 2.5 of 20 ms: more than 5 %, and as much as a network may be late."""
    first, _ = with_prefill_overlaps(played((20.0, 20.0), (second_ms, 20.0)))
    assert first.prefill_overlaps is is_shared


def test_short_prompts_that_overlap_wholly_do_so_however_short() -> None:
    assert prefill(played((3.0, 3.0), (3.0, 3.0))).null_reason == "overlapping_prefill"


def test_when_each_stream_was_sent_counts() -> None:
    first, second = played((640.0, 640.0), (640.0, 640.0))
    assert prefill([first, replace(second, sent_at_ms=700.0)]).value == pytest.approx(800)
    assert prefill([first, replace(second, sent_at_ms=100.0)]).value is None


def test_rounds_do_not_overlap_each_other() -> None:
    samples = [*played((640.0, 640.0), (1640.0, 640.0)), *played((640.0, 640.0), (1640.0, 640.0), number=1)]
    assert prefill(samples).samples == 4


def test_where_a_stream_of_the_round_is_missing_nothing_is_known() -> None:
    lone = played((640.0, 640.0), of=4)
    assert with_prefill_overlaps(lone)[0].prefill_overlaps is None
    assert prefill(lone).null_reason == "overlapping_prefill"
    assert headline_metrics(lone[0])["prefill_tokens_per_s"] is None


def test_a_stream_that_failed_may_have_been_in_the_batch() -> None:
    first, second = played((640.0, 640.0), (640.0, 640.0))
    hung = replace(second, trace=trace((), status=Status.FAILED, end_ms=600.0))
    assert prefill([first, hung]).value is None
    refused = replace(second, trace=trace((), status=Status.FAILED, end_ms=5.0))
    assert prefill([first, refused]).value == pytest.approx(800)


def test_an_engine_that_never_batches_is_believed() -> None:
    together = played((700.0, 640.0), (700.0, 640.0), engine_batches=False)
    assert prefill(together).value == pytest.approx(800)
    assert {engine.key for engine in engines.all() if not engine.batches} == {"koboldcpp", "strata"}


def test_a_lone_stream_is_left_as_it_is() -> None:
    alone = sample(trace(server=figures()))
    assert with_prefill_overlaps([alone]) == [alone]
    assert prefill([alone]).value == pytest.approx(512 / 0.79)


def test_the_sum_of_what_was_stated_leaves_shared_prompts_out() -> None:
    assert {metric.name for metric in stated(played(*[(1430.0, 1430.0)] * 4))} == {"decode_tokens_per_s"}
    metrics = {metric.name: metric for metric in stated(played((1280.0, 1280.0), (1280.0, 1280.0), (2640.0, 640.0)))}
    assert metrics["prefill_tokens_per_s"].value == pytest.approx(800)
    assert metrics["prefill_tokens_per_s"].provenance == "stated with 1 of 3 answers"


@pytest.mark.parametrize("origin", ["counters", "answers"])
def test_no_counter_tells_the_speed_of_prompts_in_one_batch(origin: str) -> None:
    """Its tokens are right and so are its seconds, but each second counts once for every prompt of the batch."""
    speed = ServerMetric("prefill_tokens_per_s", "mean", "tok/s", 358.0, "how", origin=origin)  # type: ignore[arg-type]  # an origin
    (shared,) = compare_with_client([speed], played(*[(1430.0, 1430.0)] * 4))
    assert (shared.server_metric.value, shared.client, shared.null_reason) == (None, None, "overlapping_prefill")
    (own,) = compare_with_client([speed], played((640.0, 640.0), (1640.0, 640.0)))
    assert own.null_reason is None
    assert own.server_metric.value == pytest.approx(358 if origin == "counters" else 800)


WINDOWS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)).map(lambda w: (w[0], w[0] + w[1])), max_size=8)


@given(WINDOWS)
def test_shared_time_is_what_a_look_at_every_moment_counts(windows: list[tuple[int, int]]) -> None:
    expected = [
        sum(any(a <= t < b for k, (a, b) in enumerate(windows) if k != n) for t in range(begin, end))
        for n, (begin, end) in enumerate(windows)
    ]
    assert shared_ms(windows) == expected
