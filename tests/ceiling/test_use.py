"""What a ceiling is for: the share of it that a run reaches, where its time goes, what would make it faster."""

from dataclasses import replace
from functools import partial

import pytest

from app.ceiling.advice import (
    LADDER,
    Fit,
    MeasuredRun,
    Observation,
    OtherLayout,
    advise,
    fit,
    next_quantization,
    waterfall,
)
from app.ceiling.decode import Device, against_context, decode_on, usual_range
from app.ceiling.efficiency import above_ceiling_reasons, cache_guard, mfu
from app.ceiling.hf_config import from_config
from app.ceiling.number_formats import USUAL_BITS, KvTypes, bits_of_label
from app.ceiling.prediction import Case, MeasuredCase
from app.ceiling.prefill import prefill
from tests.ceiling.models import MODELS
from tests.ceiling.shapes import H100, LLAMA_8B, of_bytes, stepped


def test_utilisation_of_the_peak() -> None:
    ceiling = prefill(LLAMA_8B, [H100], 4096)
    assert ceiling is not None
    assert mfu(ceiling.tokens_per_s / 2, 4096, ceiling.flops, 989e12) == pytest.approx(0.5)


def test_above_all_is_shown_and_explained() -> None:
    decode_step = stepped(LLAMA_8B)
    assert above_ceiling_reasons(0.99, LLAMA_8B, decode_step, is_bandwidth_measured=False) == ()
    typed_in = above_ceiling_reasons(1.2, LLAMA_8B, decode_step, is_bandwidth_measured=False)
    assert typed_in[0] == "the bandwidth assumed for this machine is too low"
    assert any("speculative" in reason for reason in typed_in)
    measured = above_ceiling_reasons(1.2, LLAMA_8B, decode_step, is_bandwidth_measured=True, is_speculative=True)
    assert [reason.split(":")[0] for reason in measured] == [
        "the measured bandwidth may be too low",
        "speculative decoding may have accepted more drafted tokens than the server reports",
        "the server may run another model file or quantization than the one the ceiling was computed for",
    ]
    moe = from_config(MODELS["Qwen3-30B-A3B"], 4.85)
    reasons = above_ceiling_reasons(1.2, moe, stepped(moe), True, cache_bytes=1 << 30, is_speculative=False)
    assert reasons[0].startswith("cache may help")
    assert any("experts" in reason for reason in reasons)
    assert not any("speculative" in reason for reason in reasons)


def test_weights_that_may_fit_the_cache() -> None:
    small = of_bytes(247e6)
    assert cache_guard(small, 32 << 20) is not None
    assert cache_guard(small, 16 << 20) is None
    assert cache_guard(small, None) is None


def test_a_fit_recovers_what_made_the_runs() -> None:
    true_fit = Fit(bandwidth_bytes_per_s=800e9, layer_s=50e-6)
    runs = [Observation(n_bytes, 32, true_fit.tokens_per_s(n_bytes, 32)) for n_bytes in (5_000_000_000, 15_000_000_000)]
    fitted = fit(runs[0], runs[1], Device.of("", 1000))
    assert isinstance(fitted, Fit)
    assert fitted.bandwidth_bytes_per_s == pytest.approx(800e9)
    assert fitted.layer_s == pytest.approx(50e-6)
    assert fitted.notes == ()
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
    run = MeasuredRun(LLAMA_8B, Device.of("RTX 4090", 1008), KvTypes(), 8192, 50.0, quantization="F16")
    moved_to = OtherLayout("RTX 5090", Device.of("RTX 5090", 1792), device_key="RTX 5090")
    quantized, cached, moved = advise(run, [moved_to])
    assert [advice.change for advice in (quantized, cached, moved)] == ["Q8_0 weights", "q8_0 KV cache", "RTX 5090"]
    for advice in (quantized, cached, moved):
        assert 50 < advice.predicted_tokens_per_s <= advice.high_tokens_per_s <= advice.ceiling_tokens_per_s
        assert advice.low_tokens_per_s < advice.predicted_tokens_per_s
        assert advice.evidence == 1
    assert cached.predicted_tokens_per_s < 55


def test_what_makes_nothing_faster_is_not_advised() -> None:
    run = MeasuredRun(LLAMA_8B, Device.of("RTX 4090", 1008), KvTypes("q4_0", "q4_0"), 0, 50.0, quantization="Q2_K")
    assert advise(run, [OtherLayout("DDR5", Device.of("DDR5", 89.6), device_key="DDR5")]) == []
    without_cache = replace(run, kv=KvTypes())  # at an empty context, a smaller cache saves nothing
    assert advise(without_cache) == []


def test_more_evidence_narrows_what_is_predicted() -> None:
    run = MeasuredRun(LLAMA_8B, Device.of("RTX 4090", 1008), KvTypes(), 512, 50.0, model="a", quantization="F16")
    q8 = MeasuredCase(Case(8_000_000_000, 32, 1008e9, "b", "Q8_0"), 95.0)
    (alone, *_), (beside, *_) = advise(run), advise(run, evidence=[q8])
    assert (alone.change, alone.evidence, beside.evidence) == ("Q8_0 weights", 1, 2)
    widths = [advice.high_tokens_per_s / advice.low_tokens_per_s for advice in (alone, beside)]
    assert widths[1] < widths[0]


@pytest.mark.parametrize("label", [*LADDER, "UD-Q4_K_XL", "IQ4_XS", "MXFP4", "BF16", "4-bit", "F32"])
@pytest.mark.parametrize("file_bits", [3.0, 4.85, 7.36, 16.0])
def test_the_next_quantization_is_below_the_label_whatever_its_file_holds(label: str, file_bits: float) -> None:
    smaller = next_quantization(label, file_bits)
    if smaller is not None:
        bits = bits_of_label(label)
        assert bits is not None
        assert USUAL_BITS[smaller.label] < bits
        assert smaller.bits_ratio < 1


def test_without_a_label_the_file_decides() -> None:
    smaller = [next_quantization("", bits) for bits in (32, 16, 8.5, 4.85, 3.0)]
    assert [step and step.label for step in smaller] == ["F16", "Q8_0", "Q6_K", "Q3_K_M", None]


def test_advice_needs_weights() -> None:
    unknown = from_config({"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64})
    assert advise(MeasuredRun(unknown, H100, KvTypes(), 0, 10.0), [OtherLayout("H100", H100)]) == []
    assert against_context(unknown, partial(decode_on, device=H100)) == []


def test_decode_against_context() -> None:
    points = against_context(from_config(MODELS["Llama-3.1-8B"], 4.85), partial(decode_on, device=Device.of("", 256)))
    speeds = [point.ceiling_tokens_per_s for point in points]
    assert speeds == sorted(speeds, reverse=True)
    assert points[0].kv_share == 0
    assert points[-1].kv_share > 0.75
    assert (points[0].low_tokens_per_s, points[0].high_tokens_per_s) == usual_range(speeds[0])
