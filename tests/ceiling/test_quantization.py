"""Bits per weight by role, by what a config.json says of its quantization: scales, heads, modules left as they are."""

from typing import Any

import pytest

from app.ceiling.decode import Device
from app.ceiling.geometry import Certainty, Part
from app.ceiling.hf_config import from_config
from app.ceiling.hf_quantization import BLOCK_FORMATS
from app.ceiling.number_formats import GGML_BLOCKS, KV_BITS
from app.ceiling.report import report
from tests.ceiling.models import MODELS

LLAMA, MOE = MODELS["Llama-3.1-8B"], MODELS["Qwen3-30B-A3B"]


def bits(part: Part) -> float:
    return 8 * part.n_bytes / part.parameters


def roles(quantization: dict[str, Any], key: str = "quantization_config", most: bool = False) -> dict[str, float]:
    geometry = from_config({**MOE, "torch_dtype": "bfloat16", key: quantization})
    weights = geometry.weights_at_most if most else geometry.weights
    assert weights is not None
    parts = {"dense": weights.dense, "routed": weights.routed, "head": weights.head, "table": weights.unread}
    return {role: round(bits(part), 3) for role, part in parts.items()}


def all_at(layers: float, head: float = 16, table: float = 16) -> dict[str, float]:
    return {"dense": layers, "routed": layers, "head": head, "table": table}


GROUPED = {"num_bits": 4, "group_size": 32, "symmetric": True, "type": "int"}
FLOAT4 = {"num_bits": 4, "group_size": 16, "symmetric": True, "type": "float"}


def quark(weights: dict[str, Any]) -> dict[str, Any]:
    return {"quant_method": "quark", "global_quant_config": {"weight": weights}, "exclude": ["lm_head"]}


def compressed(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}, **more}


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, all_at(4.156)),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "lm_head": True}, all_at(4.156, head=4.156)),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, all_at(4)),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, all_at(4.312)),
        ({"quant_method": "exl3", "bits": 4.0, "head_bits": 6}, all_at(4, head=6)),
        ({"quant_method": "exl2", "bits": 3.5, "head_bits": 8}, all_at(3.5, head=8)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, all_at(8)),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, all_at(4.5, head=4.5)),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, all_at(4.5)),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ["lm_head"]}, all_at(8)),
        (compressed(GROUPED), all_at(4.5, head=4.5)),
        (compressed(GROUPED, ignore=["lm_head"]), all_at(4.5)),
        (compressed(FLOAT4, ignore=["lm_head"]), all_at(4.5)),
        (compressed(FLOAT4, ignore=["lm_head"], format="nvfp4-pack-quantized"), all_at(4.5)),
        (compressed({**GROUPED, "type": "float"}, ignore=["lm_head"], format="mxfp4-pack-quantized"), all_at(4.25)),
        (compressed({"num_bits": 8, "strategy": "channel"}, ignore=["lm_head"]), all_at(8)),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, all_at(4.127)),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, all_at(8)),
        (
            {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}},
            all_at(4.25),
        ),
        ({"quant_method": "fp_quant", "forward_dtype": "nvfp4"}, all_at(4.5)),
        (compressed({**FLOAT4, "group_size": 32}, ignore=["lm_head"]), all_at(4.25)),
        (compressed({**FLOAT4, "num_bits": 8, "group_size": 32}, ignore=["lm_head"]), all_at(8.25)),
        (compressed({**FLOAT4, "num_bits": 8, "group_size": 128}, ignore=["lm_head"]), all_at(8.125)),
        (quark({"dtype": "fp4", "group_size": 32}), all_at(4.25)),
        (quark({"dtype": "int4", "group_size": 32}), all_at(4.5)),
        (
            {"quant_method": "aqlm", "num_codebooks": 1, "nbits_per_codebook": 16, "in_group_size": 8},
            all_at(2),
        ),
    ],
    ids=str,
)  # fmt: skip
def test_layers_head_and_table(quantization: dict[str, Any], expected: dict[str, float]) -> None:
    assert roles(quantization) == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"bits": 4, "group_size": 64}, 4.5),
        ({"bits": 4, "group_size": 32}, 5),
        ({"bits": 8, "group_size": 64, "mode": "affine"}, 8.5),
        ({"bits": 4, "group_size": 32, "mode": "mxfp4"}, 4.25),
        ({"bits": 4, "group_size": 16, "mode": "nvfp4"}, 4.5),
    ],
)
def test_mlx_quantizes_all(quantization: dict[str, Any], expected: float) -> None:
    """4 bits in groups of 64 with two 16-bit numbers are 4.5. MLX writes it under two names."""
    for key in ("quantization", "quantization_config"):
        assert roles(quantization, key) == pytest.approx(all_at(expected, expected, expected))


def test_modules_with_bits_of_their_own() -> None:
    mixed = {"bits": 4, "group_size": 64, "lm_head": {"bits": 8, "group_size": 64}}
    assert roles(mixed, "quantization") == pytest.approx(all_at(4.5, 8.5, 4.5))
    mixed["model.layers.0.self_attn.v_proj"] = {"bits": 6, "group_size": 64}
    assert roles(mixed, "quantization")["dense"] == pytest.approx(4.5)
    assert 6.5 < roles(mixed, "quantization", most=True)["dense"] < 7


def test_attention_that_stays_as_it_is() -> None:
    """Of all layers it counts as it is; of some layers the fewest bytes count, and the most are said."""
    attention = 48 * (2048 * (32 + 4 + 4) * 128 + 32 * 128 * 2048 + 2 * 128)
    geometry = from_config({**MOE, "quantization_config": compressed(GROUPED, ignore=["re:.*self_attn.*", "lm_head"])})
    assert geometry.weights is not None
    small = geometry.weights.dense.parameters - attention
    assert geometry.weights.dense.n_bytes == pytest.approx(attention * 2 + small * 4.5 / 8, rel=1e-6)
    some = [f"model.layers.{index}.self_attn.q_proj" for index in range(4)]
    some_plain = compressed(GROUPED, ignore=[*some, "lm_head"])
    assert roles(some_plain)["dense"] == pytest.approx(4.5)
    assert roles(some_plain, most=True)["dense"] > 14


def test_a_range_is_said() -> None:
    config = {**MODELS["gpt-oss-120b"], "quantization_config": {"quant_method": "mxfp4"}}
    geometry = report(from_config(config), Device.of("GB10", 273))
    assert geometry.step is not None
    document = geometry.to_json()
    assert document["weight_bytes_per_token_at_most"] > 1.3 * document["weight_bytes_per_token"]
    assert any("files of this quantization differ" in sentence for sentence in geometry.assumptions)
    plain = report(from_config(LLAMA), Device.of("GB10", 273))
    assert plain.to_json()["weight_bytes_per_token_at_most"] is None


@pytest.mark.parametrize(
    ("quantization", "fewest", "most"),
    [
        ({"quant_method": "gptq_marlin_24", "bits": 4, "group_size": 128}, 3.062, 4.125),
        (compressed(GROUPED, format="marlin-24"), 3.25, 4.5),
        (compressed({"num_bits": 8}, sparsity_config={"sparsity_structure": "2:4"}), 5, 8),
        (compressed({"num_bits": 8}, sparsity_config={"sparsity_structure": "unstructured"}), 8, 8),
        ({"quant_method": "gptq", "bits": 4, "group_size": 1024}, 4.02, 4.02),
    ],
)
def test_zeros_in_two_of_four_weights_may_be_left_out(quantization: dict[str, Any], fewest: float, most: float) -> None:
    assert roles(quantization)["routed"] == pytest.approx(fewest, abs=0.002)
    assert roles(quantization, most=True)["routed"] == pytest.approx(most, abs=0.002)


def test_experts_of_a_type_of_their_own() -> None:
    deepseek = {**MOE, "expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8"}}
    weights = from_config(deepseek).weights
    assert weights is not None
    assert bits(weights.routed) == pytest.approx(4.25)
    assert bits(weights.dense) == pytest.approx(8)


@pytest.mark.parametrize(
    "quantization",
    [
        {"quant_method": "new"},
        {"quant_method": "gptq", "bits": True},
        {"quant_method": "gptq", "bits": "4"},
        {"config_groups": {"a": 3}},
        {"config_groups": []},
        {"extra_config": 5},
        {"ignore": 7, "quant_method": "x"},
        "int4",
        [4],
    ],
)
def test_what_is_not_understood_leaves_the_weights_unknown(quantization: Any) -> None:
    geometry = from_config({**LLAMA, "quantization_config": quantization})
    assert geometry.weights is None
    assert geometry.certainty is Certainty.ESTIMATE
    assert any("bits per weight" in sentence for sentence in geometry.assumptions)


def test_bits_of_caches_are_those_of_their_blocks() -> None:
    for name in ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"):
        elements, size_bytes = GGML_BLOCKS[name.upper()]
        assert KV_BITS[name] == 8 * size_bytes / elements, name
    for name, bits_of_value in KV_BITS.items():
        if name.startswith(("fp8", "int8")):
            assert bits_of_value == 8, name


def test_bits_of_block_formats_hold_their_scales() -> None:
    """One of 8 bits for 32 values of an MX format, one for 16 of NVFP4."""
    of_mx = {"mxfp4": 4, "mxfp6": 6, "mxfp8": 8, "mxint8": 8}
    assert {name: value + 8 / 32 for name, value in of_mx.items()} | {"nvfp4": 4 + 8 / 16} == BLOCK_FORMATS
