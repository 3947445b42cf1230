"""What limits a result: each rule speaks when its evidence is there, and only then."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ceiling.efficiency import published_rows
from app.core.samples import Event, Kind, Sample, Workload
from app.db.machines import MachineDevice
from app.measure.run_checks import sensor_warnings
from app.results.ceiling import Evidence, Limit, Placement, Unknown, limits, limits_of_run, run_ceilings
from app.results.ceiling.limits.evidence import ORDER
from app.results.token_counts import Drafts
from tests.ceiling.published_rows import geometry_of, of_catalogue
from tests.ceilings import GEOMETRY, RAM, card, measured, placement_of
from tests.traces import figures, sample, stream, trace

POINT = Workload(512, 128)
CLEAN = trace(stream(first_ms=100, gap_ms=10), server=figures(prompt_ms=40.0))
"""Nothing of it is most of TTFT, and its tokens come evenly."""


def samples_of(count: int = 3, made: Any = CLEAN, **changes: Any) -> list[Sample]:
    return [sample(made, ordinal=n, **changes) for n in range(count)]


def found_in(samples: Sequence[Sample], **more: Any) -> list[Limit]:
    return list(limits(Evidence(samples, **more)).findings)


def sentences(samples: Sequence[Sample], **more: Any) -> list[str]:
    return [limit.sentence for limit in found_in(samples, **more)]


def under(
    devices: Sequence[MachineDevice],
    decode: float,
    point: Workload = POINT,
    drafts: Drafts | None = None,
    samples: Sequence[Sample] = (),
    more: Any = MappingProxyType({}),
    **settings: Any,
) -> list[Limit]:
    placement = placement_of(devices, **{"kv_type_k": "f16", "kv_type_v": "f16", **settings})
    assert isinstance(placement, Placement)
    (point_ceiling,) = run_ceilings(
        placement, [measured("decode_tokens_per_s", decode, point)], {point: drafts} if drafts else {}
    )
    return found_in(samples, ceiling=point_ceiling, placement=placement, **more)


def test_a_clean_result_without_a_ceiling_is_limited_by_nothing_that_is_known() -> None:
    waits = replace(CLEAN, server=figures(prompt_ms=49.0), events=stream(first_ms=60, gap_ms=10))
    assert sentences(samples_of()) == ["Something other than prompt processing takes the time."]
    assert "most of the time" in sentences(samples_of(made=waits))[0]
    assert sentences(samples_of(made=replace(CLEAN, server=None))) == []
    assert sentences([]) == []


def test_loading() -> None:
    cold = replace(CLEAN, server=figures(prompt_ms=90.0, load_ms=900.0))
    (limit, *_) = found_in([*samples_of(2), sample(cold, flags=("model_load",), ordinal=2)])
    assert (limit.of, limit.sentence) == ("TTFT", "The model was being loaded.")
    assert limit.evidence == "1 sample of 3 waited 900 ms for it"
    assert "The model was being loaded." not in sentences(samples_of())


@pytest.mark.parametrize(
    ("server", "streams", "sentence"),
    [
        ({"prompt_ms": 90.0}, 1, "The prompt's length: its processing is most of the time."),
        ({"prompt_ms": 20.0}, 1, "Something other than prompt processing takes the time."),
        ({"prompt_ms": 20.0, "queue_ms": 70.0}, 1, "The request waited in a queue."),
        ({"prompt_ms": 20.0}, 4, "Requests wait for each other."),
    ],
)
def test_of_what_the_first_token_consists(server: dict[str, float], streams: int, sentence: str) -> None:
    made = replace(CLEAN, server=figures(**server))
    findings = found_in(samples_of(made=made, point=Workload(512, 11, streams)))
    assert [limit.sentence for limit in findings if limit.of == "TTFT"] == [sentence]
    assert "100 ms" in findings[0].evidence


@pytest.mark.parametrize("reasoning_tokens", [100, None])  # the server says so, or only counts them
def test_who_thinks_unseen_is_not_sent_after_a_proxy(reasoning_tokens: int | None) -> None:
    thought = replace(CLEAN, output_tokens=111, reasoning_tokens=reasoning_tokens, server=figures(prompt_ms=20.0))
    limits_of_ttft = [limit for limit in found_in(samples_of(made=thought)) if limit.of == "TTFT"]
    assert [limit.key for limit in limits_of_ttft] == ["thinking"]
    assert limits_of_ttft[0].evidence == "100 tokens of reasoning were counted and never sent, in 3 samples"
    assert "thinking" not in [key for _, key in keys(samples_of())]


@pytest.mark.parametrize(("tokens", "binds"), [(2, "memory bandwidth"), (8000, "compute")])
def test_a_prompt_is_held_against_what_binds_it(tokens: int, binds: str) -> None:
    """A prefill at exactly its ceiling reached all of what binds there; of MFU that is true only of computing."""
    placement, point = placement_of([card(peak=100e12)]), Workload(tokens, 11)
    assert isinstance(placement, Placement)
    triple = [measured("decode_tokens_per_s", 5.0, point), measured("prefill_tokens_per_s", 1.0, point)]
    (slow,) = run_ceilings(placement, triple)
    assert slow.prefill is not None
    (point_ceiling,) = run_ceilings(
        placement, [triple[0], measured("prefill_tokens_per_s", slow.prefill.tokens_per_s, point)]
    )
    made = replace(CLEAN, server=figures(prompt_ms=90.0))
    (limit,) = [
        limit
        for limit in found_in(samples_of(made=made, point=point), ceiling=point_ceiling, placement=placement)
        if limit.key == "prompt"
    ]
    assert limit.evidence.endswith(f", 100 % of the prefill ceiling, which {binds} sets")


def test_a_cache_that_did_not_help() -> None:
    missed = samples_of(made=replace(CLEAN, cached_tokens=0), reuses_cache=True)
    hit = samples_of(made=replace(CLEAN, cached_tokens=500), reuses_cache=True)
    assert sentences(missed) == ["The prompt cache did not help."]
    assert sentences(hit) == []


def test_a_card_that_was_held_back() -> None:
    throttled = samples_of(1, sensors={"throttles": ["gpu0: temperature"]})
    assert "A GPU was throttled." in sentences(throttled)
    assert "A GPU was throttled." not in sentences(samples_of(sensors={"throttles": []}))


@pytest.mark.parametrize(
    ("decode", "sentence"),
    [(80.0, "Memory bandwidth."), (30.0, "Something other than memory bandwidth."), (150.0, None)],
)
def test_memory_bandwidth_by_the_share_reached(decode: float, sentence: str | None) -> None:
    device = replace(card(), name="GeForce RTX 3090")
    assert [limit.sentence for limit in under([device], decode)] == ([sentence] if sentence else [])


def test_a_long_context_is_the_kv_cache() -> None:
    far = [limit for limit in under([card()], 5.0, Workload(100_000, 128)) if limit.sentence == "The KV cache."]
    assert len(far) == 1
    assert "of the bytes read for a token" in far[0].evidence
    assert all(limit.sentence != "The KV cache." for limit in under([card()], 5.0))


def test_layers_in_memory() -> None:
    (limit,) = [limit for limit in under([RAM, card()], 5.0, gpu_layers=6) if "not on a GPU" in limit.sentence]
    assert limit.evidence.startswith("a part of the model is in system memory; reading it there is 9")
    assert "6 of 10 layers are on GPUs" in limit.evidence
    assert all("not on a GPU" not in limit.sentence for limit in under([RAM, card()], 5.0, gpu_layers=10))


def test_streams_that_share() -> None:
    alone = samples_of()
    slow = trace(stream(first_ms=100, gap_ms=25), server=figures(prompt_ms=40.0))
    together = samples_of(made=slow, point=Workload(512, 11, 4))
    assert "Streams share the hardware." in sentences(together, alone=alone)
    assert "Streams share the hardware." not in sentences(samples_of(point=Workload(512, 11, 4)), alone=alone)
    assert "Streams share the hardware." not in sentences(together)


def with_stall(pause_ms: float) -> Sequence[Event]:
    return [Event(100 + 10 * n + (pause_ms if n >= 15 else 0), Kind.ANSWER, 4) for n in range(30)]


def test_stalls() -> None:
    stalled = samples_of(made=replace(CLEAN, events=tuple(with_stall(100)), output_tokens=30))
    even = samples_of(made=replace(CLEAN, events=tuple(with_stall(0)), output_tokens=30))
    assert "The stream stalls." in sentences(stalled)
    assert "The stream stalls." not in sentences(even)
    assert "The stream stalls." not in sentences(
        [replace(stalled_sample, flags=("multi_token_chunks",)) for stalled_sample in stalled]
    )


def test_what_differs_from_sample_to_sample() -> None:
    gaps = (10, 14, 10)
    unsteady = [
        sample(trace(stream(100, gap), server=figures(prompt_ms=40.0)), ordinal=n) for n, gap in enumerate(gaps)
    ]
    assert "It varies from sample to sample." in sentences(unsteady)
    assert "It varies from sample to sample." not in sentences(samples_of())


def test_drafts_that_are_rejected() -> None:
    few, most = Drafts(1000, 100, 900), Drafts(1000, 700, 900)
    assert "Most drafts are rejected." in [limit.sentence for limit in under([card()], 50.0, drafts=few)]
    assert "Most drafts are rejected." not in [limit.sentence for limit in under([card()], 50.0, drafts=most)]


# --- sensors ---------------------------------------------------------------------------------------------------------


def watched(throttled: Sequence[bool] = (), **values: Sequence[float | None]) -> dict[str, Any]:
    """Readings at 0, 50, 100, ... ms of an answer that decodes from 100 to 200 ms."""
    throttle_readings = {"gpu0: temperature": list(throttled)} if any(throttled) else {}
    return {
        "at_ms": [50 * n for n in range(len(next(iter([*values.values(), throttled]))))],
        "values": {name.replace("__", "."): list(readings) for name, readings in values.items()},
        "throttles": list(throttle_readings),
        "throttled": throttle_readings,
    }


def keys(samples: Sequence[Sample], **more: Any) -> list[tuple[str, str]]:
    return [(limit.of, limit.key) for limit in found_in(samples, **more)]


@pytest.mark.parametrize(
    ("throttled", "of"),
    [
        ([True, True, False, False, False], ["TTFT"]),
        ([False, False, False, True, False], ["Decode"]),
        ([False, True, False, True, False], ["TTFT", "Decode"]),
        ([False, False, False, False, False, True], []),  # after the last token
    ],
)
def test_a_card_that_was_held_back_counts_for_what_was_waited_for_then(throttled: list[bool], of: list[str]) -> None:
    heat = [60.0 + n for n in range(len(throttled))]
    samples = samples_of(sensors=watched(throttled, gpu0__temperature_c=heat))
    limits_of = [limit for limit in found_in(samples) if limit.key == "held_back"]
    assert [limit.of for limit in limits_of] == of
    for limit in limits_of:
        assert "GPU 0: temperature in 3 of 3 samples, at up to 6" in limit.evidence


def test_a_power_limit_is_what_a_card_is_meant_to_run_at() -> None:
    def with_throttle(*throttles: str) -> list[Sample]:
        throttle_readings = {throttle: [False, False, False, True] for throttle in throttles}
        return samples_of(
            sensors={
                "at_ms": [0, 50, 100, 150],
                "values": {},
                "throttles": list(throttle_readings),
                "throttled": throttle_readings,
            }
        )

    assert ("Decode", "power_limit") in keys(with_throttle("gpu0: power limit"))
    assert ("Decode", "held_back") in keys(with_throttle("gpu0: power limit", "gpu1: temperature"))
    assert sensor_warnings(with_throttle("gpu0: power limit", "gpu0: current limit")) == []
    assert "(GPU 1: temperature)" in sensor_warnings(with_throttle("gpu0: power limit", "gpu1: temperature"))[0]


def test_a_decode_as_fast_as_is_usual_was_not_held_back_by_much() -> None:
    samples = samples_of(sensors=watched([False, False, False, True]))
    slow = [limit.key for limit in under([card()], 30.0, samples=samples)]
    fast = [limit.key for limit in under([card()], 80.0, samples=samples)]
    assert "held_back" in slow
    assert "other" not in slow  # what holds it back is known
    assert "held_back" not in fast
    assert "bandwidth" in fast


@pytest.mark.parametrize(
    ("counters", "swaps"),
    [
        ([[5e9, 5e9], [5e9, 5e9]], False),  # swapped long before the run: what lies there does no harm
        ([[0, 0], [0, 40e6]], False),  # somebody's forgotten page
        ([[0, 10e6], [900e6, 1e9]], True),
        ([[None, None], [None, None]], False),
        ([[None, 1e6], [None, 2e9]], True),
        ([[5e9, 5e9], [0, 0]], False),  # the counters were reset
    ],
)
def test_swapping_is_what_was_swapped_during_the_run(counters: list[list[float | None]], swaps: bool) -> None:
    samples = [
        sample(CLEAN, ordinal=n, sensors=watched(swapped_bytes=counter, swap_used_bytes=[8e9, 8e9]))
        for n, counter in enumerate(counters)
    ]
    assert (("Decode", "swapping") in keys(samples)) is swaps


def test_a_busy_processor_counts_where_the_model_is_on_cards() -> None:
    busy = samples_of(sensors=watched(cpu_load_percent=[10.0, 10.0, 90.0, 95.0]))
    calm = samples_of(sensors=watched(cpu_load_percent=[99.0, 99.0, 9.0, 9.0]))  # only before the decode

    def is_busy_cpu_found(
        samples: Sequence[Sample], devices: Sequence[MachineDevice], decode: float, **more: Any
    ) -> bool:
        return any(limit.key == "busy_cpu" for limit in under(devices, decode, samples=samples, **more))

    assert is_busy_cpu_found(busy, [card()], 30.0)
    assert not is_busy_cpu_found(calm, [card()], 30.0)
    assert not is_busy_cpu_found(samples_of(), [card()], 30.0)
    assert not is_busy_cpu_found(busy, [card()], 80.0)  # as fast as is usual
    assert not is_busy_cpu_found(busy, [RAM], 1.0)  # its own work
    assert not is_busy_cpu_found(busy, [RAM, card()], 1.0, gpu_layers=6)
    assert not is_busy_cpu_found(busy, [card()], 30.0, more={"on_cards_share": 0.4})


@pytest.mark.parametrize(("share", "is_busy"), [(None, False), (0.0, False), (0.49, False), (0.5, True), (1.0, True)])
def test_a_processor_that_was_busy_before_is_to_be_changed_first(share: float | None, is_busy: bool) -> None:
    """Whatever the model is on: nothing of the run is to be trusted."""
    stalled = samples_of(made=replace(CLEAN, events=tuple(with_stall(100)), output_tokens=30))
    for devices in ([card()], [RAM]):
        order = [limit.key for limit in under(devices, 1.0, samples=stalled, more={"cpu_load_share_before": share})]
        assert ("busy_cpu" in order) is is_busy
        assert (order[0] == "busy_cpu") is is_busy


def test_a_busy_processor_limits_no_result_where_there_is_none() -> None:
    """As of a run that was cancelled within its first answer."""
    cut_short = samples_of(1, flags=("interrupted",))
    assert not found_in(cut_short, cpu_load_share_before=1.0)
    assert found_in(samples_of(1), cpu_load_share_before=1.0)


# --- contradicting and missing evidence ------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "offloads"), [(None, False), (0.0, False), (0.4, True), (0.985, True), (1.0, False)])
def test_layers_in_memory_by_the_servers_own_word(share: float | None, offloads: bool) -> None:
    device = replace(card(), name="GeForce RTX 3090")
    findings = under([device], 30.0, more={"on_cards_share": share})
    assert any(limit.key == "offload" for limit in findings) is offloads
    assert any(limit.key == "other" for limit in findings) is not offloads


def test_loading_is_not_blamed_on_the_network_too() -> None:
    cold = replace(CLEAN, events=stream(first_ms=5000, gap_ms=10), server=figures(prompt_ms=90.0, load_ms=4800.0))
    assert keys([sample(cold, flags=("model_load",))]) == [("TTFT", "loading")]


@pytest.mark.parametrize(
    ("ttft_ms", "alone_ms", "waits"),
    [(400.0, 100.0, True), (110.0, 100.0, False), (400.0, 390.0, False), (400.0, None, True)],
)
def test_streams_that_wait_are_held_against_a_lone_one(ttft_ms: float, alone_ms: float | None, waits: bool) -> None:
    def after(first_ms: float, streams: int) -> list[Sample]:
        made = replace(CLEAN, events=stream(first_ms, 10), server=figures(prompt_ms=50.0))
        return samples_of(made=made, point=Workload(512, 11, streams))

    alone = after(alone_ms, 1) if alone_ms else []
    assert (("TTFT", "queue") in keys(after(ttft_ms, 4), alone=alone)) is waits


@pytest.mark.parametrize(("alone_prompt_ms", "waits"), [(490.0, True), (150.0, False), (None, True)])
def test_a_wait_beside_the_prompt_is_seen_where_the_lone_stream_was_slow(
    alone_prompt_ms: float | None, waits: bool
) -> None:
    """The lone one waited 10 or 350 of its 500 ms beside its prompt, or does not tell; the four wait 350 of 400 ms."""
    lone = replace(CLEAN, events=stream(500, 10), server=figures(prompt_ms=alone_prompt_ms))
    four = replace(CLEAN, events=stream(400, 10), server=figures(prompt_ms=50.0))
    result = limits(Evidence(samples_of(made=four, point=Workload(512, 11, 4)), alone=samples_of(made=lone)))
    assert any(limit.key == "queue" for limit in result.findings) is waits
    assert result.unknown[:1] == () or "TTFT" not in result.unknown[0] or not waits


def test_a_lone_stream_of_another_length_is_none_to_compare_with() -> None:
    slow = trace(stream(first_ms=100, gap_ms=25), server=figures(prompt_ms=40.0))
    four = samples_of(made=slow, point=Workload(512, 11, 4))
    same, longer = samples_of(point=Workload(512, 11)), samples_of(point=Workload(16_000, 11))
    assert "shared" in [limit.key for limit in limits_of_run([*four, *same], Workload(512, 11, 4), None).findings]
    assert "shared" not in [limit.key for limit in limits_of_run([*four, *longer], Workload(512, 11, 4), None).findings]


@pytest.mark.parametrize(
    ("cached", "prompt", "missed"),
    [(0, 512, True), (100, 512, True), (500, 512, False), (None, 512, False), (0, None, False)],
)
def test_a_cache_by_the_servers_count(cached: int | None, prompt: int | None, missed: bool) -> None:
    samples = samples_of(made=replace(CLEAN, cached_tokens=cached, prompt_tokens=prompt), reuses_cache=True)
    assert (keys(samples) == [("TTFT", "cache")]) is missed


def test_the_bursts_of_a_draft_are_no_stalls() -> None:
    bursts = tuple(Event(100 + 30 * (n // 3) + 0.1 * (n % 3), Kind.ANSWER, 4) for n in range(60))
    assert "The stream stalls." not in sentences(samples_of(made=replace(CLEAN, events=bursts, output_tokens=60)))


def test_a_small_kv_cache_type_is_not_advised_to_who_has_it() -> None:
    def remedy(kv_type: str) -> str:
        far = under([card()], 5.0, Workload(400_000, 128), kv_type_k=kv_type, kv_type_v=kv_type)
        (limit,) = [limit for limit in far if limit.key == "kv_cache"]
        return limit.remedy

    assert "q8_0" in remedy("f16")
    assert "is small already" in remedy("q8_0")
    assert "is small already" in remedy("q4_0")


@pytest.mark.parametrize(
    ("name", "share", "keys"),
    [
        ("A100 80GB PCIe", 45.0, {"bandwidth"}),  # dense models reach 41 % on GPUs with HBM in the median
        ("GeForce RTX 3090", 45.0, {"other"}),  # and 73 % with GDDR
        ("GeForce RTX 3090", 75.0, {"bandwidth"}),
        ("Radeon RX 7900 XTX", 45.0, set()),  # too few published results to call it low
        ("Card", 45.0, set()),
        ("Card", 75.0, {"bandwidth"}),
    ],
)
def test_what_is_usual_depends_on_the_class_of_device(name: str, share: float, keys: set[str]) -> None:
    device = replace(card(), name=name, memory_bytes=None)
    limits_found = under([device], share)
    assert {limit.key for limit in limits_found} & {"bandwidth", "other"} == keys


def test_a_low_share_of_experts_is_not_blamed_on_anything() -> None:
    """Published mixtures of experts reach 20 % on such a GPU, but too few of them to say what is usual."""
    device = replace(card(), name="GeForce RTX 3090")
    experts = replace(GEOMETRY, experts_total=128, experts_used=8)
    placement = placement_of([device], experts, kv_type_k="f16", kv_type_v="f16")
    assert isinstance(placement, Placement)
    (point_ceiling,) = run_ceilings(placement, [measured("decode_tokens_per_s", 20.0, POINT)])
    assert point_ceiling.mbu is not None
    result = limits(Evidence(samples_of(), ceiling=point_ceiling, placement=placement))
    assert not {limit.key for limit in result.findings} & {"bandwidth", "other"}
    assert result.unknown[-1].startswith("Decode: 20.0 % of its ceiling (20.0 of ")
    assert result.unknown[-1].endswith("too few results of its kind are published to say whether that is usual.")


SLOW = "Such hardware is usually much faster"


def prompt_remedy(row: Mapping[str, str], tokens_per_s: float) -> str:
    """What is advised to who measured this prefill on the device of a published result."""
    geometry, device = geometry_of(row), of_catalogue(row)
    point = Workload(int(row["prefill_tokens"]), 11, depth=int(row["depth"]))
    card_device = replace(
        card(device.bandwidth_bytes_per_s, peak=device.peak_flops), name=device.name, memory_bytes=device.memory_bytes
    )
    placement = placement_of([card_device], geometry, kv_type_k="f16", kv_type_v="f16")
    assert isinstance(placement, Placement)
    figures_of_run = [
        measured("decode_tokens_per_s", 1.0, point),
        measured("prefill_tokens_per_s", tokens_per_s, point),
    ]
    (point_ceiling,) = run_ceilings(placement, figures_of_run)
    made = replace(CLEAN, server=figures(prompt_ms=90.0))
    samples = samples_of(made=made, point=point)
    (limit,) = [
        limit for limit in found_in(samples, ceiling=point_ceiling, placement=placement) if limit.key == "prompt"
    ]
    assert "% of the prefill ceiling" in limit.evidence
    return limit.remedy


def test_published_prefills_are_seldom_told_that_more_is_possible() -> None:
    measurable = [row for row in published_rows() if row["prefill_tokens"] and geometry_of(row)]
    advised = [row for row in measurable if prompt_remedy(row, float(row["prefill_tokens_per_s"])).startswith(SLOW)]
    assert len(measurable) > 45
    assert len(advised) <= 0.1 * len(measurable)
    nvidia = [row for row in measurable if row["device_class"] in ("nvidia", "nvidia_hbm", "dgx_spark")]
    assert len(nvidia) > 20
    assert len([row for row in advised if row in nvidia]) <= 0.1 * len(nvidia)


def test_a_prefill_far_below_its_peers_is_told() -> None:
    row = next(row for row in published_rows() if row["device"] == "GeForce RTX 4090" and row["prefill_tokens"])
    assert prompt_remedy(row, 0.2 * float(row["prefill_tokens_per_s"])).startswith(SLOW)
    experts = {**row, "model": "Qwen3-30B-A3B", "quantization": "Q4_K_M"}
    assert prompt_remedy(experts, 1.0).startswith("Send shorter prompts")  # nobody knows what is usual


def test_where_no_rule_speaks_it_says_what_is_not_known() -> None:
    plain = limits(Evidence(samples_of(made=replace(CLEAN, server=None))))
    assert plain.findings == ()
    assert plain.unknown[0].startswith("TTFT: the server does not state how long it worked on the prompt")
    assert plain.unknown[1] == "Decode: nothing stands out in 100 tok/s. There is no ceiling to compare it with."
    quick = limits(Evidence(samples_of(made=replace(CLEAN, events=stream(30, 10), server=figures(prompt_ms=14.0)))))
    refused = limits(Evidence(samples_of(flags=("implausible",))))
    assert refused.unknown[0] == (
        "TTFT: the server's time for the prompt does not count, so the parts of the 100 ms are unknown."
    )
    assert quick.unknown[0] == "TTFT: nothing stands out; the server worked on the prompt for 14.0 of 30.0 ms."
    result = limits_of_run(samples_of(), samples_of()[0].point, Unknown("No geometry.", "Tell it.", "model"))
    assert result.unknown == ("Decode: nothing stands out in 100 tok/s. No geometry. Tell it.",)
    assert limits(Evidence([])).unknown == ()


def test_what_to_change_first_comes_first() -> None:
    """What spoils a result before what belongs to it, whatever order the rules are in."""
    samples = samples_of(sensors=watched([False, False, False, True], swapped_bytes=[0, 0, 0, 9e9]))
    order = [limit.key for limit in under([RAM, card()], 1.0, samples=samples, gpu_layers=6)]
    assert order[:3] == ["swapping", "held_back", "offload"]
    assert order == sorted(order, key=ORDER.index)


@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 1e6),
            st.none() | st.floats(0, 1e6),
            st.none() | st.floats(0, 1e6),
            st.none() | st.integers(0),
        ),
        max_size=4,
    ),
    st.sampled_from([1, 4]),
    st.none() | st.floats(0, 1),
)
def test_whatever_was_measured_there_is_a_sentence_with_figures(
    rows: list[tuple[float, float | None, float | None, int | None]], streams: int, share: float | None
) -> None:
    samples = [
        sample(
            trace(
                stream(first_ms, 10),
                server=figures(prompt_ms=prompt_ms, queue_ms=queue_ms, prompt_tokens=tokens),
                cached_tokens=tokens,
            ),
            ordinal=n,
            point=Workload(512, 11, streams),
            reuses_cache=n % 2 == 1,
            sensors=watched([True, False, True], swapped_bytes=[None, 0, 1e9]) if n == 0 else {},
        )
        for n, (first_ms, prompt_ms, queue_ms, tokens) in enumerate(rows)
    ]
    result = limits(Evidence(samples, on_cards_share=share))
    for limit in result.findings:
        assert any(character.isdigit() for character in limit.evidence)
        assert "–" not in limit.evidence
        assert "None" not in limit.evidence
        assert limit.key in ORDER
    assert all(sentence.endswith(".") for sentence in result.unknown)


def test_every_limit_has_evidence_with_a_number_and_a_remedy() -> None:
    for limit in [*found_in(samples_of()), *under([card()], 80.0), *under([RAM, card()], 5.0, gpu_layers=6)]:
        assert any(character.isdigit() for character in limit.evidence)
        assert limit.remedy.endswith(".")
