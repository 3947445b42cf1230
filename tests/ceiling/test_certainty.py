"""A bound is a bound: a key that shapes bytes and is not understood makes an estimate, and is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf.constants import Keys
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ceiling.bytes_per_step import kv_bytes
from app.ceiling.decode import Device
from app.ceiling.geometry import Certainty, Geometry, from_parameter_counts
from app.ceiling.ggml_geometry import from_file
from app.ceiling.hf_config import from_config
from app.ceiling.report import report
from app.ceiling.sources import from_document, from_path
from app.ceiling.structural_keys import shapes_bytes
from tests.ceiling.families import FAMILIES
from tests.ceiling.files import SMALL, dense, moe, write_gguf
from tests.ceiling.models import MODELS, shape
from tests.ceiling.shapes import H100, LLAMA_8B

LLAMA = MODELS["Llama-3.1-8B"]
HARMLESS: dict[str, Any] = {
    "rope_theta": 1e6, "rope_scaling": {"factor": 8.0, "rope_type": "yarn"}, "eos_token_id": [1, 2], "pad_token_id": 3,
    "attention_dropout": 0.1, "hidden_dropout": 0.1, "embd_pdrop": 0.1, "initializer_range": 0.02, "init_std": 0.02,
    "rms_norm_eps": 1e-6, "layer_norm_epsilon": 1e-5, "max_position_embeddings": 131072, "transformers_version": "5.0",
    "use_cache": True, "torch_dtype": "bfloat16", "router_aux_loss_coef": 0.001, "norm_topk_prob": True, "n_group": 8,
    "topk_group": 4, "routed_scaling_factor": 2.5, "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256,
    "top_k": 50, "top_p": 0.9, "num_beams": 4, "num_labels": 2, "max_length": 20, "chunk_size_feed_forward": 4,
    "pretraining_tp": 4, "ep_size": 8, "partial_rotary_factor": 0.5, "rotary_dim": 64, "num_nextn_predict_layers": 1,
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}, "image_token_index": 7, "mm_tokens_per_image": 256,
    "attention_multiplier": 0.1, "embedding_multiplier": 12, "logits_scaling": 8, "aux_loss_alpha": 0.1,
    "id2label": {"0": "A"}, "time_step_min": 0.001, "initial_context_length": 4096, "mtp_num_layers": 3,
}  # fmt: skip
STRUCTURAL_WORDS = (
    "size", "heads", "layers", "experts", "rank", "window", "ratio", "pattern", "topk", "interval", "freq", "types",
    "dim", "period", "offset", "stride", "kernel", "groups", "blocks", "width",
)  # fmt: skip
WORDS = st.text("bcdfghjklmnpqrtvwxz", min_size=3, max_size=8)


@st.composite
def unknown_keys(draw: st.DrawFn) -> tuple[str, Any]:
    """A name that nobody knows, of the kind that shapes bytes, and a value that such keys have."""
    word = draw(st.sampled_from(STRUCTURAL_WORDS))
    name = draw(st.sampled_from([f"{draw(WORDS)}_{word}", f"num_{draw(WORDS)}_{word}", f"{draw(WORDS)}_{word}_x"]))
    number = st.integers(1, 1 << 20)
    return name, draw(number | st.lists(number, min_size=1, max_size=8) | st.floats(1.5, 100))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(FAMILIES)), unknown_keys(), st.booleans())
def test_any_unknown_structural_key_is_named(family: str, unknown: tuple[str, Any], is_outside: bool) -> None:
    key, value = unknown
    config = json.loads(json.dumps(FAMILIES[family].config))
    inner = config if is_outside else config.get("text_config", config)
    inner[key] = value
    geometry = from_config(config)
    assert geometry.certainty is Certainty.ESTIMATE
    assert geometry.not_understood == (key,)
    assert key in " ".join(report(geometry, H100).assumptions)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(FAMILIES)), st.lists(st.sampled_from(sorted(HARMLESS)), max_size=12))
def test_keys_that_change_no_byte_change_nothing(family: str, keys: list[str]) -> None:
    config = FAMILIES[family].config
    geometry = from_config({**{key: HARMLESS[key] for key in keys}, **config})
    assert (geometry.certainty, geometry.not_understood) == (Certainty.BOUND, ())


@pytest.mark.parametrize("key", HARMLESS)
def test_each_of_them(key: str) -> None:
    assert from_config({**LLAMA, key: HARMLESS[key]}).certainty is Certainty.BOUND


def test_what_is_off_says_nothing() -> None:
    off: dict[str, Any] = {"sink_window": None, "num_memory_heads": 0, "share_kv_layers": False, "expert_groups": []}
    assert from_config({**LLAMA, **off}).certainty is Certainty.BOUND
    assert from_config({**LLAMA, "share_kv_layers": True}).not_understood == ("share_kv_layers",)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("experts_dtype", "fp4"), ("mlp_dtype", "float8_e4m3fn"), ("weight_dtype", "int8"), ("ffn_dtype", "4bit"),
        ("quantize_config", {"bits": 4, "group_size": 128}), ("weight_quantization", {"quant_method": "new"}),
    ],
)  # fmt: skip
def test_numbers_of_fewer_bits_under_names_that_nobody_knows(key: str, value: Any) -> None:
    geometry = from_config({**LLAMA, key: value})
    assert (geometry.certainty, geometry.not_understood) == (Certainty.ESTIMATE, (key,))


@pytest.mark.parametrize("key", ["router_dtype", "mamba_ssm_dtype", "params_dtype"])
def test_types_as_wide_as_the_rest_say_nothing(key: str) -> None:
    assert from_config({**LLAMA, key: "float32"}).certainty is Certainty.BOUND
    assert from_config({**LLAMA, "kv_cache_dtype": "fp8"}).certainty is Certainty.BOUND


def test_inner_objects_are_named_with_their_way() -> None:
    geometry = from_config({**LLAMA, "memory": {"slots": {"num_slots": 64}, "eps": 1e-6}})
    assert geometry.not_understood == ("memory.slots.num_slots",)


@pytest.mark.parametrize("model_type", ["synthetic_moe", "", None, "llama9"])
def test_an_unknown_model_type_is_an_estimate(model_type: str | None) -> None:
    geometry = from_config({**LLAMA, "model_type": model_type})
    assert geometry.not_understood == ("model_type",)
    assert geometry.params_total == 8_030_261_248


def test_two_names_for_one_thing_that_differ() -> None:
    config = FAMILIES["gpt-oss-20b"].config
    assert from_config({**config, "experts_per_token": 4}).certainty is Certainty.BOUND
    assert from_config({**config, "experts_per_token": 8}).not_understood == ("experts_per_token",)


ALSO_IN_REAL_FILES: dict[str, dict[str, Any]] = {
    "lfm2-1.2b": {"block_dim": 2048, "conv_dim": 2048, "conv_dim_out": 2048, "num_heads": 32, "full_attn_idxs": [2, 5]},
    "hunyuan-a13b": {"use_mla": False, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
                     "qk_rope_head_dim": 64, "v_head_dim": 128, "use_cla": False, "cla_share_factor": 2},
    "ernie-4.5-21b-a3b": {"compression_ratio": 1.0, "moe_capacity": [64, 64, 64], "moe_use_aux_free": True},
    "falcon-h1-34b": {"mlp_expansion_factor": 8, "attn_layer_indices": None, "mlp_multipliers": [0.8, 0.2]},
    "command-a": {"layer_switch": 4, "order_of_interleaved_layers": "local_attn_first", "rotary_pct": 1.0},
    "gemma-2-9b": {"sliding_window_size": 4096, "cache_implementation": "hybrid", "attn_logit_softcapping": 50.0},
    "rwkv7-2.9b": {"hidden_ratio": 4.0, "head_dim": 64, "value_dim": [2560] * 32, "decay_low_rank_dim": 96},
    "minimax-m1": {"layernorm_full_attention_alpha": 3.5, "postnorm": True, "router_jitter_noise": 0.0},
    "jamba-1.5-mini": {"mamba_inner_layernorms": True, "num_logits_to_keep": 1, "router_aux_loss_coef": 0.001},
    "kimi-linear-48b": {"num_expert_group": 1, "moe_router_activation_func": "sigmoid", "use_grouped_topk": True},
    "granite-4.0-h-small": {"mamba_chunk_size": 256, "logits_scaling": 16, "normalization_function": "rmsnorm"},
    "step-3": {"moe_layer_freq": None, "need_fp32_gate": False, "max_seq_len": 65536},
}  # fmt: skip


@pytest.mark.parametrize("family", ALSO_IN_REAL_FILES)
def test_what_real_files_say_beside_changes_nothing(family: str) -> None:
    config = json.loads(json.dumps(FAMILIES[family].config))
    full_geometry = from_config(config)
    config.get("text_config", config).update(ALSO_IN_REAL_FILES[family])
    geometry = from_config(config)
    assert (geometry.not_understood, geometry.certainty) == ((), Certainty.BOUND)
    assert (geometry.weights, geometry.attention, geometry.state_bytes) == (
        full_geometry.weights, full_geometry.attention, full_geometry.state_bytes,
    )  # fmt: skip


def test_a_model_of_one_expert_uses_it() -> None:
    config = {**MODELS["Qwen3-30B-A3B"], "num_experts": 1, "num_experts_per_tok": None}
    assert from_config(config).expert_share == 1


def test_zero_experts_make_an_estimate() -> None:
    """LongCat: how many of the chosen experts compute differs from token to token."""
    longcat = {
        "model_type": "longcat_flash", "num_layers": 28, "hidden_size": 6144, "num_attention_heads": 64,
        "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048, "n_routed_experts": 512, "zero_expert_num": 256,
        "moe_topk": 12, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "vocab_size": 131072,
    }  # fmt: skip
    geometry = from_config(longcat)
    assert geometry.not_understood == ("zero_expert_num",)
    assert geometry.params_total is not None
    assert geometry.params_total / 1e9 == pytest.approx(560, rel=0.02)
    assert kv_bytes(geometry, 1) == 2 * 28 * 576 * 2


def test_experts_without_the_number_used_are_not_guessed() -> None:
    """B03: type it."""
    config = {key: value for key, value in MODELS["Qwen3-30B-A3B"].items() if key != "num_experts_per_tok"}
    geometry = from_config(config)
    assert geometry.weights is None
    assert any("of its 128 experts" in sentence and "type" in sentence for sentence in geometry.assumptions)
    assert report(geometry, H100).decode is None


@pytest.mark.parametrize(
    "name", ["num_experts_per_token", "moe_topk", "moe_k", "num_selected_experts", "top_k_experts", "moe_top_k"]
)
def test_names_of_the_number_used(name: str) -> None:
    config = {key: value for key, value in MODELS["Qwen3-30B-A3B"].items() if key != "num_experts_per_tok"}
    geometry = from_config({**config, name: 8})
    assert (geometry.experts_used, geometry.experts_total, geometry.certainty) == (8, 128, Certainty.BOUND)


@pytest.mark.parametrize(
    "dense",
    [
        {"first_k_dense_replace": 3}, {"num_dense_layers": 3}, {"n_dense_layers": 3}, {"moe_layer_start_index": 3},
        {"mlp_only_layers": [0, 1, 2]}, {"moe_layer_freq": [0] * 3 + [1] * 45}, {"first_dense_layers": 3},
        {"moe_layers": list(range(3, 48))}, {"moe_layers_enum": ",".join(map(str, range(3, 48)))},
        {"mlp_layer_types": ["dense"] * 3 + ["sparse"] * 45}, {"leading_dense_block_count": 3},
    ],
    ids=lambda dense: next(iter(dense)),
)  # fmt: skip
def test_dense_first_layers_under_any_of_their_names(dense: dict[str, Any]) -> None:
    config = MODELS["Qwen3-30B-A3B"]
    expert, wide = 3 * 2048 * 768, 3 * 2048 * 6144
    full_geometry = from_config(config).params_total
    assert full_geometry is not None
    geometry = from_config({**config, **dense})
    assert geometry.params_total == full_geometry - 3 * (128 * expert + 128 * 2048) + 3 * wide
    assert geometry.not_understood == ()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("attention_sink_size", 4, True), ("moeLatentSize", 512, True), ("kv_share_ratio", 0.5, True),
        ("layer_pattern", "AABB", True), ("hidden_act", "silu", False), ("router_top_k", 2, True),
        ("swiglu_limit", 7.0, False), ("num_memory_tokens", 16, True), ("rope_head_dim", 64, True),
    ],
)  # fmt: skip
def test_names(name: str, value: object, expected: bool) -> None:
    assert shapes_bytes(name, value) is expected


# --- GGUF ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


@pytest.mark.parametrize("key", ["attention.foo_window", "kv_share.interval", "expert_latent_rank", "ring_size"])
def test_a_structural_key_of_a_gguf_that_is_not_understood(path: Path, key: str) -> None:
    geometry = from_file(write_gguf(path, "llama", {**SMALL, key: 128}, dense()))
    assert geometry.certainty is Certainty.ESTIMATE
    assert geometry.not_understood == (f"llama.{key}",)


def test_keys_of_a_gguf_that_change_no_byte(path: Path) -> None:
    more = {
        "context_length": 4096, "rope.dimension_count": 64, "attention.layer_norm_rms_epsilon": 1, "vocab_size": 512,
        "expert_feed_forward_length": 256, "expert_count": 8, "expert_used_count": 2, "expert_shared_count": 1,
        "leading_dense_block_count": 0, "expert_gating_func": 2, "attention.q_lora_rank": 0,
    }  # fmt: skip
    geometry = from_file(write_gguf(path, "llama", {**SMALL, **more}, moe()))
    assert (geometry.certainty, geometry.not_understood) == (Certainty.BOUND, ())


LLM_KEYS = sorted(
    form.removeprefix("{arch}.").replace("{dense}", "dense_2")
    for group in ("LLM", "Attention", "Rope", "SSM", "KDA", "WKV", "ShortConv", "Classifier")
    for form in vars(getattr(Keys, group)).values()
    if isinstance(form, str) and form.startswith("{arch}.")
)


@pytest.mark.parametrize("key", sorted({*LLM_KEYS} - {"decoder_block_count", "expert_used_count"}))
def test_every_key_that_the_gguf_package_writes_for_decoders(path: Path, key: str) -> None:
    geometry = from_file(write_gguf(path, "llama", {key: 1, **SMALL}, dense()))
    assert geometry.not_understood == ()


def test_an_unknown_architecture_of_a_gguf(path: Path) -> None:
    geometry = from_file(write_gguf(path, "synmoe9", SMALL, dense()))
    assert geometry.not_understood == ("general.architecture",)


def test_sparse_attention_of_a_gguf(path: Path) -> None:
    keys = {**SMALL, "attention.indexer.top_k": 64, "attention.indexer.head_count": 4}
    geometry = from_file(write_gguf(path, "glm-dsa", keys, dense()))
    assert kv_bytes(geometry, 10_000) == 2 * 64 * 2 * (64 + 64) * 2
    assert geometry.certainty is Certainty.BOUND


INCOMPLETE: dict[str, Callable[[str], bool]] = {
    "a layer without tensors": lambda name: not name.startswith("blk.1."),
    "a layer without FFN": lambda name: not name.startswith("blk.2.ffn_"),
    "a layer without attention": lambda name: not name.startswith("blk.2.attn_"),
    "an FFN without its way down": lambda name: name != "blk.0.ffn_down.weight",
    "attention without its output": lambda name: name != "blk.3.attn_output.weight",
    "no embedding": lambda name: name != "token_embd.weight",
}


@pytest.mark.parametrize("what", INCOMPLETE)
def test_a_file_that_lacks_tensors_is_incomplete_not_fast(path: Path, what: str) -> None:
    tensors = {name: tensor for name, tensor in dense(4).items() if INCOMPLETE[what](name)}
    geometry = from_file(write_gguf(path, "llama", {**SMALL, "block_count": 4}, tensors))
    assert geometry.weights is None
    assert "there is no ceiling" in geometry.assumptions[0]
    assert report(geometry, H100).decode is None


def test_layers_that_should_have_no_ffn_or_attention(path: Path) -> None:
    """Pruned models say so in lists."""
    tensors = {
        name: tensor
        for name, tensor in dense(4).items()
        if not name.startswith(("blk.2.ffn_", "blk.3.attn_", "blk.1.x"))
    }
    keys: dict[str, Any] = {**SMALL, "block_count": 4, "feed_forward_length": [512, 512, 0, 512]}
    keys |= {"attention.head_count": [4, 4, 4, 0], "attention.head_count_kv": [2, 2, 2, 0]}
    assert from_file(write_gguf(path, "deci", keys, tensors)).weights is not None


# --- totals ----------------------------------------------------------------------------------------------------------


def assumptions_of(config: dict[str, Any], folder: Path, index: object = None) -> Geometry:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    if index is not None:
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return from_path(folder / "config.json")


@pytest.mark.parametrize(
    ("model", "name", "sentence"),
    [
        ("Llama-3.1-8B", "Meta-Llama-3.1-8B-Instruct", ""),
        ("Llama-3.1-8B", "Llama-70B-Instruct", "the name says 70.0 B parameters, and the model has 8.03 B"),
        ("Mixtral-8x7B", "Mixtral-8x7B-v0.1", ""),
        ("Mixtral-8x7B", "Mixtral-8x22B-v0.1", "the name says 8x22B"),
        ("Qwen3-30B-A3B", "Qwen3-30B-A3B-Instruct-2507", ""),
        ("Qwen3-30B-A3B", "Qwen3-30B-A9B", "the name says 9.00 B active parameters, and a token uses 3.04 B"),
    ],
)
def test_sizes_in_the_name(tmp_path: Path, model: str, name: str, sentence: str) -> None:
    geometry = assumptions_of(MODELS[model], tmp_path / name)
    assert any(text.startswith(sentence) for text in geometry.assumptions)
    assert bool(sentence) == any("the name says" in text for text in geometry.assumptions)


def test_maverick_is_named_after_its_active_parameters(tmp_path: Path) -> None:
    config = FAMILIES["llama-4-maverick"].config
    geometry = assumptions_of(config, tmp_path / "Llama-4-Maverick-17B-128E")
    assert not any("the name says" in text for text in geometry.assumptions)


@pytest.mark.parametrize(
    ("total_size", "is_apart", "certainty"),
    [(16_060_522_496, False, "bound"), (20_000_000_000, True, "bound"), (8_000_000_000, True, "estimate")],
)
def test_the_index_beside_a_config(tmp_path: Path, total_size: int, is_apart: bool, certainty: str) -> None:
    index = {"metadata": {"total_size": total_size}, "weight_map": {}}
    geometry = assumptions_of({**LLAMA, "torch_dtype": "bfloat16"}, tmp_path / "m", index)
    assert any("the index of its files states" in text for text in geometry.assumptions) == is_apart
    assert geometry.certainty == certainty


@pytest.mark.parametrize("index", [[], {}, {"metadata": 3}, {"metadata": {"total_size": "x"}}])
def test_a_broken_index_is_none(tmp_path: Path, index: object) -> None:
    assert assumptions_of(LLAMA, tmp_path / "m", index).certainty is Certainty.BOUND


def test_modelopt_says_its_quantization_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "NVFP4"}}))
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    weights = from_path(tmp_path / "config.json").weights
    assert weights is not None
    assert 8 * weights.dense.n_bytes / weights.dense.parameters == pytest.approx(4.5)


# --- what is said ----------------------------------------------------------------------------------------------------


def test_the_json_of_a_report() -> None:
    sound = report(LLAMA_8B, H100, 1000).to_json()
    assert (sound["certainty"], sound["not_understood"]) == ("bound", [])
    doubted = report(from_config({**LLAMA, "warp_size": 8}, 16), H100, 1000).to_json()
    assert (doubted["certainty"], doubted["not_understood"]) == ("estimate", ["warp_size"])
    assert doubted["decode_ceiling_tokens_per_s"] == sound["decode_ceiling_tokens_per_s"]
    assert report(from_parameter_counts(8e9, 8e9, 16), H100).to_json()["certainty"] == "estimate"


def test_both_figures_of_a_window_without_a_pattern() -> None:
    """The bound counts sliding layers everywhere; the other figure stands beside it."""
    config = shape("phi3", 32, 3072, 8192, 32, 32, 32064, sliding_window=2048)
    full_geometry = report(from_config(config, 16), Device.of("card", 1000), 32_768)
    beside = report(from_config({**config, "sliding_window": None}, 16), Device.of("card", 1000), 32_768)
    assert full_geometry.decode is not None
    assert beside.decode is not None
    assert full_geometry.decode.tokens_per_s > 1.5 * beside.decode.tokens_per_s
    assert full_geometry.geometry.certainty is Certainty.BOUND
    figure = beside.decode.words.partition(" ")[0]
    assert any("if all layers see the whole context" in text and figure in text for text in full_geometry.assumptions)


def test_what_an_older_roofmark_stored_is_an_estimate() -> None:
    document = LLAMA_8B.to_json()
    for key in ("certainty", "not_understood", "weights_at_most"):
        del document[key]
    for layers in document["attention"]:
        for key in ("chunk", "top_k", "compression", "may_see_all"):
            del layers[key]
    old = Geometry.from_json(document)
    assert old.certainty is Certainty.ESTIMATE
    assert old.weights == LLAMA_8B.weights
    assert "an older version of Roofmark" in old.assumptions[-1]


def test_ollama_without_tensors_is_an_estimate(path: Path) -> None:
    info = {"general.architecture": "llama", "general.parameter_count": 1_443_072}
    info |= {f"llama.{key}": value for key, value in SMALL.items()}
    answer = {"model_info": info, "details": {"quantization_level": "Q4_K_M"}}
    assert from_document(answer).certainty is Certainty.ESTIMATE
