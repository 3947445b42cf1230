"""Metrics of a round: throughput, goodput, energy; and what a person's own limits say about serving."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.samples import Event, Kind, Sample, Status, Workload
from app.metrics import MetricResult, compute_metrics
from app.metrics.serving import Served, largest_within, serving
from app.metrics.throughput import Slo
from tests.metrics.rounds import LONG, one_round, sensed
from tests.traces import sample, stream, trace

SLO = Slo(ttft_ms=1000, tpot_ms=30)


def result_of(samples: Sequence[Sample], key: str) -> MetricResult | None:
    return next((result for result in compute_metrics(samples) if result.metric == key), None)


def value(samples: Sequence[Sample], key: str) -> float | None:
    measured = result_of(samples, key)
    assert measured is not None
    return measured.value


def test_throughput_is_all_tokens_over_the_wall_time_of_the_round() -> None:
    samples = [*one_round(4, 0), *one_round(4, 1, later_ms=50)]
    # the first round lasts 800 + 10 x 25 ms, the second 150 ms longer
    measured = result_of(samples, "output_tokens_per_s")
    assert measured is not None
    assert measured.samples == 2
    assert measured.minimum == pytest.approx(44 / 1.2)
    assert measured.maximum == pytest.approx(44 / 1.05)


def test_of_a_lone_stream_it_is_tokens_over_end_to_end() -> None:
    samples = [sample(ordinal=n) for n in range(3)]  # all of round 0, as samples are that know no rounds
    measured = result_of(samples, "output_tokens_per_s")
    assert measured is not None
    assert measured.samples == 3
    assert measured.value == pytest.approx(11 / 1.05)


def test_a_round_with_an_unusable_stream_is_left_out_whole() -> None:
    first, second = one_round(2, 0), one_round(2, 1)
    for flag in ("concurrent", "interrupted"):
        samples = [first[0], replace(first[1], flags=(flag, "incomplete")), *second]
        for key in ("output_tokens_per_s", "goodput_requests_per_s"):
            measured = result_of(samples, key)
            assert measured is not None
            assert (measured.samples, measured.left_out) == (1, {flag: 1})


def in_two_events(stream: Sample, first_ms: float) -> Sample:
    events = [Event(first_ms, Kind.ANSWER, 20), Event(first_ms + 300, Kind.ANSWER, 35)]
    return replace(stream, trace=replace(stream.trace, events=tuple(events)))


@pytest.mark.parametrize(("first_ms", "reason"), [(300, "too_few_events"), (900, None)])
def test_a_request_above_one_limit_is_not_good_whatever_is_unknown(first_ms: float, reason: str | None) -> None:
    streams = one_round(2, 0)
    measured = result_of([streams[0], in_two_events(streams[1], first_ms)], "goodput_requests_per_s")
    assert measured is not None
    assert measured.null_reason == reason
    assert (measured.value is None) is (reason is not None)


def failed(stream: Sample, end_ms: float | None, status: Status = Status.FAILED, tokens: int = 0) -> Sample:
    """The same request, without a whole answer; it was over after `end_ms`."""
    broken = replace(
        stream.trace, status=status, events=stream.trace.events[: tokens + 1], output_tokens=tokens, end_ms=end_ms
    )
    return replace(stream, trace=broken)


@pytest.mark.parametrize(
    ("end_ms", "status", "tokens", "wall_ms"),
    [
        (20, Status.FAILED, 0, 1050),  # it was refused at once: the other one takes the time
        (4000, Status.FAILED, 0, 4000),  # it hung: nothing came for that long
        (4000, Status.INCOMPLETE, 5, 4000),  # what came of it is no answer
        (None, Status.INCOMPLETE, 5, 1050),
        (None, Status.FAILED, 0, 1050),
    ],
)
def test_a_failed_request_has_no_tokens_but_its_time_counts(
    end_ms: float | None, status: Status, tokens: int, wall_ms: float
) -> None:
    first, second = one_round(2)
    samples = [first, failed(second, end_ms, status, tokens)]
    assert value(samples, "output_tokens_per_s") == pytest.approx(11 / wall_ms * 1000)
    (served,) = serving(samples, SLO)
    assert served.throughput_tokens_per_s == pytest.approx(11 / wall_ms * 1000)
    assert served.goodput_requests_per_s == pytest.approx(1 / wall_ms * 1000)
    assert (served.requests, served.good_share) == (1, 0.5)


def test_a_failed_request_later_in_the_round_counts_from_the_rounds_begin() -> None:
    first, second = one_round(2, later_ms=500)
    assert value([first, failed(second, 4000)], "output_tokens_per_s") == pytest.approx(11 / 4.5)
    assert value([failed(first, 200), second], "output_tokens_per_s") == pytest.approx(11 / 1.55)


def test_a_round_in_which_every_request_failed_achieved_nothing() -> None:
    samples = [failed(sample, 2000) for sample in one_round(2)]
    assert value(samples, "output_tokens_per_s") == 0
    assert value(samples, "goodput_requests_per_s") == 0
    (served,) = serving(samples, SLO)
    assert served == Served(2, 0, 0, None, None, None, None, 0, 0)
    # a larger number of streams that did well was lucky
    assert largest_within(serving([*one_round(1), *samples, *one_round(4)], SLO)) == 1


def test_the_failed_round_counts_among_the_others() -> None:
    """Medians of 22 / 1.05 s, 11 / 1.05 s and 11 / 4 s: without the failed ones it would be 22 / 1.05 s."""
    good, bad, worse = (one_round(2, n) for n in range(3))
    samples = [*good, bad[0], failed(bad[1], 30), worse[0], failed(worse[1], 4000)]
    measured = result_of(samples, "output_tokens_per_s")
    assert measured is not None
    assert measured.value == pytest.approx(11 / 1.05)
    assert measured.samples == 3
    assert measured.minimum == pytest.approx(11 / 4)
    assert measured.maximum == pytest.approx(22 / 1.05)
    assert measured.formula_version == 2


def test_an_incomplete_answer_of_a_lone_stream_is_never_a_zero() -> None:
    samples = [sample(), failed(sample(ordinal=1), 3000, Status.INCOMPLETE, 4)]
    measured = result_of(samples, "output_tokens_per_s")
    assert measured is not None
    assert measured.value == pytest.approx(11 / 1.05)
    assert (measured.samples, measured.left_out) == (1, {"incomplete": 1})


def test_several_points_of_as_many_streams_are_rounds_of_their_own() -> None:
    long = [replace(sample, point=Workload(4096, 11, 2)) for sample in one_round(2, first_ms=1800)]
    (served,) = serving([*one_round(2), *long], SLO)
    assert served.throughput_tokens_per_s == pytest.approx((22 / 1.05 + 22 / 2.05) / 2)
    assert served.requests == 4


@given(st.lists(st.tuples(st.booleans(), st.floats(1, 1e5)), min_size=2, max_size=8))
def test_a_failed_request_never_raises_a_rounds_figures(streams: list[tuple[bool, float]]) -> None:
    whole = [replace(sample, trace=replace(sample.trace, end_ms=1050.0)) for sample in one_round(len(streams))]
    samples = [failed(sample, end) if fails else sample for sample, (fails, end) in zip(whole, streams, strict=True)]
    for key in ("output_tokens_per_s", "goodput_requests_per_s"):
        assert 0 <= (value(samples, key) or 0) <= (value(whole, key) or 0) or not value(whole, key)


def test_client_prefill_of_concurrent_streams_is_unknown_with_its_reason() -> None:
    measured = [result for result in compute_metrics(one_round(2)) if result.metric == "prefill_tokens_per_s"]
    assert [(result.source, result.value, result.null_reason) for result in measured] == [
        ("client", None, "concurrent_streams")
    ]


def test_goodput_counts_requests_within_the_usual_limits() -> None:
    assert value(one_round(2, first_ms=400), "goodput_requests_per_s") == pytest.approx(2 / 0.65)
    assert value(one_round(2, first_ms=600), "goodput_requests_per_s") == 0  # none was good: that is known
    assert result_of([sample()], "goodput_requests_per_s") is None


def test_serving_needs_several_streams() -> None:
    assert serving([sample()], SLO) == []
    assert serving([], SLO) == []
    assert serving([replace(sample, is_warmup=True) for sample in one_round(2)], SLO) == []


def test_serving_by_the_number_of_streams() -> None:
    slow = one_round(4, 0, first_ms=1200)
    samples = [*one_round(1), *one_round(2), *slow[:2], *one_round(4, 0, first_ms=900)[2:]]
    single, double, fourfold = serving(samples, SLO)
    assert (single.streams, double.streams, fourfold.streams) == (1, 2, 4)
    assert (single.good_share, double.good_share, fourfold.good_share) == (1, 1, 0.5)
    assert (fourfold.ttft_p50_ms, fourfold.requests) == (1050, 4)
    assert fourfold.ttft_p99_ms == pytest.approx(1200)
    assert double.goodput_requests_per_s == pytest.approx(2 / 1.05)
    assert largest_within([single, double, fourfold]) == 2
    assert largest_within([fourfold]) is None
    # a number above one that failed was lucky
    assert largest_within([single, fourfold, replace(double, streams=8)]) == 1
    assert largest_within([fourfold, replace(double, streams=8)]) is None


def test_a_request_without_a_whole_answer_is_within_no_limits() -> None:
    broken = [replace(sample, trace=replace(sample.trace, status=Status.INCOMPLETE)) for sample in one_round(2, 1)]
    (served,) = serving([*one_round(2), broken[0], one_round(2, 1)[1]], SLO)
    assert (served.requests, served.good_share) == (3, 0.75)
    assert largest_within([served]) is None
    warmups = [replace(sample, is_warmup=True) for sample in broken]
    assert [served.good_share for served in serving([*one_round(2), *warmups], SLO)] == [1]


@given(
    st.lists(st.tuples(st.floats(1, 1e5), st.floats(0.1, 500)), min_size=2, max_size=8),
    st.floats(1, 1e5),
    st.floats(0.1, 500),
)
def test_goodput_never_exceeds_all_requests_and_grows_with_the_limits(
    answers: list[tuple[float, float]], ttft_ms: float, tpot_ms: float
) -> None:
    point = Workload(512, 11, len(answers))
    samples = [
        sample(trace(stream(first, gap)), point=point, stream=n, ordinal=n) for n, (first, gap) in enumerate(answers)
    ]
    (strict,), (lax,) = serving(samples, Slo(ttft_ms, tpot_ms)), serving(samples, Slo(2e5, 1000))
    assert lax.good_share == 1
    assert strict.good_share is not None
    assert 0 <= strict.good_share <= 1
    assert (strict.goodput_requests_per_s or 0) <= (lax.goodput_requests_per_s or 0)


def test_nothing_usable_is_no_zero() -> None:
    broken = [replace(sample, trace=replace(sample.trace, events=())) for sample in one_round(2)]
    (served,) = serving(broken, SLO)
    assert served == Served(2, 2, None, None, None, None, None, None, None)


# --- energy ----------------------------------------------------------------------------------------------------------


def energy(sensors: dict[str, Any]) -> MetricResult | None:
    return result_of([sample(LONG, sensors=sensors)], "joules_per_output_token")


def test_energy_is_the_mean_power_of_the_decode_over_its_speed() -> None:
    measured = energy(sensed(gpu0__power_w=[900, 100, 200, 900], cpu_power_w=[0, 10, 10, 0]))
    assert measured is not None
    assert (measured.source, measured.unit) == ("sensor", "J")
    assert measured.value == pytest.approx(160 / 10)  # 160 W at 10 tok/s


def test_energy_counts_the_tokens_that_decode_counts() -> None:
    """Of 51 output tokens 40 were reasoning before the first that was seen: what they drew is not known."""
    thought = replace(LONG, output_tokens=51, reasoning_tokens=40)
    answer = sample(thought, point=Workload(512, 51), sensors=sensed(gpu0__power_w=[900, 100, 200, 900]))
    assert value([answer], "joules_per_output_token") == pytest.approx(150 / 10)
    whole = replace(LONG, events=(*LONG.events[:1], *stream(1800, tokens=1, size_bytes=55)[1:]))
    measured = result_of([replace(answer, trace=whole)], "joules_per_output_token")
    assert measured is not None
    assert (measured.value, measured.null_reason) == (None, "zero_span")


def test_the_energy_of_a_round_is_shared_by_its_tokens() -> None:
    samples = [sample(LONG, point=Workload(512, 11, 2), stream=n, ordinal=n) for n in range(2)]
    samples[0] = replace(samples[0], sensors=sensed(gpu0__power_w=[300, 300, 300, 300]))
    assert value(samples, "joules_per_output_token") == pytest.approx(300 * 1.0 / 20)


def test_only_cards_that_worked_count() -> None:
    """A card that draws a screen has a power too; one that tells no load may have worked."""
    power = {"gpu0__power_w": [200.0] * 4, "gpu1__power_w": [30.0] * 4, "gpu2__power_w": [50.0] * 4}
    loads = {"gpu0__load_percent": [0, 99, 98, 0], "gpu1__load_percent": [90, 3, 1, 0]}
    measured = energy(sensed(**power, **loads))
    assert measured is not None
    assert measured.value == pytest.approx(250 / 10)


def test_the_power_of_idle_cards_is_not_that_of_a_model_in_memory() -> None:
    idle = {"gpu0__power_w": [15.0] * 4, "gpu0__load_percent": [0.0] * 4}
    alone = energy(sensed(**idle))
    assert alone is not None
    assert (alone.value, alone.null_reason) == (None, "idle_cards")
    with_processor = energy(sensed(**idle, cpu_power_w=[80.0] * 4))
    assert with_processor is not None
    assert with_processor.value == pytest.approx(80 / 10)


def test_a_sensor_that_skips_a_reading_lowers_no_sum() -> None:
    measured = energy(sensed(gpu0__power_w=[0, 100, 100, None], cpu_power_w=[0, None, 40, None, None]))
    assert measured is not None
    assert (measured.value, measured.null_reason) == (None, "few_readings")
    longer = sensed(gpu0__power_w=[None, 100, 100], gpu1__power_w=[1, 50, 50])
    found_energy = energy(longer)
    assert found_energy is not None
    assert found_energy.value == pytest.approx(150 / 10)


def test_a_stream_through_a_buffer_has_no_time_of_decode() -> None:
    samples = [sample(LONG, sensors=sensed(gpu0__power_w=[300] * 4), flags=("buffered",))]
    measured = result_of(samples, "joules_per_output_token")
    assert measured is not None
    assert (measured.value, measured.null_reason) == (None, "buffered")


def test_without_a_sensor_there_is_no_energy_and_with_too_few_readings_a_reason() -> None:
    assert energy({}) is None
    assert energy(sensed(cpu_load_percent=[5, 5, 5])) is None
    few = energy(sensed(gpu0__power_w=[100, 100]))
    assert few is not None
    assert (few.value, few.null_reason) == (None, "few_readings")
    gone = energy(sensed(gpu0__power_w=[100, None, None, None]))
    assert gone is not None
    assert gone.value is None
