"""Figures that cannot be spoil only what they belong to; honest ones, however far apart, spoil nothing."""

from dataclasses import replace

import pytest

from app.core.samples import CacheDefeat, Sample, ServerFigures, Workload
from app.metrics import flags_of, headline_metrics, metrics
from app.metrics.prefill import fresh_prompt_tokens
from app.metrics.sensors import prefill_span_ms
from tests.metrics.measuring import measured
from tests.traces import figures, sample, stream, trace

IMPOSSIBLE = {
    "seconds": figures(prompt_ms=0.79, decode_ms=0.25),
    "microseconds": figures(prompt_ms=790_000, decode_ms=250_000),
    "a tenth": figures(prompt_ms=79, decode_ms=25),
    "prefill of another request": figures(prompt_ms=0.01),
    "decode of another request": figures(decode_ms=9000),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_durations_of_the_server_leave_the_clients_numbers(name: str) -> None:
    samples = [sample(trace(server=IMPOSSIBLE[name]), ordinal=ordinal) for ordinal in range(3)]
    results = measured(samples)
    for key in ("prefill_tokens_per_s", "decode_tokens_per_s"):
        assert results[key, "server"].value is None
        assert results[key, "server"].null_reason in ("unit_mismatch", "implausible")
        assert results[key, "client"].is_shown
    flagged = replace(samples[0], flags=flags_of(samples[0]))
    assert headline_metrics(flagged)["prefill_tokens_per_s"] == pytest.approx(640)


def test_impossible_counts_spoil_what_is_computed_of_them() -> None:
    many_out = measured([sample(trace(output_tokens=10**9))])
    assert many_out["decode_tokens_per_s", "client"].null_reason == "implausible"
    assert many_out["output_tokens_per_s", "client"].null_reason == "implausible"
    assert many_out["ttft_ms", "client"].value == 800
    few_out = measured([sample(trace(stream(tokens=40), output_tokens=n)) for n in (1, 5)])
    assert few_out["decode_tokens_per_s", "client"].value is None
    assert few_out["output_tokens_per_s", "client"].null_reason == "implausible"
    assert few_out["ttft_ms", "client"].value == 800
    many_in = measured([sample(trace(prompt_tokens=10**9))])
    assert many_in["prefill_tokens_per_s", "client"].null_reason == "implausible"
    assert many_in["decode_tokens_per_s", "client"].value == pytest.approx(40)


OTHER_UNITS = {
    "prefill in seconds": figures(prompt_ms=0.79),
    "prefill in microseconds": figures(prompt_ms=790_000),
    "decode in seconds": figures(decode_ms=0.25),
    "decode in nanoseconds": figures(decode_ms=250_000_000),
    "all in milliseconds, taken for nanoseconds": figures(prompt_ms=0.00079, decode_ms=0.00025),
    "load in microseconds": figures(load_ms=600_000),
    "queue in microseconds": figures(queue_ms=700_000),
}


@pytest.mark.parametrize("name", OTHER_UNITS)
def test_a_single_duration_in_another_unit_is_noticed(name: str) -> None:
    assert {"unit_mismatch", "implausible"} & set(flags_of(sample(trace(server=OTHER_UNITS[name])))) == {
        "unit_mismatch"
    }


@pytest.mark.parametrize("wrong", [figures(prompt_tokens=40, prompt_ms=1e-308), figures(decode_ms=1e-5)])
def test_what_is_shorter_than_a_microsecond_was_never_measured(wrong: ServerFigures) -> None:
    short = sample(trace(stream(first_ms=20, gap_ms=1), prompt_tokens=40, server=wrong), point=Workload(40, 11))
    assert "implausible" in flags_of(short)


@pytest.mark.parametrize("wrong", [figures(load_ms=9_000), figures(queue_ms=9_000), figures(prompt_ms=9_000)])
def test_nothing_before_the_first_token_lasts_longer_than_the_wait_for_it(wrong: ServerFigures) -> None:
    assert "implausible" in flags_of(sample(trace(server=wrong)))


WAITED = trace(stream(first_ms=33_000), server=figures(prompt_ms=60.0))
"""For seven others on a server with one slot."""

SOUND = [
    sample(WAITED, point=Workload(512, 11, 8)),
    sample(WAITED, sensors={"server_was_busy": True}),
    sample(trace(server=figures(prompt_ms=80, load_ms=300, queue_ms=400))),
    sample(trace(server=figures(prompt_ms=20.0))),  # most of TTFT is network, queue and set-up
    sample(trace(server=figures(prompt_tokens=40, prompt_ms=0.5), prompt_tokens=40), point=Workload(40, 11)),
    sample(trace(stream(tokens=14), output_tokens=11)),  # a tool's name in several pieces
    sample(trace(server=figures(decode_ms=500.0))),  # tokens before the first visible one
    sample(trace(stream(gap_ms=0), server=figures())),  # held back by a proxy: the server is right
    sample(trace(stream(tokens=30), output_tokens=100)),  # the limit is ignored, the reasoning hidden
    sample(trace(prompt_tokens=2000), point=Workload(16, 11)),  # a long chat template
    sample(trace((), not_streamed=True, end_ms=1050, server=figures())),
]


def test_who_waited_for_nobody_waited_for_its_prompt() -> None:
    assert {"implausible", "unit_mismatch"} & set(flags_of(sample(WAITED)))
    stating = replace(WAITED, server=figures(prompt_ms=60.0, queue_ms=3.0))
    assert {"implausible", "unit_mismatch"} & set(flags_of(sample(stating, point=Workload(512, 11, 8))))


@pytest.mark.parametrize("honest", SOUND)
def test_honest_figures_are_plausible(honest: Sample) -> None:
    assert not {"implausible", "unit_mismatch"} & set(flags_of(honest))


@pytest.mark.parametrize(
    ("prompt_tokens", "prompt_ms", "defeat", "reason"),
    [
        (530, 790.0, CacheDefeat.NONCE, None),
        (700, 790.0, CacheDefeat.NONCE, None),  # another tokenizer, a chat template
        (893, 790.0, CacheDefeat.NONCE, "cache_state_unknown"),  # a system prompt, which stands before any nonce
        (4000, 790.0, CacheDefeat.NONCE, "cache_state_unknown"),
        (4000, 12.0, CacheDefeat.NONCE, "cache_state_unknown"),
        (600, 1.8, CacheDefeat.NONCE, "cache_state_unknown"),  # 333,333 tok/s
        (600, 1.8, CacheDefeat.SWITCH, "cache_state_unknown"),
    ],
)
def test_a_prompt_that_may_hold_cached_tokens_has_no_speed(
    prompt_tokens: int, prompt_ms: float, defeat: CacheDefeat, reason: str | None
) -> None:
    """On engines that state no cached tokens; the nonce protects only what follows it."""
    server = figures(prompt_tokens=prompt_tokens, prompt_ms=prompt_ms)
    events = stream(first_ms=prompt_ms + 10)
    answer = sample(trace(events, prompt_tokens=prompt_tokens, cached_tokens=None, server=server), cache_defeat=defeat)
    answer = replace(answer, flags=flags_of(answer))
    readings = metrics()["prefill_tokens_per_s"].read([answer])
    if reason is None:
        assert all(reading.value for reading in readings)
        assert "cache_state_unknown" not in answer.flags
    else:
        assert {reading.null_reason for reading in readings} == {reason}
        assert "cache_state_unknown" in answer.flags


def test_a_prefill_beyond_any_hardware_is_none() -> None:
    answer = sample(trace(stream(first_ms=1.5, gap_ms=25), server=figures(prompt_ms=1.2)))
    assert "implausible" in flags_of(answer)
    assert {reading.null_reason for reading in metrics()["prefill_tokens_per_s"].read([answer])} == {"implausible"}
    small = sample(trace(stream(first_ms=4, gap_ms=25), server=figures(prompt_ms=3.5)))  # 146,286 tok/s
    assert "implausible" not in flags_of(small)


WAITED_FIRST = {"load_ms": 9_900.0, "queue_ms": 9_900.0}


@pytest.mark.parametrize("name", WAITED_FIRST)
def test_what_came_before_the_prompt_is_no_time_of_the_prompt(name: str) -> None:
    """Of 10 s, 9.9 s were loading or queueing: the prompt took 0.1 s, and 2,000 tok/s held nothing back."""
    server = figures(prompt_ms=90.0, decode_ms=5.0, **{name: WAITED_FIRST[name]})
    waited = sample(trace(stream(first_ms=10_000, gap_ms=0.5), server=server))
    assert not {"implausible", "unit_mismatch", "buffered"} & set(flags_of(waited))
    at_once = sample(trace(stream(first_ms=10_000, gap_ms=0.5), server=figures(prompt_ms=9_990.0, decode_ms=5.0)))
    assert "buffered" in flags_of(at_once)


def test_cached_tokens_are_no_speed() -> None:
    """32 fresh tokens in 2 ms are 16,000 tok/s; all 512 of them were 256,000."""
    events = stream(first_ms=2)
    assert "implausible" not in flags_of(sample(trace(events, cached_tokens=480)))
    assert "implausible" in flags_of(sample(trace(events, cached_tokens=0)))
    assert "implausible" in flags_of(sample(trace(events, cached_tokens=100)))  # 206,000


@pytest.mark.parametrize(("cached", "fresh"), [(0, 512), (500, 12), (512, 0), (600, 0)])
def test_fresh_tokens_are_never_less_than_none(cached: int, fresh: int) -> None:
    assert fresh_prompt_tokens(sample(trace(cached_tokens=cached))) == fresh


def test_an_answer_without_tokens_has_no_time_of_its_prompt() -> None:
    assert prefill_span_ms([sample(trace(()))]) is None
    assert prefill_span_ms([sample(), sample(trace(stream(first_ms=700)))]) == (0, 700)
