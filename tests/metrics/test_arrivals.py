"""Decode is known within 10 %, or it is not said; TTFT is that of a token, or it is not said."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.samples import CountSource, Event, Kind, Sample, Workload
from app.metrics import flags_of, metrics
from app.metrics.arrivals import Arrival, Arrivals
from app.metrics.decode import UNTIMED
from tests.metrics.schedules import SCHEDULES, Schedule, arrived, at_the_end, make, one_by_one, read_late
from tests.traces import figures, sample, stream, trace


def read(key: str, answer: Sample) -> float | str | None:
    reading = next(reading for reading in metrics()[key].read([answer]) if reading.source == "client")
    return reading.null_reason if reading.value is None else reading.value


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.__name__)
@given(seed=st.integers(0, 2**32), is_stated=st.booleans())
def test_a_decode_speed_is_within_a_tenth_of_the_truth_or_it_is_null(
    schedule: Schedule, seed: int, is_stated: bool
) -> None:
    rng = random.Random(seed)
    made = make(rng)
    answer = arrived(schedule(made, rng), is_stated)
    decode, tpot_ms = read("decode_tokens_per_s", answer), read("tpot_ms", answer)
    if isinstance(decode, str):
        assert decode in UNTIMED
        assert tpot_ms == decode
        assert read("itl_ms_p50", answer) in (decode, "few_gaps")
        assert {"buffered", "too_few_events"} & set(flags_of(answer))
    else:
        # a tenth, and what the steps themselves vary by
        assert decode is not None
        assert decode == pytest.approx(made.tokens_per_s, rel=0.12)
        assert tpot_ms == pytest.approx(1000 / decode)
    ttft_ms = read("ttft_ms", answer)
    if schedule is at_the_end:
        assert isinstance(decode, str)
        assert ttft_ms == read("ttfa_ms", answer) == read("prefill_tokens_per_s", answer) == "one_piece"


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.__name__)
def test_most_speeds_are_known(schedule: Schedule) -> None:
    """A rule that says nothing is right and worthless."""
    rng = random.Random(1)
    samples = [arrived(schedule(make(rng), rng), is_stated=False) for _ in range(200)]
    count = sum(isinstance(read("decode_tokens_per_s", answer), float) for answer in samples)
    assert count == 0 if schedule is at_the_end else count >= 60


@pytest.mark.parametrize("tokens", [1, 2, 4, 8, 16, 32])
def test_events_of_several_tokens_have_the_speed_of_their_tokens(tokens: int) -> None:
    """128 tokens at 100 tok/s; 16 of them in an event once were 13 % too fast, 32 of them 32 %."""
    events = [Event(300 + 10 * (end - 1), Kind.ANSWER, 5 * tokens) for end in range(tokens, 129, tokens)]
    answer = sample(trace(events, output_tokens=128), point=Workload(512, 128))
    assert read("decode_tokens_per_s", answer) == pytest.approx(100)


def test_a_few_large_events_at_once_have_no_speed_and_no_first_token() -> None:
    """512 tokens at 100 tok/s in six events 1 ms apart once were 101,519 tok/s."""
    events = [Event(5420 + place, Kind.ANSWER, 430) for place in range(6)]
    answer = sample(trace(events, output_tokens=512), point=Workload(512, 512))
    assert read("decode_tokens_per_s", answer) == "too_few_events"
    assert read("ttft_ms", answer) == "one_piece"
    assert read("e2e_ms", answer) == 5425
    assert {"multi_token_chunks", "too_few_events"} <= set(flags_of(answer))


def test_two_halves_are_too_few() -> None:
    events = [Event(940, Kind.ANSWER, 320), Event(1580, Kind.ANSWER, 320)]
    answer = sample(trace(events, output_tokens=128), point=Workload(512, 128))
    assert read("decode_tokens_per_s", answer) == "too_few_events"
    assert read("ttft_ms", answer) == 940


def test_one_event_is_one_piece_unless_it_is_one_token() -> None:
    whole = sample(trace([Event(1580, Kind.ANSWER, 640)], output_tokens=128), point=Workload(512, 128))
    assert read("ttft_ms", whole) == "one_piece"
    assert read("decode_tokens_per_s", whole) == "zero_span"
    assert read("ttft_ms", sample(trace(stream(tokens=1), output_tokens=1))) == 800
    assert read("ttft_ms", sample(trace(stream(tokens=1), output_tokens=2))) == 800


def test_an_answer_in_one_piece_after_its_reasoning_has_no_first_token_of_its_own() -> None:
    reasoning = [Event(300 + 20 * place, Kind.REASONING, 5) for place in range(40)]
    answer = sample(trace([*reasoning, Event(2000, Kind.ANSWER, 400)], output_tokens=120), point=Workload(512, 120))
    assert read("ttft_ms", answer) == 300
    assert read("ttfa_ms", answer) == "one_piece"
    in_one_piece = sample(trace([*reasoning, Event(1100, Kind.ANSWER, 2)], output_tokens=41), point=Workload(512, 41))
    assert read("ttfa_ms", in_one_piece) == 1100


def test_what_a_late_read_found_is_one_first_event() -> None:
    """40 of 128 tokens at 26.9 tok/s had come before the reader woke up."""
    step_ms = 1000 / 26.9
    times = [max(300 + step_ms * place, 300 + step_ms * 39) for place in range(128)]
    events = [Event(at_ms, Kind.ANSWER, 5) for at_ms in times]
    server = figures(output_tokens=128, decode_ms=127 * step_ms, prompt_ms=290.0)
    answer = sample(trace(events, output_tokens=128, server=server), point=Workload(512, 128))
    assert read("decode_tokens_per_s", answer) == pytest.approx(26.9)
    assert "client_server_mismatch" not in flags_of(answer)
    assert read("prefill_tokens_per_s", answer) == "bundled_start"


def test_a_start_that_the_server_says_was_slower_does_not_count() -> None:
    """Not all that waited came at the same moment: the client is 9 % too fast, and knows that it began late."""
    late = [Event(1000, Kind.ANSWER, 5)] * 3 + [Event(1000 + 25 * place, Kind.ANSWER, 5) for place in range(1, 30)]
    server = figures(output_tokens=32, decode_ms=31 * 27.5)
    answer = sample(trace(late, output_tokens=32, server=server), point=Workload(512, 32))
    assert "client_server_mismatch" in flags_of(answer)
    assert read("decode_tokens_per_s", answer) == "late_start"
    even = sample(trace(stream(tokens=32, gap_ms=25), output_tokens=32, server=server), point=Workload(512, 32))
    assert "client_server_mismatch" in flags_of(even)
    assert read("decode_tokens_per_s", even) == pytest.approx(40)
    lagging = replace(even, trace=replace(even.trace, sched_delay_ms=5.0))
    assert read("decode_tokens_per_s", lagging) == "late_start"


@pytest.mark.parametrize(
    ("decode_ms", "decode"),
    [
        (250, pytest.approx(40)),
        (500, "late_start"),  # as many tokens again were made before the first one was seen
        (1040, pytest.approx(40)),  # that would have begun before the prompt was read: the server clocks something else
    ],
)
def test_a_speed_without_the_tokens_that_were_made_before_is_none(decode_ms: float, decode: object) -> None:
    answer = sample(trace(stream(800), server=figures(prompt_ms=500.0, decode_ms=decode_ms)))
    assert read("decode_tokens_per_s", answer) == decode


def test_events_that_were_counted_instead_of_tokens_must_hold_one_each() -> None:
    for size_bytes, decode in ((5, pytest.approx(40)), (80, "tokens_unknown")):
        events = stream(size_bytes=size_bytes)
        assert read("decode_tokens_per_s", sample(trace(events, count_source=CountSource.EVENTS))) == decode


def test_an_answer_cut_at_the_length_that_was_asked_for_has_as_many_tokens() -> None:
    for asked, decode in ((11, pytest.approx(40)), (44, "tokens_unknown")):
        answer = sample(trace(stream(), count_source=CountSource.EVENTS), point=Workload(512, asked))
        assert read("decode_tokens_per_s", answer) == decode
        (throughput,) = metrics()["output_tokens_per_s"].read([answer])
        assert (throughput.value is None) is (decode == "tokens_unknown")
    stopped = replace(answer, trace=replace(answer.trace, finish_reason="stop"))
    assert read("decode_tokens_per_s", stopped) == pytest.approx(40)


@pytest.mark.parametrize(("prompt_tokens", "first_ms"), [(16, 4000), (512, 8000)])
def test_single_tokens_at_a_speed_far_beyond_their_prompts_were_held_back(prompt_tokens: int, first_ms: float) -> None:
    events = stream(first_ms, 1.0, 128)
    answer = sample(trace(events, prompt_tokens=prompt_tokens, output_tokens=128), point=Workload(prompt_tokens, 128))
    assert (read("decode_tokens_per_s", answer), read("ttft_ms", answer)) == ("buffered", "one_piece")
    soon = replace(answer, trace=replace(answer.trace, events=stream(first_ms / 4, 1.0, 128)))
    assert read("decode_tokens_per_s", soon) == pytest.approx(1000)


def test_an_answer_faster_than_any_prompt_was_held_back() -> None:
    """512 prompt tokens took no 5.2 s where 512 tokens of an answer take 80 ms."""
    events = [Event(5200 + 2 * place, Kind.ANSWER, 64) for place in range(40)]
    answer = sample(trace(events, output_tokens=512), point=Workload(512, 512))
    assert (read("decode_tokens_per_s", answer), read("ttft_ms", answer)) == ("buffered", "one_piece")
    assert "buffered" in flags_of(answer)
    waited = replace(answer, point=Workload(512, 512, 8))
    assert isinstance(read("decode_tokens_per_s", waited), float)


def test_3000_answers_have_the_figures_that_a_simple_reader_finds() -> None:
    """Single tokens: times and counts of the events, by the definitions of METRICS and nothing else."""
    rng = random.Random(7)
    for place in range(3000):
        made = make(rng)
        pieces = (read_late if place % 3 == 0 else one_by_one)(made, rng)
        answer = arrived(pieces, is_stated=place % 2 == 0)
        times = [at_ms for at_ms, _, _ in pieces]
        first = sum(at_ms == times[0] for at_ms in times)
        decode = read("decode_tokens_per_s", answer)
        assert read("e2e_ms", answer) == times[-1]
        if isinstance(decode, float):
            close = 1e-6 if first == 1 else 1 / (len(times) - first)
            assert decode == pytest.approx((len(times) - first) / (times[-1] - times[0]) * 1000, rel=close)
        if first == 1:
            assert isinstance(decode, float)
            assert read("ttft_ms", answer) == times[0]
            assert read("prefill_tokens_per_s", answer) == pytest.approx(512 / times[0] * 1000)


def test_the_worse_end_counts_for_how_far_a_speed_may_be_off() -> None:
    """16 tokens in 330 ms, 48.5 tok/s: without the first arrival 12 in 230 ms, without the last 12 in 300 ms."""
    moments = [Arrival(at_ms, 4.0) for at_ms in (0, 100, 200, 300, 330)]
    of_ends = 1 - (12 / 300) / (16 / 330)
    assert of_ends > abs((12 / 230) / (16 / 330) - 1)
    arrivals = Arrivals(tuple(moments), 20, 0.0, True, 1, 0)
    assert arrivals.relative_error == pytest.approx(0.5 / 16 + of_ends + 3 / 330)
    backwards = [Arrival(330 - moment.at_ms, 4.0) for moment in moments[::-1]]
    of_ends = (12 / 230) / (16 / 330) - 1
    assert replace(arrivals, moments=tuple(backwards)).relative_error == pytest.approx(
        0.5 / 16 + max(of_ends, 1 - (12 / 300) / (16 / 330)) + 3 / 330
    )
    assert replace(arrivals, is_bundled=False, unplaced=0.8).relative_error == pytest.approx(1.3 / 16)
    assert replace(arrivals, is_bundled=False, first_events=2).relative_error == pytest.approx(1 / 16)
    singles = tuple(Arrival(25.0 * place, 1.0) for place in range(11))
    assert Arrivals(singles, 11, 0.0, False, 1, 0).relative_error == 0
    assert Arrivals(tuple(moments[:3]), 12, 0.0, True, 1, 0).relative_error == math.inf
