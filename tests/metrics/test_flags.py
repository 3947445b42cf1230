"""Each flag fires for its reason, and none of them on a clean sample."""

import pytest

from app.core.samples import CacheDefeat, CountSource, Event, Kind, Sample, Status, Workload
from app.metrics import FLAGS, flags_of, is_usable, refreshed_flags
from app.metrics.flags import Flag
from tests.traces import POINT, figures, sample, stream, trace

CLEAN = [
    sample(),
    sample(trace(server=figures())),
    sample(trace(), expected_prompt_tokens=512),
    sample(trace(stream(gap_ms=0.5))),  # 2,000 tok/s is fast, not buffered
    sample(trace(cached_tokens=None), cache_defeat=CacheDefeat.NONCE),
    sample(trace(cached_tokens=4)),  # a chat template's first block
    sample(trace(server=figures(load_ms=12))),
    sample(trace(stream(gap_ms=25), sched_delay_ms=1.9)),
    sample(trace(stream(gap_ms=100), sched_delay_ms=5)),  # a twentieth of a gap
    sample(sensors={"slept_s": 0.001}),
    sample(trace(reasoning_tokens=8)),  # it came as plain text
    sample(trace([Event(700, Kind.REASONING, 5), *stream(tokens=10)], reasoning_tokens=1)),
]


@pytest.mark.parametrize("flagged_sample", CLEAN)
def test_a_clean_sample_has_no_flag(flagged_sample: Sample) -> None:
    assert flags_of(flagged_sample) == ()


def bursts(of: int, count: int) -> tuple[Event, ...]:
    return tuple(Event(100 + 200 * burst + 0.01 * at, Kind.ANSWER, 5) for burst in range(count) for at in range(of))


CASES: dict[str, list[Sample]] = {
    "incomplete": [sample(trace(status=Status.INCOMPLETE))],
    "empty": [sample(trace((), output_tokens=0))],
    "not_streamed": [sample(trace((), not_streamed=True))],
    "buffered": [
        sample(trace(stream(gap_ms=0))),
        sample(trace(bursts(of=4, count=3), output_tokens=12), point=POINT),
        sample(trace(bursts(of=32, count=4), output_tokens=128)),
        sample(trace(bursts(of=20, count=26), output_tokens=520), point=Workload(512, 520)),
    ],
    "truncated_prompt": [sample(trace(prompt_tokens=200)), sample(expected_prompt_tokens=513)],
    "client_scheduling_delay": [
        sample(trace(stream(gap_ms=25), sched_delay_ms=3)),
        sample(trace(stream(30, tokens=1), sched_delay_ms=4)),
    ],
    "interrupted": [sample(sensors={"slept_s": 90.0}), sample(sensors={"cancelled": True})],
    "model_load": [sample(trace(server=figures(load_ms=1200)))],
    "cached": [sample(trace(cached_tokens=400))],
    "cache_state_unknown": [
        sample(trace(cached_tokens=None), cache_defeat=CacheDefeat.NONE),
        sample(trace(cached_tokens=None, prompt_tokens=4000), cache_defeat=CacheDefeat.NONCE),
        sample(
            trace(cached_tokens=None, prompt_tokens=640), cache_defeat=CacheDefeat.NONCE, expected_prompt_tokens=512
        ),
        sample(trace(stream(first_ms=2), cached_tokens=None), cache_defeat=CacheDefeat.NONCE),
    ],
    "early_stop": [
        sample(trace(output_tokens=7)),
        sample(trace(stream(tokens=7), output_tokens=7, count_source=CountSource.EVENTS, finish_reason="stop")),
    ],
    "exceeded_max_tokens": [sample(trace(output_tokens=12))],
    "multi_token_chunks": [sample(trace(stream(tokens=4, size_bytes=12), output_tokens=11))],
    "hidden_tokens": [
        sample(trace(stream(tokens=3, size_bytes=1), output_tokens=11)),
        sample(trace(stream(tokens=8), output_tokens=11, reasoning_tokens=3)),
    ],
    "token_count_estimated": [sample(trace(count_source=CountSource.EVENTS))],
    "unit_mismatch": [
        sample(trace(server=figures(prompt_ms=0.79, decode_ms=0.25))),
        sample(trace(server=figures(prompt_ms=790_000, decode_ms=250_000))),
    ],
    "too_few_events": [
        sample(trace(stream(tokens=1, size_bytes=55))),
        sample(trace(stream(tokens=3, gap_ms=100, size_bytes=20))),
        sample(trace(stream(tokens=6, gap_ms=1, size_bytes=400), output_tokens=512), point=Workload(512, 512)),
        sample(trace(stream(tokens=8, size_bytes=80), output_tokens=8, count_source=CountSource.EVENTS)),
    ],
    "count_mismatch": [
        sample(trace(total_tokens=512 + 9)),
        sample(trace(stream(tokens=16))),
    ],
    "client_server_mismatch": [
        sample(trace(server=figures(decode_ms=270.0))),
        sample(trace(server=figures(decode_ms=235.0))),
    ],
    "implausible": [
        sample(trace(output_tokens=999_999_999_999)),
        sample(trace(stream(tokens=40), output_tokens=1)),
        sample(trace(prompt_tokens=999_999_999_999)),
        sample(trace(server=figures(prompt_tokens=10**9))),
        sample(trace(server=figures(prompt_ms=0.01))),
        sample(trace(server=figures(prompt_ms=7900, decode_ms=2500))),
        sample(trace(server=figures(prompt_ms=79, decode_ms=25))),
        sample(trace(server=figures(decode_ms=3000))),
        sample(trace(server=figures(prompt_ms=790, decode_ms=2.5))),
        sample(trace(stream(first_ms=2))),
        sample(trace(prompt_tokens=4000), expected_prompt_tokens=512),
    ],
    "concurrent": [sample(sensors={"server_was_busy": True})],
}


NEAR_MISSES: dict[str, list[Sample]] = {
    "interrupted": [sample(sensors={"slept_s": 0.09}), sample(sensors={"cancelled": False})],
    "incomplete": [sample(trace(finish_reason=None))],
    "empty": [
        sample(trace(stream(tokens=1), output_tokens=1)),
        sample(trace((), not_streamed=True)),
        sample(trace((), status=Status.INCOMPLETE)),
    ],
    "not_streamed": [sample(trace(stream(tokens=1), output_tokens=1))],
    "buffered": [
        sample(trace([Event(200, Kind.ANSWER, 5), *stream(first_ms=9000, tokens=10)])),  # stood still for nine seconds
        sample(trace(stream(first_ms=30, gap_ms=0.06))),
        sample(trace(bursts(of=3, count=3), output_tokens=9)),
        sample(trace(bursts(of=7, count=9), output_tokens=63)),
        sample(trace(bursts(of=4, count=1), output_tokens=4)),
    ],
    "truncated_prompt": [
        sample(trace(prompt_tokens=256)),
        sample(expected_prompt_tokens=512),
        sample(trace(prompt_tokens=None)),
    ],
    "model_load": [sample(trace(server=figures(load_ms=99))), sample(trace(server=figures(load_ms=None)))],
    "cached": [sample(trace(cached_tokens=10)), sample(trace(cached_tokens=500), reuses_cache=True)],
    "cache_state_unknown": [
        sample(trace(cached_tokens=0), cache_defeat=CacheDefeat.NONE),
        sample(trace(cached_tokens=None), cache_defeat=CacheDefeat.NONCE),
        sample(trace(cached_tokens=None, prompt_tokens=700), cache_defeat=CacheDefeat.NONCE),
        sample(trace(cached_tokens=0, prompt_tokens=4000), cache_defeat=CacheDefeat.NONCE),
        sample(trace(cached_tokens=None), cache_defeat=CacheDefeat.NONE, reuses_cache=True),
    ],
    "early_stop": [sample(trace(output_tokens=11)), sample(trace((), output_tokens=7, not_streamed=True))],
    "exceeded_max_tokens": [sample(trace(output_tokens=11)), sample(trace(output_tokens=None))],
    "multi_token_chunks": [
        sample(trace(stream(tokens=10))),
        sample(trace(stream(tokens=4), count_source=CountSource.EVENTS, output_tokens=4)),
    ],
    "hidden_tokens": [
        sample(trace(stream(tokens=3, size_bytes=4), output_tokens=11)),
        sample(trace(stream(tokens=10, size_bytes=1))),
        sample(trace(stream(tokens=10), reasoning_tokens=1)),
    ],
    "token_count_estimated": [sample(trace(count_source=CountSource.TIMINGS))],
    "unit_mismatch": [
        sample(trace(server=figures(prompt_ms=79, decode_ms=25))),
        sample(trace(server=figures(prompt_ms=4, prompt_tokens=40), prompt_tokens=40), point=Workload(40, 11)),
        sample(trace(server=figures(load_ms=700.0, prompt_ms=90.0))),
    ],
    "too_few_events": [
        sample(trace(stream(tokens=1), output_tokens=1)),
        sample(trace(stream(tokens=8, gap_ms=160, size_bytes=80), output_tokens=128), point=Workload(512, 128)),
        sample(trace((), not_streamed=True)),
    ],
    "count_mismatch": [
        sample(trace(total_tokens=512 + 11)),
        sample(trace(total_tokens=512 + 11 + 100, cached_tokens=100)),
        sample(trace(stream(tokens=15))),
        sample(trace(total_tokens=600, prompt_tokens=None)),
    ],
    "client_server_mismatch": [
        sample(trace(server=figures(decode_ms=262.0))),
        sample(trace(server=figures(decode_ms=0.25))),
        sample(trace(stream(tokens=1), server=figures())),
    ],
    "implausible": [
        sample(trace(server=figures(prompt_ms=1600.0))),
        sample(trace(server=figures(decode_ms=51.0))),
        sample(trace(output_tokens=120)),
        sample(trace(stream(tokens=20))),
    ],
    "concurrent": [sample(sensors={"server_was_busy": False})],
    "client_scheduling_delay": [
        sample(trace(stream(gap_ms=1), sched_delay_ms=2.0)),
        sample(trace(stream(gap_ms=31), sched_delay_ms=3.0)),
    ],
}  # fmt: skip
"""Just this side of each flag's rule, or of one of its exceptions."""


def test_every_flag_has_a_case() -> None:
    """Of those that a single sample tells: see test_drift.py for the other one."""
    single = {key for key, flag in FLAGS.items() if flag.holds is not None}
    assert CASES.keys() == NEAR_MISSES.keys() == single


@pytest.mark.parametrize(
    ("flag", "flagged_sample"),
    [(flag, flagged_sample) for flag, samples in NEAR_MISSES.items() for flagged_sample in samples],
)
def test_a_flag_does_not_fire(flag: str, flagged_sample: Sample) -> None:
    assert flag not in flags_of(flagged_sample)


@pytest.mark.parametrize(
    ("flag", "flagged_sample"),
    [(flag, flagged_sample) for flag, samples in CASES.items() for flagged_sample in samples],
)
def test_a_flag_fires(flag: str, flagged_sample: Sample) -> None:
    assert flag in flags_of(flagged_sample)


@pytest.mark.parametrize("flag", FLAGS.values(), ids=FLAGS.keys())
def test_a_flag_explains_itself_and_advises(flag: Flag) -> None:
    assert flag.sentence.endswith(".")
    assert flag.advice.endswith(".")


def test_small_bursts_of_a_speculating_server_are_not_buffering() -> None:
    assert "buffered" not in flags_of(sample(trace(bursts(of=3, count=43), output_tokens=129)))


def test_large_bursts_of_a_server_that_says_that_it_speculates_are_not_buffering() -> None:
    guessing = figures(output_tokens=192, decode_ms=2200.0, draft_tokens=180, draft_accepted_tokens=170)
    assert "buffered" not in flags_of(sample(trace(bursts(of=16, count=12), output_tokens=192, server=guessing)))


def test_a_reader_kept_waiting_for_milliseconds_is_not_buffering() -> None:
    late = [Event(100 + 10 * (at // 20) + 0.02 * (at % 20), Kind.ANSWER, 5) for at in range(600)]  # 2,000 tok/s
    assert "buffered" not in flags_of(sample(trace(late, output_tokens=600), point=Workload(512, 600)))


def test_one_long_stall_is_not_buffering() -> None:
    stalled = [*stream(tokens=64, gap_ms=1.1)[1:-1], *stream(first_ms=1400, tokens=64, gap_ms=1.1)[1:-1]]
    assert "buffered" not in flags_of(sample(trace(stalled, output_tokens=128)))


def test_an_early_end_of_an_unknown_count_is_not_called_short() -> None:
    cut = trace(stream(tokens=7), output_tokens=7, count_source=CountSource.EVENTS, finish_reason="length")
    assert "early_stop" not in flags_of(sample(cut))


def test_a_failed_sample_has_an_error_not_flags() -> None:
    assert flags_of(sample(trace((), status=Status.FAILED))) == ()


@pytest.mark.parametrize("flag", [key for key, flag in FLAGS.items() if flag.disqualifies])
def test_a_disqualifying_flag_keeps_a_sample_out(flag: str) -> None:
    assert not is_usable(sample(flags=(flag,)))


@pytest.mark.parametrize("flag", [key for key, flag in FLAGS.items() if not flag.disqualifies])
def test_other_flags_do_not(flag: str) -> None:
    assert is_usable(sample(flags=(flag,)))


def test_an_answer_without_visible_tokens_is_empty_only_if_nothing_was_counted() -> None:
    hidden = sample(trace((Event(900, Kind.FINISH),), output_tokens=128))
    assert "hidden_tokens" in flags_of(hidden)
    assert "empty" not in flags_of(hidden)
    for n in (None, 0, 1):  # one is the end token
        assert "empty" in flags_of(sample(trace((Event(900, Kind.FINISH),), output_tokens=n)))


def test_characters_of_several_tokens_hide_none() -> None:
    emoji = sample(trace(stream(tokens=20, size_bytes=4), output_tokens=60), point=Workload(512, 60))
    assert "hidden_tokens" not in flags_of(emoji)
    assert "multi_token_chunks" in flags_of(emoji)


@pytest.mark.parametrize(
    ("size_bytes", "tokens", "flag"),
    [
        (5, 42, None),  # two tokens of forty are no more than a twentieth
        (5, 43, "multi_token_chunks"),
        (1, 42, None),
        (1, 43, "hidden_tokens"),  # more tokens than bytes: their text never showed
    ],
)
def test_more_than_a_twentieth_beyond_the_events(size_bytes: int, tokens: int, flag: str | None) -> None:
    events = stream(tokens=40, size_bytes=size_bytes)
    flags = set(flags_of(sample(trace(events, output_tokens=tokens), point=Workload(512, tokens))))
    assert flags & {"multi_token_chunks", "hidden_tokens"} == ({flag} if flag else set())


def test_flags_of_a_stored_sample_are_judged_anew_where_its_record_can() -> None:
    undecided = next(key for key, flag in FLAGS.items() if flag.holds is None)
    cold = trace(server=figures(load_ms=1200))
    assert refreshed_flags(sample(cold)) == ("model_load",)
    assert refreshed_flags(sample(cold, flags=("early_stop", "of_another_version"))) == (
        "model_load",
        "of_another_version",
    )
    assert set(refreshed_flags(sample(cold, flags=(undecided,)))) == {"model_load", undecided}
    failed = sample(trace(status=Status.FAILED), flags=("early_stop",))
    assert refreshed_flags(failed) == ("early_stop",)
    assert flags_of(failed) == ()
