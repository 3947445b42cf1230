"""The arithmetic itself: known cases, rules that always hold, and its words."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ceiling.advice import Run, advise, mean_context, next_quantization
from app.ceiling.curve import against_context
from app.ceiling.decode import (
    Device,
    Portion,
    Split,
    decode,
    decode_on,
    offload_experts,
    speculative,
    usual_range,
)
from app.ceiling.efficiency import cache_guard, mbu, mfu, share_words, why_above_all
from app.ceiling.fit import Fit, Observation, fit, waterfall
from app.ceiling.geometry import Geometry, Weights, typed
from app.ceiling.hf_config import from_config
from app.ceiling.prefill import Bound, causal_pairs, prefill, prefill_flops
from app.ceiling.quantities import bandwidth_bytes_per_s, memory_bandwidth_bytes_per_s, size_bytes
from app.ceiling.report import report
from app.ceiling.traffic import Step, kv_bytes_per_token, step
from app.ceiling.types import KvTypes
from app.errors import BadInput
from tests.ceiling.models import MODELS

LLAMA_8B = from_config(MODELS["Llama-3.1-8B"], 16)
H100 = Device.of("H100 SXM", 3350, 989)


def of_bytes(n_bytes: float) -> Step:
    """A step that reads so many bytes of weights."""
    one = step(typed(n_bytes, n_bytes, 8))
    assert one is not None
    return one


def stepped(geometry: Geometry, context: int = 0, kv: str = "f16", batch: int = 1) -> Step:
    one = step(geometry, context, KvTypes.parse(kv), batch)
    assert one is not None
    return one


@pytest.mark.parametrize(
    ("bandwidth", "rounded"), [(90, 6), (600, 38), (864, 54), (1008, 63), (2039, 127), (3350, 209)]
)
def test_8b_at_16_bit_on_known_devices(bandwidth: float, rounded: int) -> None:
    """Taken as 16 GB; the exact bytes leave out the embedding table, so the exact ceiling is 6.6 % higher."""
    device = Device.of("device", bandwidth)
    taken = decode_on(of_bytes(16e9), device).tokens_per_s
    assert taken == pytest.approx(rounded, abs=0.6)
    assert decode_on(stepped(LLAMA_8B), device).tokens_per_s / taken == pytest.approx(1.066, abs=0.001)


def test_70b_on_one_h100_and_on_two() -> None:
    one = of_bytes(140e9)
    assert 1000 / decode_on(one, H100).tokens_per_s == pytest.approx(41.8, abs=0.05)
    two = decode(one, [Portion(H100), Portion(H100)], Split.TENSOR)
    assert 1000 / two.tokens_per_s == pytest.approx(20.9, abs=0.05)
    assert H100.critical_intensity == pytest.approx(295, abs=0.5)
    assert pytest.approx(0.14, abs=0.005) == 2 * 70e9 / 989e12 * 1000


def test_kv_of_a_common_shape() -> None:
    assert kv_bytes_per_token(LLAMA_8B) == 131_072
    assert stepped(LLAMA_8B, 8000).kv_bytes == pytest.approx(1.05e9, rel=0.01)


def test_3b_active_in_plain_memory() -> None:
    one = of_bytes(3.04e9 * 0.56)
    assert one.n_bytes == pytest.approx(1.7e9, rel=0.01)
    assert decode_on(one, Device.of("", 30)).tokens_per_s == pytest.approx(18, abs=0.5)
    assert decode_on(one, Device.of("", 40)).tokens_per_s == pytest.approx(24, abs=0.6)


@pytest.mark.parametrize(
    ("split", "shares", "bandwidths", "expected"),
    [
        (Split.LAYER, (6, 6), (936, 936), 78.0),  # C09
        (Split.LAYER, (8, 4), (936, 448), 57.22),
        (Split.TENSOR, (6, 6), (936, 936), 156.0),  # C10
        (Split.TENSOR, (6, 6), (936, 448), 74.67),
    ],
)
def test_two_devices(split: Split, shares: tuple[int, int], bandwidths: tuple[int, int], expected: float) -> None:
    portions = [Portion(Device.of("", width), share) for width, share in zip(bandwidths, shares, strict=True)]
    ceiling = decode(of_bytes(12e9), portions, split)
    assert ceiling.tokens_per_s == pytest.approx(expected, rel=1e-4)
    assert len(ceiling.assumptions) == 1


def test_words_of_a_ceiling() -> None:
    assert decode_on(of_bytes(3.05e9), Device.of("", 256)).words == "83.9 tok/s = 256 GB/s / 3.05 GB"
    cards = [Portion(Device.of("", 936), 8), Portion(Device.of("", 448), 4)]
    assert decode(of_bytes(12e9), cards).words == "57.2 tok/s = 1 / (8.00 GB / 936 GB/s + 4.00 GB / 448 GB/s)"
    assert decode(of_bytes(12e9), cards, Split.TENSOR).words.startswith("112 tok/s = 1 / max(8.00 GB / 936 GB/s, ")
    assert stepped(LLAMA_8B, 8192).words == "16.1 GB = 15.0 GB weights + 1.07 GB KV cache"


def test_experts_in_the_processors_memory() -> None:
    geometry = from_config(MODELS["Qwen3-30B-A3B"], 4.85)
    one = stepped(geometry)
    assert geometry.weights is not None
    routed = round(geometry.weights.routed.n_bytes * geometry.expert_share)
    card, processor = Device.of("card", 936), Device.of("RAM", 89.6)
    expected = 1 / ((one.n_bytes - routed) / 936e9 + routed / 89.6e9)
    assert decode(one, offload_experts(one, routed, card, processor)).tokens_per_s == pytest.approx(expected)
    with pytest.raises(BadInput):
        offload_experts(one, one.n_bytes + 1, card, processor)


def test_speculative_decoding() -> None:
    """Nothing drafted rightly is slower than no draft; all of it is nearly k + 1 times as fast with a small draft."""
    large, draft, device = of_bytes(40e9), of_bytes(0.5e9), Device.of("", 1000)
    plain = decode_on(large, device).tokens_per_s
    assert speculative(large, draft, device, 4, 0).tokens_per_s < plain
    assert speculative(large, draft, device, 4, 4).tokens_per_s == pytest.approx(5 * 1000 / (40 + 4 * 0.5))
    assert speculative(large, draft, device, 4, 2.5).words.startswith("83.3 tok/s = (1 + 2.5) x 1,000 GB/s / (40.0 GB")
    for drafted, accepted in ((0, 0), (4, 5), (4, -1)):
        with pytest.raises(BadInput):
            speculative(large, draft, device, drafted, accepted)


def test_a_batch_gives_a_bound_and_what_to_expect() -> None:
    geometry = from_config(MODELS["Qwen3-30B-A3B"], 16)
    ceiling = decode_on(stepped(geometry, 4096, batch=16), H100)
    assert ceiling.expected_tokens_per_s < ceiling.tokens_per_s
    assert "by chance" in ceiling.assumptions[0]
    alone = decode_on(stepped(geometry, 4096), H100)
    assert alone.expected_tokens_per_s == pytest.approx(alone.tokens_per_s)
    assert alone.assumptions == ()


@pytest.mark.parametrize(
    ("rate", "unit", "bus_bits", "gigabytes_per_s"),
    [
        (6000, "MT/s", 128, 96.0),  # C12
        (3000, "MHz", 128, 96.0),
        (3200, "MT/s", 64, 25.6),
        (4800, "MT/s", 768, 460.8),
        (8533, "MT/s", 128, 136.528),
        (28000, "MT/s", 128, 448.0),
    ],
)
def test_bandwidth_of_memory(rate: float, unit: str, bus_bits: int, gigabytes_per_s: float) -> None:
    assert memory_bandwidth_bytes_per_s(rate, unit, bus_bits) / 1e9 == pytest.approx(gigabytes_per_s)


@pytest.mark.parametrize(
    ("rate", "unit", "bus_bits"), [(6, "GT/s", 128), (6, "MT/s", 128), (6000, "MT/s", 65), (90000, "MHz", 64)]
)
def test_memory_that_does_not_exist(rate: float, unit: str, bus_bits: int) -> None:
    with pytest.raises(BadInput):
        memory_bandwidth_bytes_per_s(rate, unit, bus_bits)


def test_specified_and_measured_bandwidth() -> None:
    """C13"""
    for bandwidth, ceiling, percent in ((17.1, 8.55, 60.8), (11.59, 5.8, 89.7)):
        found = decode_on(of_bytes(2e9), Device.of("", bandwidth)).tokens_per_s
        assert found == pytest.approx(ceiling, abs=0.01)
        assert mbu(5.2, found) * 100 == pytest.approx(percent, abs=0.1)


def test_gb_and_gib() -> None:
    """C14"""
    ceiling = decode_on(of_bytes(size_bytes("13.34 GiB")), Device("", bandwidth_bytes_per_s("448 GB/s")))
    assert ceiling.tokens_per_s == pytest.approx(31.28, abs=0.01)
    assert size_bytes("1 GiB") / size_bytes("1 GB") == pytest.approx(1.0737, abs=1e-4)
    assert bandwidth_bytes_per_s("1 TiB/s") == 2**40
    assert bandwidth_bytes_per_s(" 89.6 ") == pytest.approx(89.6e9)


@pytest.mark.parametrize("text", ["", "fast", "448 GB", "448 Gb/h", "-3 GB/s", "1e999 GB/s", "448 GBps/s"])
def test_bandwidths_that_are_none(text: str) -> None:
    with pytest.raises(BadInput, match="GB"):
        bandwidth_bytes_per_s(text)


@pytest.mark.parametrize("bandwidth", [0, -1, float("inf"), float("nan")])
def test_devices_that_make_no_sense(bandwidth: float) -> None:
    with pytest.raises(BadInput):
        Device.of("", bandwidth)
    with pytest.raises(BadInput):
        Device.of("", 100, bandwidth)


@given(st.integers(0, 30), st.integers(0, 30), st.none() | st.integers(1, 40))
def test_causal_pairs_are_those_counted_one_by_one(tokens: int, start: int, window: int | None) -> None:
    seen = [min(position + 1, window or 1000) for position in range(start, start + tokens)]
    assert causal_pairs(tokens, start, window) == sum(seen)


GEOMETRIES = st.sampled_from([from_config(shape, 4.85) for shape in MODELS.values()])
CONTEXTS = st.integers(0, 200_000)
BANDWIDTHS = st.floats(1, 10_000)


@settings(deadline=None)
@given(GEOMETRIES, CONTEXTS, CONTEXTS, BANDWIDTHS)
def test_a_ceiling_falls_with_context_and_rises_with_bandwidth(
    geometry: Geometry, one: int, other: int, bandwidth: float
) -> None:
    device, faster = Device.of("", bandwidth), Device.of("", bandwidth * 1.5)
    near, far = sorted((one, other))
    assert (
        decode_on(stepped(geometry, near), device).tokens_per_s
        >= decode_on(stepped(geometry, far), device).tokens_per_s
    )
    assert (
        decode_on(stepped(geometry, far), faster).tokens_per_s > decode_on(stepped(geometry, far), device).tokens_per_s
    )
    assert stepped(geometry, far, "q8_0").n_bytes <= stepped(geometry, far).n_bytes


@settings(deadline=None)
@given(GEOMETRIES, st.lists(st.tuples(BANDWIDTHS, st.floats(0.01, 1)), min_size=1, max_size=5))
def test_no_split_beats_all_bandwidths_together(geometry: Geometry, devices: list[tuple[float, float]]) -> None:
    one = stepped(geometry, 4096)
    portions = [Portion(Device.of("", bandwidth), share) for bandwidth, share in devices]
    fastest = max(bandwidth for bandwidth, _ in devices)
    together = sum(bandwidth for bandwidth, _ in devices)
    by_layer = decode(one, portions).tokens_per_s
    by_tensor = decode(one, portions, Split.TENSOR).tokens_per_s
    assert by_layer <= by_tensor * 1.000001
    assert by_layer <= decode_on(one, Device.of("", fastest)).tokens_per_s * 1.000001
    assert by_tensor <= decode_on(one, Device.of("", together)).tokens_per_s * 1.000001


@settings(deadline=None)
@given(GEOMETRIES, st.integers(1, 64), CONTEXTS)
def test_a_batch_is_never_slower_together_nor_faster_for_each(geometry: Geometry, batch: int, context: int) -> None:
    alone = decode_on(stepped(geometry, context), H100).tokens_per_s
    ceiling = decode_on(stepped(geometry, context, batch=batch), H100)
    assert ceiling.tokens_per_s >= alone * 0.999999
    assert ceiling.tokens_per_s <= batch * alone * 1.000001
    assert ceiling.expected_tokens_per_s <= ceiling.tokens_per_s * 1.000001


@settings(deadline=None)
@given(GEOMETRIES, st.integers(1, 50_000), st.integers(0, 50_000))
def test_prefill_in_two_pieces_costs_the_same_and_a_head_more(geometry: Geometry, first: int, second: int) -> None:
    whole = prefill_flops(geometry, first + second)
    one, two = prefill_flops(geometry, first), prefill_flops(geometry, second, start=first)
    assert whole is not None
    assert one is not None
    assert two is not None
    assert geometry.weights is not None
    assert one + two == pytest.approx(whole + 2 * geometry.weights.head.parameters)


def test_prefill_binds_by_memory_when_short_and_by_compute_when_long() -> None:
    short, long = prefill(LLAMA_8B, [H100], 16), prefill(LLAMA_8B, [H100], 4096)
    assert short is not None
    assert long is not None
    assert (short.bound, long.bound) == (Bound.MEMORY, Bound.COMPUTE)
    assert short.ttft_floor_ms == pytest.approx(1000 / decode_on(stepped(LLAMA_8B), H100).tokens_per_s, rel=0.001)
    assert long.words.endswith("TFLOP / 989 TFLOP/s); compute binds")
    two = prefill(LLAMA_8B, [H100, H100], 4096)
    assert two is not None
    assert two.tokens_per_s == pytest.approx(2 * long.tokens_per_s)


def test_an_unknown_peak_gives_no_prefill_ceiling_and_says_so() -> None:
    found = report(LLAMA_8B, Device.of("", 1008))
    assert found.prefill is None
    assert any("no prefill ceiling" in sentence for sentence in found.assumptions)
    assert json.loads(json.dumps(found.to_json()))["ttft_floor_ms"] is None


def test_utilisation_of_the_peak() -> None:
    ceiling = prefill(LLAMA_8B, [H100], 4096)
    assert ceiling is not None
    assert mfu(ceiling.tokens_per_s / 2, 4096, ceiling.flops, 989e12) == pytest.approx(0.5)


def test_above_all_is_shown_and_explained() -> None:
    one = stepped(LLAMA_8B)
    assert why_above_all(0.99, LLAMA_8B, one, is_bandwidth_measured=False) == ()
    typed_in = why_above_all(1.2, LLAMA_8B, one, is_bandwidth_measured=False)
    assert typed_in[0] == "the bandwidth taken for this machine is too low"
    assert any("speculative" in reason for reason in typed_in)
    moe = from_config(MODELS["Qwen3-30B-A3B"], 4.85)
    told = why_above_all(1.2, moe, stepped(moe), True, cache_bytes=1 << 30, is_speculative=False)
    assert told[0].startswith("cache may help")
    assert any("experts" in reason for reason in told)
    assert not any("speculative" in reason for reason in told)
    assert share_words(1.2, 120, 100) == "120 % = 120 tok/s / 100 tok/s"


def test_weights_that_may_fit_the_cache() -> None:
    small = of_bytes(247e6)
    assert cache_guard(small, 32 << 20) is not None
    assert cache_guard(small, 16 << 20) is None
    assert cache_guard(small, None) is None


def test_a_fit_recovers_what_made_the_runs() -> None:
    made = Fit(bandwidth_bytes_per_s=800e9, layer_s=50e-6)
    runs = [Observation(n_bytes, 32, made.tokens_per_s(n_bytes, 32)) for n_bytes in (5_000_000_000, 15_000_000_000)]
    found = fit(runs[0], runs[1], Device.of("", 1000))
    assert isinstance(found, Fit)
    assert found.bandwidth_bytes_per_s == pytest.approx(800e9)
    assert found.layer_s == pytest.approx(50e-6)
    assert found.notes == ()
    slower = fit(runs[0], runs[1], Device.of("", 700))
    assert isinstance(slower, Fit)
    assert "limited by computing" in slower.notes[0]


def test_runs_that_tell_nothing_apart() -> None:
    alike = [Observation(5_000_000_000, 32, speed) for speed in (70.0, 71.0)]
    assert "cannot be told apart" in str(fit(alike[0], alike[1], Device.of("", 1000)))
    backwards = [Observation(5_000_000_000, 32, 50.0), Observation(15_000_000_000, 32, 60.0)]
    assert "was not slower" in str(fit(backwards[0], backwards[1], Device.of("", 1000)))


def test_a_waterfall_adds_up_to_the_token() -> None:
    hybrid = from_config(MODELS["Qwen3.5-35B-A3B"], 4.85)
    shares = waterfall(stepped(hybrid, 8192), Device.of("", 1008), 300, hybrid.blocks, Fit(900e9, 10e-6))
    assert [share.key for share in shares] == ["weights", "kv", "state", "layers", "loss"]
    assert sum(share.ms for share in shares) == pytest.approx(1000 / 300)
    assert shares[3].ms == pytest.approx(0.4)
    faster = waterfall(stepped(LLAMA_8B), Device.of("", 1008), 100, 32, None)
    assert [share.key for share in faster] == ["weights", "loss"]
    assert faster[-1].ms < 0


def test_what_it_would_take() -> None:
    run = Run(LLAMA_8B, Device.of("RTX 4090", 1008), KvTypes(), 8192, 50.0)
    quantized, cached, moved = advise(run, [Device.of("RTX 5090", 1792)])
    assert quantized.change == "Q8_0 weights"
    assert quantized.low_tokens_per_s < quantized.high_tokens_per_s < quantized.ceiling_tokens_per_s
    share = mbu(50, decode_on(stepped(LLAMA_8B, 8192), run.device).tokens_per_s)
    assert quantized.high_tokens_per_s == pytest.approx(share * quantized.ceiling_tokens_per_s)
    assert cached.change == "q8_0 KV cache"
    assert 50 < cached.high_tokens_per_s < 55
    assert moved.high_tokens_per_s == pytest.approx(50 * 1792 / 1008)
    (slower,) = advise(Run(LLAMA_8B, run.device, KvTypes("q4_0", "q4_0"), 0, 50.0), [Device.of("RAM", 89.6)])[1:]
    assert slower.low_tokens_per_s == pytest.approx(50 * 89.6 / 1008)


def test_the_range_holds_what_was_published() -> None:
    """F16 to Q4_K_M cuts bytes 3.2 times and made published runs 1.9 to 2.6 times faster."""
    advice = advise(Run(LLAMA_8B, Device.of("", 100), KvTypes("q8_0", "q8_0"), 0, 1.0), [Device.of("faster", 320)])[-1]
    assert advice.low_tokens_per_s == pytest.approx(1.9, abs=0.01)
    assert advice.high_tokens_per_s > 2.6


def test_next_quantization_is_clearly_smaller() -> None:
    assert [next_quantization(bits) for bits in (32, 16, 8.5, 7.36, 4.85, 4.5, 3.0)] == [
        "F16",
        "Q8_0",
        "Q6_K",
        "Q6_K",
        "Q3_K_M",
        "Q3_K_M",
        None,
    ]


def test_advice_needs_weights() -> None:
    unknown = from_config({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64})
    assert advise(Run(unknown, H100, KvTypes(), 0, 10.0), [H100]) == []
    assert against_context(unknown, H100) == []


def test_decode_against_context() -> None:
    points = against_context(from_config(MODELS["Llama-3.1-8B"], 4.85), Device.of("", 256))
    speeds = [point.ceiling_tokens_per_s for point in points]
    assert speeds == sorted(speeds, reverse=True)
    assert points[0].kv_share == 0
    assert points[-1].kv_share > 0.75
    assert (points[0].low_tokens_per_s, points[0].high_tokens_per_s) == usual_range(speeds[0])


def test_mean_context_of_a_decode() -> None:
    assert mean_context(512, 128) == 576


def test_kv_types() -> None:
    assert KvTypes.parse("Q8_0") == KvTypes("q8_0", "q8_0")
    assert str(KvTypes.parse("q8_0/q4_0")) == "q8_0/q4_0"
    assert stepped(LLAMA_8B, 100, "q8_0/f16").kv_bytes == 100 * 32 * 1024 * (8.5 + 16) / 8
    with pytest.raises(BadInput, match="'q9'"):
        KvTypes.parse("q9")


@pytest.mark.parametrize(("context", "batch"), [(-1, 1), (1 << 40, 1), (0, 0), (0, 1 << 30)])
def test_steps_that_make_no_sense(context: int, batch: int) -> None:
    with pytest.raises(BadInput):
        step(LLAMA_8B, context, batch=batch)


def test_portions_that_make_no_sense() -> None:
    for portions in ([], [Portion(H100, 0)], [Portion(H100, -1), Portion(H100, 2)]):
        with pytest.raises(BadInput):
            decode(of_bytes(1e9), portions)


def test_weights_scale_by_role() -> None:
    weights = LLAMA_8B.weights
    assert isinstance(weights, Weights)
    assert weights.scaled(0.5).bits_per_weight == pytest.approx(8)
