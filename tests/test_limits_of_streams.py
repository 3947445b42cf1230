"""What several streams do to each other is told apart from waiting for a slot, and from the work of strangers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.samples import Event, Kind, Sample, Workload
from app.metrics.overlap import with_prefill_overlaps
from app.results.ceiling import Evidence, Limit, Placement, limits, limits_of_run, run_ceilings
from app.results.ceiling.limits.streams import covered_ms, waits
from tests.ceilings import card, measured, placement_of
from tests.traces import figures, sample, stream, trace

ALONE = [sample(trace(stream(450, 10), server=figures(prompt_ms=440.0)), ordinal=n) for n in range(3)]


def played(*streams: tuple[float, float | None], queue_ms: float | None = None, **changes: Any) -> list[Sample]:
    """A round of streams: when the first token of each came, and how long its prompt took, as the server says."""
    server = [None if ms is None else figures(prompt_ms=ms, queue_ms=queue_ms) for _, ms in streams]
    return [
        sample(trace(stream(first_ms, 10), server=own), point=Workload(512, 11, len(streams)), stream=n, **changes)
        for n, ((first_ms, _), own) in enumerate(zip(streams, server, strict=True))
    ]


def of_ttft(samples: Sequence[Sample], alone: Sequence[Sample] = (), engine: str = "") -> list[Limit]:
    evidence = Evidence(with_prefill_overlaps(samples), alone=alone, engine=engine)
    return [limit for limit in limits(evidence).findings if limit.of == "TTFT"]


@pytest.mark.parametrize("alone", [ALONE, []])
def test_prompts_in_one_batch_wait_for_each_other_and_not_for_a_slot(alone: list[Sample]) -> None:
    (limit,) = of_ttft(played(*[(1430.0, 1420.0)] * 4), alone)
    assert limit.key == "others_prefill"
    assert limit.sentence == "The prompts of the run's other streams take the time."
    assert limit.evidence == "1,420 of 1,430 ms passed while other prompts were processed, with 4 streams at once"
    assert "slots" not in limit.remedy


def test_prompts_one_after_the_other_do_too() -> None:
    """A server with a slot for each that processes one prompt at a time, and decodes when it has them all."""
    (limit,) = of_ttft(played(*[(450.0 * n, 440.0) for n in (1, 2, 3, 4)]), ALONE)
    assert limit.key == "others_prefill"
    assert limit.evidence.startswith("660 of 1,125 ms passed while other prompts")  # 0, 440, 880, 1,320 of 450 to 1,800


def test_answers_that_hold_the_only_slot_are_a_matter_of_slots() -> None:
    """440 ms of prompt and 3 s of answer each: most of the time nobody's prompt is processed."""
    (limit,) = of_ttft(played(*[(450.0 + 3500 * n, 440.0) for n in range(4)]), ALONE, "llama.cpp")
    assert (limit.key, limit.sentence) == ("queue", "Requests wait for each other.")
    assert limit.remedy == "Give llama.cpp more parallel slots (`--parallel`), or send it less at once."


def test_a_queue_behind_prompts_is_one_of_prompts() -> None:
    """The server's own word of a queue does not say what is waited for: the prompts of the others."""
    (limit,) = of_ttft(played(*[(450.0 * n, 440.0) for n in (1, 2, 3, 4)], queue_ms=700.0), ALONE)
    assert limit.key == "others_prefill"
    (limit,) = of_ttft(played(*[(450.0 + 3500 * n, 440.0) for n in range(4)], queue_ms=5000.0), ALONE)
    assert limit.evidence == "5,000 of 5,700 ms passed in the server's queue, with 4 streams at once"


@pytest.mark.parametrize(
    ("firsts", "key"),
    [
        ([1430.0, 1431.0, 1432.0, 1433.0], "others_prefill"),  # one batch
        ([450.0, 900.0, 1350.0, 1800.0], "others_prefill"),  # one after the other
        ([450.0, 3950.0, 7450.0, 10950.0], "queue"),  # a slot for one
        ([455.0, 455.0, 460.0, 460.0], None),
    ],
)
def test_where_the_server_tells_nothing_a_lone_prompt_is_the_measure(firsts: list[float], key: str | None) -> None:
    samples = played(*[(first_ms, None) for first_ms in firsts])
    assert [limit.key for limit in of_ttft(samples, ALONE)] == ([key] if key else [])
    assert of_ttft(samples) == []


def test_streams_that_are_no_slower_than_a_lone_one_wait_for_nobody() -> None:
    assert of_ttft(played(*[(460.0, 455.0)] * 4), ALONE) == []


def test_of_prompts_in_one_batch_nobody_can_tell_what_one_consists_of() -> None:
    quick = limits(Evidence(with_prefill_overlaps(played((30.0, 14.0), (30.0, 14.0)))))
    assert quick.unknown[0] == (
        "TTFT: several prompts were processed at the same time, so the parts of one prompt's 30.0 ms are unknown."
    )


@pytest.mark.parametrize(
    ("engine", "slots", "prompts"),
    [
        ("llama.cpp", "`--parallel`", "`--batch-size`, `--ubatch-size`"),
        ("vllm", "`--max-num-seqs`", "`--max-num-batched-tokens`, `--enable-chunked-prefill`"),
        ("sglang", "`--max-running-requests`", "`--chunked-prefill-size`"),
        ("ollama", "`OLLAMA_NUM_PARALLEL`", "`num_batch`"),
    ],
)
def test_a_remedy_is_in_the_engines_own_words(engine: str, slots: str, prompts: str) -> None:
    (limit,) = of_ttft(played(*[(450.0 + 3500 * n, 440.0) for n in range(4)]), ALONE, engine)
    assert f"({slots})" in limit.remedy
    (limit,) = of_ttft(played(*[(1430.0, 1420.0)] * 4), ALONE, engine)
    assert f"({prompts})" in limit.remedy
    assert slots not in limit.remedy


def test_an_engine_that_takes_one_request_at_a_time_has_no_more_slots_to_give() -> None:
    (limit,) = of_ttft(played(*[(450.0 + 3500 * n, 440.0) for n in range(4)]), ALONE, "koboldcpp")
    assert limit.remedy == "KoboldCpp works on one request at a time: send it less at once."
    (limit,) = of_ttft(played(*[(450.0 + 3500 * n, 440.0) for n in range(4)]), ALONE, "no engine of ours")
    assert limit.remedy == "Give the server more parallel slots, or send it less at once."


def test_the_engine_of_a_run_reaches_its_limits() -> None:
    samples = [*ALONE, *played(*[(1430.0, 1420.0)] * 4)]
    (limit, *_) = limits_of_run(samples, Workload(512, 11, 4), None, engine="vllm").findings
    assert "vLLM" in limit.remedy


# --- one sentence, one set of samples --------------------------------------------------------------------------------


def test_a_prompts_time_goes_with_the_ttft_of_the_same_samples() -> None:
    """Two of three say nothing and were quick: 900 of 200 ms would be nonsense."""
    silent = [sample(trace(stream(200, 10)), ordinal=n) for n in range(2)]
    timed = sample(trace(stream(1000, 10), server=figures(prompt_ms=900.0)), ordinal=2)
    (limit,) = of_ttft([*silent, timed])
    assert limit.evidence == "900 of 1,000 ms for 512 prompt tokens, in 1 of 3 samples"


def test_a_queue_goes_with_the_ttft_of_the_same_samples() -> None:
    silent = [sample(trace(stream(200, 10)), ordinal=n) for n in range(2)]
    timed = sample(trace(stream(1000, 10), server=figures(prompt_ms=None, queue_ms=800.0)), ordinal=2)
    (limit,) = of_ttft([*silent, timed])
    assert limit.evidence == "800 of 1,000 ms passed in the server's queue, in 1 of 3 samples"


def test_the_share_of_the_prefill_ceiling_goes_with_the_times_of_all_samples_alone() -> None:
    placement, point = placement_of([card(peak=100e12)]), Workload(8000, 11)
    assert isinstance(placement, Placement)
    triple = [measured("decode_tokens_per_s", 5.0, point), measured("prefill_tokens_per_s", 100.0, point)]
    (point_ceiling,) = run_ceilings(placement, triple)
    timed = [sample(trace(stream(100, 10), server=figures(prompt_ms=90.0)), point=point, ordinal=n) for n in range(2)]

    def evidence(samples: Sequence[Sample]) -> str:
        findings = limits(Evidence(samples, ceiling=point_ceiling, placement=placement)).findings
        return next(limit.evidence for limit in findings if limit.key == "prompt")

    assert "% of the prefill ceiling" in evidence(timed)
    assert "allows" not in evidence([*timed, sample(trace(stream(100, 10)), point=point, ordinal=2)])


def test_a_load_time_goes_with_the_samples_that_have_one() -> None:
    cold = sample(trace(stream(5000, 10), server=figures(prompt_ms=90.0, load_ms=900.0)), flags=("model_load",))
    silent = sample(trace(stream(5000, 10)), flags=("model_load",), ordinal=1)
    (limit,) = of_ttft([cold, silent, sample(ordinal=2)])
    assert limit.evidence == "1 sample of 3 waited 900 ms for it"


# --- decode ----------------------------------------------------------------------------------------------------------


def stalling(first_ms: float, stall_from_ms: float, stall_ms: float) -> Sequence[Event]:
    times = [first_ms + 10 * n for n in range(30)]
    return [Event(at + (stall_ms if at > stall_from_ms else 0), Kind.ANSWER, 4) for at in times]


@pytest.mark.parametrize(
    ("second", "key"), [((700.0, 440.0), "others_prefill"), ((2000.0, 440.0), "stalls"), ((700.0, 40.0), "stalls")]
)
def test_a_stall_while_another_prompt_is_processed_is_none_of_other_programs(
    second: tuple[float, float], key: str
) -> None:
    """The first stream pauses from 260 to 670 ms; the prompt of the second is processed then, or at another time."""
    first, second_sample = played((100.0, 90.0), second)
    first = replace(first, trace=replace(first.trace, events=tuple(stalling(100, 260, 400)), output_tokens=30))
    samples = with_prefill_overlaps([first, second_sample])
    (limit,) = (
        limit
        for limit in limits(Evidence(samples, engine="vllm")).findings
        if limit.key == key and limit.of == "Decode"
    )
    assert ("else runs" in limit.remedy) is (key == "stalls")
    assert ("`--max-num-batched-tokens`" in limit.remedy) is (key == "others_prefill")
    assert limit.evidence.startswith("1 gap longer than ")


def test_throughput_below_the_ceiling_is_explained_by_the_prompts_of_the_round() -> None:
    placement, point = placement_of([card()], kv_type_k="f16", kv_type_v="f16"), Workload(512, 11, 2)
    assert isinstance(placement, Placement)
    (point_ceiling,) = run_ceilings(placement, [measured("output_tokens_per_s", 30.0, point)])

    def keys(first_ms: float) -> list[str]:
        evidence = Evidence(played((first_ms, None), (first_ms, None)), ceiling=point_ceiling, placement=placement)
        return [limit.key for limit in limits(evidence).findings if "% of the ceiling" in limit.evidence]

    assert keys(900) == ["others_prefill"]  # decode lasts 100 ms
    assert keys(20) == []


# --- the arithmetic --------------------------------------------------------------------------------------------------

SPANS = st.tuples(st.integers(0, 40), st.integers(0, 20)).map(lambda w: (float(w[0]), float(w[0] + w[1])))


@given(st.lists(SPANS, max_size=6), SPANS)
def test_covered_time_is_what_a_look_at_every_moment_counts(
    windows: list[tuple[float, float]], span: tuple[float, float]
) -> None:
    moments = range(int(span[0]), int(span[1]))
    assert covered_ms(windows, span) == sum(any(a <= at < b for a, b in windows) for at in moments)


@given(
    st.lists(st.tuples(st.floats(1, 1e4), st.none() | st.floats(0, 1e4)), min_size=2, max_size=6),
    st.none() | st.floats(1, 1e4),
)
def test_no_wait_is_longer_than_ttft(streams: list[tuple[float, float | None]], alone_ms: float | None) -> None:
    for wait in waits([played(*streams)], alone_ms):
        assert 0 <= wait.others_prefill_ms <= wait.ttft_ms * (1 + 1e-9)
        assert -1e-6 <= wait.slot_ms <= wait.ttft_ms * (1 + 1e-9)
