"""Each formula of METRICS, by hand-computed values, and each reason for a null."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.samples import CacheDefeat, CountSource, Event, Kind, Sample, Status, Workload
from app.metrics import (
    HEADLINE_METRICS,
    NULL_REASONS,
    MetricResult,
    compute_metrics,
    flags_of,
    headline_metrics,
    metrics,
)
from tests.metrics.measuring import measured
from tests.traces import figures, sample, stream, trace


def read(key: str, one_sample: Sample) -> dict[str, float | str | None]:
    return {
        reading.source: reading.null_reason if reading.value is None else reading.value
        for reading in metrics()[key].read([one_sample])
    }


def test_the_triple_comes_first_and_every_metric_explains_itself() -> None:
    assert tuple(metrics())[:3] == HEADLINE_METRICS
    for metric in metrics().values():
        assert metric.explanation.endswith(".")
        assert metric.better in ("higher", "lower")


def test_a_clean_stream() -> None:
    one_sample = sample()
    assert read("ttft_ms", one_sample) == {"client": 800}
    assert read("ttfa_ms", one_sample) == {"client": 800}
    assert read("e2e_ms", one_sample) == {"client": 1050}
    assert read("decode_tokens_per_s", one_sample) == {"client": pytest.approx(40)}
    assert read("tpot_ms", one_sample) == {"client": pytest.approx(25)}
    assert read("prefill_tokens_per_s", one_sample) == {"client": pytest.approx(640)}
    assert read("itl_ms_p50", one_sample) == {"client": pytest.approx(25)}
    assert read("output_tokens_per_s", one_sample) == {"client": pytest.approx(11 / 1.05)}


def test_both_sides_stand_side_by_side() -> None:
    one_sample = sample(trace(server=figures()))
    assert read("prefill_tokens_per_s", one_sample) == {
        "server": pytest.approx(512 / 0.79),
        "client": pytest.approx(640),
    }
    assert read("decode_tokens_per_s", one_sample) == {"client": pytest.approx(40), "server": pytest.approx(40)}
    assert headline_metrics(one_sample) == {
        "ttft_ms": 800,
        "prefill_tokens_per_s": pytest.approx(512 / 0.79),
        "decode_tokens_per_s": pytest.approx(40),
    }


@pytest.mark.parametrize(
    ("totals", "speed"),
    [
        ((3, 6, 9, 12), 9 / 0.075),  # the first event held three of the twelve
        ((9, 10, 11, 12), 3 / 0.075),  # eight came unseen before it
    ],
)
def test_tokens_that_the_first_event_is_known_to_hold_took_no_time_after_it(
    totals: tuple[int | None, ...], speed: float
) -> None:
    events = [Event(800 + 25 * place, Kind.ANSWER, 15, tokens) for place, tokens in enumerate(totals)]
    one_sample = sample(trace(events, output_tokens=12), point=Workload(512, 12))
    assert read("decode_tokens_per_s", one_sample) == {"client": pytest.approx(speed)}
    assert read("tpot_ms", one_sample) == {"client": pytest.approx(1000 / speed)}


@pytest.mark.parametrize("totals", [(None,) * 4, (0, 6, 9, 12), (12, 12, 12, 12)])
def test_without_running_totals_the_text_tells_how_many_tokens_the_first_event_held(
    totals: tuple[int | None, ...],
) -> None:
    """Of 12 tokens in 4 events nobody knows within 10 %; of 192 in 16 events one does."""
    few = [Event(800 + 25 * place, Kind.ANSWER, 15, tokens) for place, tokens in enumerate(totals)]
    one_sample = sample(trace(few, output_tokens=12), point=Workload(512, 12))
    assert read("decode_tokens_per_s", one_sample) == {"client": "too_few_events"}
    many = [Event(800 + 100 * place, Kind.ANSWER, 60, totals[place // 4]) for place in range(16)]
    one_sample = sample(trace(many, output_tokens=192), point=Workload(512, 192))
    assert read("decode_tokens_per_s", one_sample) == {"client": pytest.approx(180 / 1.5)}


def test_when_most_tokens_came_nobody_knows() -> None:
    """500 tokens counted, 20 seen 20 ms apart: neither 1,313 tok/s nor 50 is known."""
    few = trace(stream(5200, 20, tokens=20, size_bytes=4), output_tokens=500)
    assert read("decode_tokens_per_s", sample(few, point=Workload(512, 500))) == {"client": "hidden_tokens"}
    behind_role = replace(few, events=(Event(200, Kind.HIDDEN), *few.events[1:]))
    values = read("decode_tokens_per_s", sample(behind_role, point=Workload(512, 500)))
    assert values == {"client": pytest.approx(499 / 5.38)}  # from 200 to 5,580 ms


def test_reasoning_that_a_server_keeps_to_itself_is_in_ttft_and_in_no_speed() -> None:
    """11 tokens in 250 ms were seen; 100 more were only counted."""
    one_sample = sample(trace(output_tokens=111, reasoning_tokens=100), point=Workload(512, 111))
    assert read("ttft_ms", one_sample) == {"client": 800}
    assert read("decode_tokens_per_s", one_sample) == {"client": pytest.approx(40)}
    assert read("tpot_ms", one_sample) == {"client": pytest.approx(25)}
    assert read("prefill_tokens_per_s", one_sample) == {"client": "unseen_reasoning"}
    assert read("output_tokens_per_s", one_sample) == {"client": pytest.approx(111 / 1.05)}


def test_reasoning_starts_ttft_but_not_the_answer() -> None:
    events = [
        Event(3, Kind.ROLE),
        Event(300, Kind.REASONING, 5),
        Event(330, Kind.REASONING, 5),
        Event(900, Kind.ANSWER, 5),
        Event(930, Kind.ANSWER, 5),
    ]
    one_sample = sample(trace(events, output_tokens=4))
    assert read("ttft_ms", one_sample) == {"client": 300}
    assert read("ttfa_ms", one_sample) == {"client": 900}


def test_a_hidden_token_is_the_first_one() -> None:
    events = [Event(200, Kind.HIDDEN), Event(985, Kind.ANSWER, 5), Event(1085, Kind.HIDDEN)]
    one_sample = sample(trace(events, output_tokens=10))
    assert read("ttft_ms", one_sample) == {"client": 200}
    assert read("decode_tokens_per_s", one_sample) == {"client": pytest.approx(9 / 0.885)}


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"events": ()}, "ttft_ms", "no_token"),
        ({"events": (), "not_streamed": True}, "ttft_ms", "not_streamed"),
        ({"events": (), "not_streamed": True}, "decode_tokens_per_s", "not_streamed"),
        ({"output_tokens": None}, "decode_tokens_per_s", "no_token"),
        ({"output_tokens": 1, "events": stream(tokens=1)}, "decode_tokens_per_s", "one_token"),
        ({"events": stream(gap_ms=0, tokens=3), "output_tokens": 3}, "decode_tokens_per_s", "zero_span"),
        ({"events": stream(gap_ms=0)}, "decode_tokens_per_s", "buffered"),
        ({"events": stream(gap_ms=0)}, "itl_ms_p50", "buffered"),
        ({"prompt_tokens": None}, "prefill_tokens_per_s", "prompt_tokens_unknown"),
        ({"prompt_tokens": 31}, "prefill_tokens_per_s", "too_few_fresh_tokens"),
        ({"cached_tokens": 500}, "prefill_tokens_per_s", "cached"),
        ({"events": stream(tokens=1)}, "itl_ms_max", "few_gaps"),
        ({"events": (Event(1, Kind.REASONING, 3),)}, "ttfa_ms", "no_answer_token"),
    ],
)
def test_a_null_has_a_reason(changes: dict[str, Any], key: str, reason: str) -> None:
    assert read(key, sample(trace(**changes)))["client"] == reason
    assert NULL_REASONS[reason].endswith(".")


def test_an_unknown_cache_makes_prefill_unknown_only_without_defeat() -> None:
    unknown = trace(cached_tokens=None)
    assert read("prefill_tokens_per_s", sample(unknown, cache_defeat=CacheDefeat.NONE)) == {
        "client": "cache_state_unknown"
    }
    assert read("prefill_tokens_per_s", sample(unknown, cache_defeat=CacheDefeat.NONCE)) == {"client": 640}


def test_cached_tokens_are_not_prefilled() -> None:
    partly = sample(trace(cached_tokens=112))
    assert read("prefill_tokens_per_s", partly) == {"client": pytest.approx(400 / 0.8)}


def test_the_first_token_of_a_server_is_no_interval() -> None:
    one_token = sample(trace(server=figures(output_tokens=1, decode_ms=0.001)))
    assert read("decode_tokens_per_s", one_token)["server"] == "one_token"


def test_statistics_take_only_usable_samples_and_say_what_they_left_out() -> None:
    good = [sample(trace(stream(gap_ms=gap)), ordinal=index) for index, gap in enumerate((20, 25, 40))]
    broken = sample(trace(status=Status.INCOMPLETE), ordinal=3)
    warmup = sample(trace(stream(gap_ms=1)), ordinal=4, is_warmup=True)
    decode = measured([*good, broken, warmup])["decode_tokens_per_s", "client"]
    assert decode.value == pytest.approx(40)
    assert decode.minimum == pytest.approx(25)
    assert decode.maximum == pytest.approx(50)
    assert decode.samples == 3
    assert decode.left_out == {"incomplete": 1}
    assert decode.low is not None
    assert decode.low < 40 < (decode.high or 0)


def test_one_sample_has_no_interval() -> None:
    decode = measured([sample()])["decode_tokens_per_s", "client"]
    assert (decode.samples, decode.low, decode.high, decode.standard_deviation) == (1, None, None, None)


def test_a_cached_prompt_spoils_ttft_but_not_decode() -> None:
    results = measured([sample(trace(cached_tokens=500))])
    assert results["ttft_ms", "client"].null_reason == "cached"
    assert results["prefill_tokens_per_s", "client"].null_reason == "cached"
    assert results["decode_tokens_per_s", "client"].value == pytest.approx(40)


def test_without_any_usable_sample_the_triple_is_null_with_a_reason() -> None:
    results = measured([sample(trace(status=Status.FAILED, events=(), output_tokens=None))])
    for key in HEADLINE_METRICS:
        assert results[key, "client"].value is None
        assert results[key, "client"].null_reason == "no_usable_sample"


def test_prefill_by_slope_cancels_constant_overhead() -> None:
    samples = [
        sample(
            trace(stream(first_ms=100 + tokens / 2), prompt_tokens=tokens),
            point=Workload(tokens, 11),
            ordinal=ordinal,
        )
        for ordinal, tokens in enumerate([200] * 3 + [2000] * 3 + [8000] * 3)
    ]
    slopes = [result for result in compute_metrics(samples) if result.source == "slope"]
    assert [result.point.prompt_tokens for result in slopes] == [2000, 8000]
    assert all(result.value == pytest.approx(2000) for result in slopes)


def slopes(*lengths: tuple[int, Sequence[float]]) -> list[MetricResult]:
    """Of prompts of so many tokens with these TTFTs."""
    samples = [
        sample(trace(stream(first_ms=ttft_ms), prompt_tokens=tokens), point=Workload(tokens, 11))
        for tokens, ttfts in lengths
        for ttft_ms in ttfts
    ]
    return [result for result in compute_metrics(samples) if result.source == "slope"]


def test_the_interval_of_a_slope_is_the_one_of_the_difference_of_the_ttfts() -> None:
    """1,800 tokens more in 900 ms more: errors 100/3 and 400/3, 2.9 degrees of freedom, so 900 +- 4.303 x 12.91 ms."""
    (slope,) = slopes((200, [190, 200, 210]), (2000, [1080, 1100, 1120, 1100]))
    assert slope.value == pytest.approx(2000)
    (slope,) = slopes((200, [190, 200, 210]), (2000, [1080, 1100, 1120]))
    half_ms = 4.303 * math.sqrt(500 / 3)
    assert slope.value == pytest.approx(2000)
    assert slope.low == pytest.approx(1800 / (900 + half_ms) * 1000, rel=1e-3)
    assert slope.high == pytest.approx(1800 / (900 - half_ms) * 1000, rel=1e-3)
    assert (slope.low or 0) < 2000 < (slope.high or 0)


def test_a_slope_is_of_as_many_samples_as_its_smaller_side_has() -> None:
    (slope,) = slopes((200, [190, 200, 210, 200]), (2000, [1080, 1100, 1120]))
    assert slope.samples == 3
    (few,) = slopes((200, [190, 210]), (2000, [1080, 1100, 1120]))
    assert few.value == pytest.approx(2000)
    assert (few.samples, few.low, few.high) == (2, None, None)


def test_a_slope_needs_a_wait_that_grew_and_a_speed_that_can_be() -> None:
    """The means of the third pair differ beyond chance, its medians do not."""
    for lengths in (
        ((200, [100, 100, 100]), (2000, [100, 100, 100])),
        ((200, [100, 100, 100]), (2000, [90, 90, 90])),
        ((200, [100, 100, 100]), (2000, [100] * 6 + [110] * 5)),
    ):
        (slope,) = slopes(*lengths)
        assert (slope.value, slope.low, slope.high, slope.null_reason) == (None, None, None, "no_slope")
    (slope,) = slopes((200, [100, 100, 100]), (240, [100.5, 100.5, 100.5]))
    assert (slope.value, slope.low, slope.high, slope.null_reason) == (80_000, 80_000, 80_000, None)
    (slope,) = slopes((200, [100, 100, 100]), (2000, [105, 105, 105]))  # 360,000 tok/s
    assert (slope.value, slope.low, slope.high, slope.null_reason) == (None, None, None, "implausible")
    assert slopes((200, [100, 100, 100]), (231, [110, 110, 110])) == []  # 31 tokens are too few


def test_a_slope_is_of_usable_samples_of_single_streams_in_order_of_length() -> None:
    short, long = (200, [190, 200, 210]), (2000, [1080, 1100, 1120])
    assert slopes(long, short) == slopes(short, long)

    def with_long(**changes: Any) -> list[MetricResult]:
        point = changes.pop("point", Workload(2000, 11))
        samples = [
            sample(trace(stream(first_ms=ttft_ms), prompt_tokens=tokens), point=Workload(tokens, 11))
            for tokens, ttfts in (short, long)
            for ttft_ms in ttfts
        ]
        odd = sample(trace(stream(first_ms=9000), prompt_tokens=2000), point=point, **changes)
        return [result for result in compute_metrics([*samples, odd, odd, odd, odd]) if result.source == "slope"]

    clean = slopes(short, long)
    assert with_long(flags=("incomplete",)) == clean
    assert with_long(is_warmup=True) == clean
    assert with_long(point=Workload(2000, 11, 2)) == clean
    assert with_long() != clean


def test_a_slope_that_may_be_none_has_a_value_and_no_interval() -> None:
    (slope,) = slopes((200, [100, 200, 300]), (2000, [200, 300, 400]))
    assert slope.value == pytest.approx(18_000)
    assert (slope.low, slope.high, slope.null_reason) == (None, None, None)
    (flat,) = slopes((200, [300, 300, 300]), (2000, [200, 200, 200]))
    assert (flat.value, flat.low, flat.high, flat.null_reason) == (None, None, None, "no_slope")


def test_the_interval_of_a_slope_holds_the_slope() -> None:
    """Slow first tokens, fewer than half, move the mean and not the median, beyond the interval of the mean."""
    (late_start,) = slopes((200, [200] * 12 + [300] * 8), (2000, [1100] * 20))
    assert late_start.value == late_start.low == pytest.approx(2000)
    assert (late_start.high or 0) > 2100
    (late_end,) = slopes((200, [200] * 20), (2000, [1100] * 12 + [1200] * 8))
    assert late_end.value == late_end.high == pytest.approx(2000)
    assert (late_end.low or 0) < 1900


@pytest.mark.parametrize(("more", "count"), [(31, 0), (32, 1)])
def test_a_slope_needs_as_many_tokens_as_a_prefill(more: int, count: int) -> None:
    assert len(slopes((200, [100, 100, 100]), (200 + more, [200, 200, 200]))) == count


def test_one_length_has_no_slope() -> None:
    assert not [result for result in compute_metrics([sample(), sample(ordinal=1)]) if result.source == "slope"]


def test_exactly_one_source_is_shown() -> None:
    results = compute_metrics([sample(trace(server=figures()))])
    for key in HEADLINE_METRICS:
        assert [result.source for result in results if result.metric == key and result.is_shown] == [
            "server" if key == "prefill_tokens_per_s" else "client"
        ]


def test_a_null_source_is_not_shown_where_another_has_a_value() -> None:
    results = compute_metrics([sample(trace(stream(gap_ms=0), server=figures()))])
    shown = next(result for result in results if result.metric == "decode_tokens_per_s" and result.is_shown)
    assert shown.source == "server"
    assert shown.value == pytest.approx(40)


@pytest.mark.parametrize("duration", [1e-320, 1e-308, 1e308])
def test_a_reading_that_is_no_number_is_null(duration: float) -> None:
    one_sample = sample(trace(server=figures(prompt_ms=duration, decode_ms=duration)))
    for key in ("prefill_tokens_per_s", "decode_tokens_per_s", "tpot_ms"):
        for reading in metrics()[key].read([one_sample]):
            assert reading.value is None or 0 <= reading.value < float("inf")
            assert reading.value is not None or reading.null_reason in NULL_REASONS


def test_fresh_tokens_fall_back_where_the_server_states_none() -> None:
    for stated in (0, None):
        values = read("prefill_tokens_per_s", sample(trace(server=figures(prompt_tokens=stated))))
        assert values == {"client": pytest.approx(640)}


def test_each_source_counts_the_samples_that_it_has_no_value_of() -> None:
    clear = [sample(trace(server=figures()), ordinal=ordinal) for ordinal in range(2)]
    buffered = [
        sample(trace(stream(gap_ms=0), server=figures()), ordinal=2),
        sample(trace(stream(gap_ms=0)), ordinal=3),
    ]
    broken = sample(trace(status=Status.INCOMPLETE), ordinal=4)
    results = measured([*clear, *buffered, broken])
    client, server = (results["decode_tokens_per_s", source] for source in ("client", "server"))
    assert (client.samples, client.left_out) == (2, {"incomplete": 1, "buffered": 2})
    assert (server.samples, server.left_out) == (3, {"incomplete": 1, "not_stated": 1})
    assert set(server.left_out) - {"incomplete"} <= NULL_REASONS.keys()


@pytest.mark.parametrize("spoiler", [{"server": figures(load_ms=4000)}, {"cached_tokens": 100}])
def test_a_slope_takes_no_ttft_that_a_flag_has_spoiled(spoiler: dict[str, Any]) -> None:
    spoiled = sample(trace(stream(first_ms=5000), prompt_tokens=200, **spoiler), point=Workload(200, 11))
    long = sample(trace(prompt_tokens=2000), point=Workload(2000, 11), ordinal=1)
    results = compute_metrics([replace(s, flags=flags_of(s)) for s in (spoiled, long)])
    assert not [result for result in results if result.source == "slope"]


def test_hidden_tokens_alone_give_no_time() -> None:
    results = measured([sample(trace((Event(900, Kind.FINISH),), output_tokens=128))])
    assert results["ttft_ms", "client"].null_reason == "no_token"
    assert results["decode_tokens_per_s", "client"].null_reason == "no_token"


events = st.lists(
    st.builds(
        Event,
        at_ms=st.floats(0, 1e7),
        kind=st.sampled_from(Kind),
        size_bytes=st.integers(0, 100),
        tokens=st.none() | st.integers(0, 1000),
    ),
    max_size=30,
).map(lambda drawn: sorted(drawn, key=lambda event: event.at_ms))


@given(
    events,
    st.none() | st.integers(0, 10**9),
    st.none() | st.integers(0, 10**6),
    st.none() | st.integers(0, 10**6),
    st.sampled_from(Status),
    st.sampled_from(CacheDefeat),
    st.none() | st.sampled_from(CountSource),
    st.none()
    | st.builds(
        figures,
        prompt_tokens=st.none() | st.integers(0, 10**6),
        prompt_ms=st.none() | st.floats(0, allow_nan=False),
        output_tokens=st.none() | st.integers(0, 10**6),
        decode_ms=st.none() | st.floats(0, allow_nan=False),
        load_ms=st.none() | st.floats(0, 1e9),
    ),
)
def test_no_stream_gives_a_zero_an_infinity_or_an_exception(
    made: list[Event],
    prompt: int | None,
    cached: int | None,
    output: int | None,
    status: Status,
    defeat: CacheDefeat,
    count_source: CountSource | None,
    server: object,
) -> None:
    one_sample = sample(
        trace(
            made,
            prompt_tokens=prompt,
            cached_tokens=cached,
            output_tokens=output,
            status=status,
            server=server,
            count_source=count_source,
        ),
        cache_defeat=defeat,
    )
    for result in compute_metrics([replace(one_sample, flags=flags_of(one_sample))] * 3):
        if result.value is None:
            assert result.null_reason in NULL_REASONS
        else:
            assert result.value == result.value
            assert abs(result.value) != float("inf")
            assert result.value > 0 or result.metric.startswith(("itl", "ttf", "e2e", "draft", "load"))


def test_a_share_is_measured_in_per_cent() -> None:
    assert not [metric.key for metric in metrics().values() if metric.unit == "share"]
    server = figures(draft_tokens=75, draft_accepted_tokens=32, expert_hit_share=0.9)
    results = measured([sample(trace(server=server))])
    assert results["draft_acceptance", "server"].value == pytest.approx(100 * 32 / 75)
    assert results["expert_cache_hit_rate", "server"].value == pytest.approx(90)
