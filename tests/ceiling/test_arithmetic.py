"""The arithmetic itself: known cases, rules that always hold, and its words."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ceiling.bytes_per_step import kv_bytes_per_token, step
from app.ceiling.decode import Device, Drafting, Portion, Split, decode, decode_on, speculative
from app.ceiling.efficiency import mbu
from app.ceiling.geometry import Geometry, Weights
from app.ceiling.hf_config import from_config
from app.ceiling.number_formats import KvTypes
from app.ceiling.prefill import Bound, causal_pairs, prefill, prefill_flops
from app.ceiling.report import report
from app.cli.ceiling import parse_bandwidth, parse_size
from app.core.errors import BadInput
from tests.ceiling.models import MODELS
from tests.ceiling.shapes import H100, LLAMA_8B, of_bytes, stepped


@pytest.mark.parametrize(
    ("bandwidth", "rounded"), [(90, 6), (600, 38), (864, 54), (1008, 63), (2039, 127), (3350, 209)]
)
def test_8b_at_16_bit_on_known_devices(bandwidth: float, rounded: int) -> None:
    """Taken as 16 GB; the exact bytes leave out the embedding table, so the exact ceiling is 6.6 % higher."""
    device = Device.of("device", bandwidth)
    tokens_per_s = decode_on(of_bytes(16e9), device).tokens_per_s
    assert tokens_per_s == pytest.approx(rounded, abs=0.6)
    assert decode_on(stepped(LLAMA_8B), device).tokens_per_s / tokens_per_s == pytest.approx(1.066, abs=0.001)


def test_70b_on_one_h100_and_on_two() -> None:
    decode_step = of_bytes(140e9)
    assert 1000 / decode_on(decode_step, H100).tokens_per_s == pytest.approx(41.8, abs=0.05)
    two = decode(decode_step, [Portion(H100), Portion(H100)], Split.TENSOR)
    assert 1000 / two.tokens_per_s == pytest.approx(20.9, abs=0.05)
    assert H100.critical_intensity == pytest.approx(295, abs=0.5)
    assert pytest.approx(0.14, abs=0.005) == 2 * 70e9 / 989e12 * 1000


def test_kv_of_a_common_shape() -> None:
    assert kv_bytes_per_token(LLAMA_8B) == 131_072
    assert stepped(LLAMA_8B, 8000).kv_bytes == pytest.approx(1.05e9, rel=0.01)


def test_3b_active_in_plain_memory() -> None:
    decode_step = of_bytes(3.04e9 * 0.56)
    assert decode_step.n_bytes == pytest.approx(1.7e9, rel=0.01)
    assert decode_on(decode_step, Device.of("", 30)).tokens_per_s == pytest.approx(18, abs=0.5)
    assert decode_on(decode_step, Device.of("", 40)).tokens_per_s == pytest.approx(24, abs=0.6)


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
    decode_step = stepped(geometry)
    assert geometry.weights is not None
    routed = round(geometry.weights.routed.n_bytes * geometry.expert_share)
    card, processor = Device.of("card", 936), Device.of("RAM", 89.6)
    expected = 1 / ((decode_step.n_bytes - routed) / 936e9 + routed / 89.6e9)
    portions = [Portion(card, decode_step.n_bytes - routed), Portion(processor, routed)]
    assert decode(decode_step, portions).tokens_per_s == pytest.approx(expected)


def test_speculative_decoding() -> None:
    """Nothing drafted rightly is slower than no draft; all of it is nearly k + 1 times as fast with a small draft."""
    large, draft, device = of_bytes(40e9), of_bytes(0.5e9), Device.of("", 1000)
    plain = decode_on(large, device).tokens_per_s
    assert speculative(large, draft, device, Drafting(4, 0)).tokens_per_s < plain
    assert speculative(large, draft, device, Drafting(4, 4)).tokens_per_s == pytest.approx(5 * 1000 / (40 + 4 * 0.5))
    assert speculative(large, draft, device, Drafting(4, 2.5)).words.startswith(
        "83.3 tok/s = (1 + 2.5) x 1,000 GB/s / (40.0 GB"
    )
    for drafted, accepted in ((0, 0), (4, 5), (4, -1)):
        with pytest.raises(BadInput):
            Drafting(drafted, accepted)


def test_a_batch_gives_a_bound_and_what_to_expect() -> None:
    geometry = from_config(MODELS["Qwen3-30B-A3B"], 16)
    ceiling = decode_on(stepped(geometry, 4096, batch=16), H100)
    assert ceiling.expected_tokens_per_s < ceiling.tokens_per_s
    assert "with random routing" in ceiling.assumptions[0]
    alone = decode_on(stepped(geometry, 4096), H100)
    assert alone.expected_tokens_per_s == pytest.approx(alone.tokens_per_s)
    assert alone.assumptions == ()


def test_a_large_batch_is_limited_by_computing() -> None:
    sentence = "compute limits decode to 65,890 tok/s: 989 TFLOP/s / (2 x 7.50 B parameters)"
    assert sentence in report(LLAMA_8B, H100, batch=512).assumptions
    assert sentence not in report(LLAMA_8B, H100, batch=64).assumptions
    assert sentence not in report(LLAMA_8B, Device.of("", 3350), batch=512).assumptions


def test_specified_and_measured_bandwidth() -> None:
    """C13"""
    for bandwidth, ceiling, percent in ((17.1, 8.55, 60.8), (11.59, 5.8, 89.7)):
        tokens_per_s = decode_on(of_bytes(2e9), Device.of("", bandwidth)).tokens_per_s
        assert tokens_per_s == pytest.approx(ceiling, abs=0.01)
        assert mbu(5.2, tokens_per_s) * 100 == pytest.approx(percent, abs=0.1)


def test_gb_and_gib() -> None:
    """C14"""
    ceiling = decode_on(of_bytes(parse_size("13.34 GiB")), Device("", parse_bandwidth("448 GB/s")))
    assert ceiling.tokens_per_s == pytest.approx(31.28, abs=0.01)
    assert parse_size("1 GiB") / parse_size("1 GB") == pytest.approx(1.0737, abs=1e-4)
    assert parse_bandwidth("1 TiB/s") == 2**40
    assert parse_bandwidth(" 89.6 ") == pytest.approx(89.6e9)
    assert parse_bandwidth("1,008") == parse_bandwidth("1,008 GB/s") == parse_bandwidth("1.008TB/s")


@pytest.mark.parametrize("text", ["", "fast", "448 GB", "448 Gb/h", "-3 GB/s", "1e999 GB/s", "448 GBps/s"])
def test_bandwidths_that_are_none(text: str) -> None:
    with pytest.raises(BadInput, match="GB"):
        parse_bandwidth(text)


@pytest.mark.parametrize("bandwidth", [0, -1, float("inf"), float("nan")])
def test_devices_that_make_no_sense(bandwidth: float) -> None:
    with pytest.raises(BadInput):
        Device.of("", bandwidth)
    with pytest.raises(BadInput):
        Device.of("", 100, bandwidth)


@given(st.integers(0, 30), st.integers(0, 30), st.none() | st.integers(1, 40))
def test_causal_pairs_are_those_counted_one_by_one(tokens: int, start: int, window: int | None) -> None:
    visible = [min(position + 1, window or 1000) for position in range(start, start + tokens)]
    assert causal_pairs(tokens, start, window) == sum(visible)


GEOMETRIES = st.sampled_from([from_config(shape, 4.85) for shape in MODELS.values()])
CONTEXTS = st.integers(0, 200_000)
BANDWIDTHS = st.floats(1, 10_000)


@settings(deadline=None)
@given(GEOMETRIES, CONTEXTS, CONTEXTS, BANDWIDTHS)
def test_a_ceiling_falls_with_context_and_rises_with_bandwidth(
    geometry: Geometry, context: int, other_context: int, bandwidth: float
) -> None:
    device, faster = Device.of("", bandwidth), Device.of("", bandwidth * 1.5)
    near, far = sorted((context, other_context))
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
    decode_step = stepped(geometry, 4096)
    portions = [Portion(Device.of("", bandwidth), share) for bandwidth, share in devices]
    fastest = max(bandwidth for bandwidth, _ in devices)
    together = sum(bandwidth for bandwidth, _ in devices)
    by_layer = decode(decode_step, portions).tokens_per_s
    by_tensor = decode(decode_step, portions, Split.TENSOR).tokens_per_s
    assert by_layer <= by_tensor * 1.000001
    assert by_layer <= decode_on(decode_step, Device.of("", fastest)).tokens_per_s * 1.000001
    assert by_tensor <= decode_on(decode_step, Device.of("", together)).tokens_per_s * 1.000001


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
    all_flops = prefill_flops(geometry, first + second)
    first_flops, second_flops = prefill_flops(geometry, first), prefill_flops(geometry, second, start=first)
    assert all_flops is not None
    assert first_flops is not None
    assert second_flops is not None
    assert geometry.weights is not None
    assert first_flops + second_flops == pytest.approx(all_flops + 2 * geometry.weights.head.parameters)


def test_prefill_binds_by_memory_when_short_and_by_compute_when_long() -> None:
    short, long = prefill(LLAMA_8B, [H100], 16), prefill(LLAMA_8B, [H100], 4096)
    assert short is not None
    assert long is not None
    assert (short.bound, long.bound) == (Bound.MEMORY, Bound.COMPUTE)
    assert short.ttft_floor_ms == pytest.approx(1000 / decode_on(stepped(LLAMA_8B), H100).tokens_per_s, rel=0.001)
    assert long.words.endswith("TFLOP / 989 TFLOP/s); limited by compute")
    two = prefill(LLAMA_8B, [H100, H100], 4096)
    assert two is not None
    assert two.tokens_per_s == pytest.approx(2 * long.tokens_per_s)


def test_an_unknown_peak_gives_no_prefill_ceiling_and_says_so() -> None:
    ceiling_report = report(LLAMA_8B, Device.of("", 1008))
    assert ceiling_report.prefill is None
    assert any("no prefill ceiling" in sentence for sentence in ceiling_report.assumptions)
    assert json.loads(json.dumps(ceiling_report.to_json()))["ttft_floor_ms"] is None


def test_kv_types() -> None:
    assert KvTypes.parse("Q8_0") == KvTypes("q8_0", "q8_0")
    assert str(KvTypes.parse("q8_0/q4_0")) == "q8_0/q4_0"
    assert stepped(LLAMA_8B, 100, "q8_0/f16").kv_bytes == 100 * 32 * 1024 * (8.5 + 16) / 8
    assert KvTypes.parse("int8/q4").bits == (8, 4)
    for nonsense in ("", "q8\n0", "f" * 10_000, "\u202e"):
        with pytest.raises(BadInput, match="not a KV cache type"):
            KvTypes.parse(nonsense)


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("turbo2", (2, 2)), ("turbo3", (3, 3)), ("turbo4", (4, 4)), ("tbq3_0", (3, 3)), ("tq3_0", (3, 3)),
        ("iso3", (3, 3)), ("planar4", (4, 4)), ("k8v4", (8, 4)), ("K8V4", (8, 4)), ("nvfp4", (4, 4)), ("q8", (8, 8)),
    ],
)  # fmt: skip
def test_kv_types_of_forks_count_the_bits_in_their_name(name: str, bits: tuple[float, float]) -> None:
    """B17: scales are left out, which is said."""
    kv = KvTypes.parse(name)
    assert kv.bits == bits
    assert all("its scales are left out" in sentence for sentence in kv.assumptions)
    assert kv.assumptions


@pytest.mark.parametrize("name", ["q9", "q80", "8", "turbo9", "int", "fancy"])
def test_an_unknown_kv_type_counts_nothing_and_is_named(name: str) -> None:
    kv = KvTypes.parse(name)
    assert kv.bits == (0, 0)
    assert f"of type {name} is unknown" in kv.assumptions[0]
    ceiling_report = report(LLAMA_8B, H100, 8192, kv)
    assert kv.assumptions[0] in ceiling_report.assumptions
    assert stepped(LLAMA_8B, 8192, f"q8_0/{name}").kv_bytes == 8192 * 32 * 1024 * 8.5 / 8


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
