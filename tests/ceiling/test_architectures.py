"""Every kind of architecture, as a GGUF file that the `gguf` package wrote: what is read, cached and kept."""

from pathlib import Path
from typing import Any

import pytest

from app.ceiling.bytes_per_step import kv_bytes, kv_bytes_per_token, step
from app.ceiling.ggml_geometry import from_file
from app.core.errors import BadInput
from tests.ceiling.files import SMALL, attention_block, bytes_of, dense, moe, write_gguf

F16 = 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def total(tensors: dict[str, Any], *parts: str) -> int:
    """Bytes of the tensors that have one of these texts in their name."""
    return sum(bytes_of(*tensor) for name, tensor in tensors.items() if any(part in name for part in parts))


def test_untied_and_tied_embeddings(path: Path) -> None:
    """C02: a table that is only looked up does not count; a tied one is the head and counts once."""
    untied = step(from_file(write_gguf(path, "llama", SMALL, dense())))
    tensors = {name: tensor for name, tensor in dense().items() if name != "output.weight"}
    tied = step(from_file(write_gguf(path, "llama", SMALL, tensors)))
    assert untied is not None
    assert tied is not None
    assert (untied.weight_bytes, tied.weight_bytes) == (860_672, 826_880)


def test_routed_experts_count_by_their_share(path: Path) -> None:
    """C01: shared experts and the router are read whole, routed ones by used / total."""
    tensors = moe()
    keys = {**SMALL, "expert_count": 8, "expert_used_count": 2}
    geometry = from_file(write_gguf(path, "synmoe", keys, tensors))
    routed = total(tensors, "_exps")
    everything = total(tensors, "")
    decode_step = step(geometry)
    assert decode_step is not None
    assert decode_step.weight_bytes == everything - total(tensors, "token_embd") - routed + routed // 4
    assert geometry.weights is not None
    assert geometry.weights.routed.n_bytes == routed
    assert geometry.params_total == geometry.weights.total.parameters
    assert geometry.params_active is not None
    assert geometry.params_active < geometry.weights.total.parameters / 2


def test_experts_of_old_files_stand_one_by_one(path: Path) -> None:
    tensors = {name: tensor for name, tensor in dense(1).items() if ".ffn_" not in name}
    tensors |= {
        f"blk.0.ffn_{part}.{expert}.weight": ([256, 256], "Q4_0")
        for part in ("gate", "up", "down")
        for expert in range(4)
    }
    geometry = from_file(
        write_gguf(path, "llama", {**SMALL, "block_count": 1, "expert_count": 4, "expert_used_count": 1}, tensors)
    )
    assert geometry.weights is not None
    assert geometry.weights.routed.n_bytes == 12 * bytes_of([256, 256], "Q4_0")


def test_experts_without_numbers(path: Path) -> None:
    with pytest.raises(BadInput, match="does not state how many"):
        from_file(write_gguf(path, "synmoe", SMALL, moe()))
    geometry = from_file(write_gguf(path, "synmoe", {**SMALL, "expert_count": 8}, moe()))
    assert (geometry.experts_total, geometry.experts_used, geometry.weights) == (8, 0, None)
    assert "type the active parameters" in geometry.assumptions[0]
    with pytest.raises(BadInput, match="uses 9 of 8"):
        from_file(write_gguf(path, "synmoe", {**SMALL, "expert_count": 8, "expert_used_count": 9}, moe()))


def test_per_layer_embeddings_are_looked_up(path: Path) -> None:
    tensors = {
        **dense(),
        "per_layer_token_embd.weight": ([512, 512], "Q8_0"),
        "per_layer_model_proj.weight": ([256, 512], "F16"),
    }
    geometry = from_file(write_gguf(path, "gemma3n", SMALL, tensors))
    assert geometry.weights is not None
    assert geometry.weights.unread.n_bytes == total(tensors, "token_embd")
    assert geometry.weights.dense.n_bytes == total(tensors, "blk.", "output_norm", "per_layer_model_proj")


def test_grouped_query_attention_and_layers_with_heads_of_their_own(path: Path) -> None:
    keys: dict[str, Any] = {**SMALL, "block_count": 4}
    geometry = from_file(write_gguf(path, "llama", keys, dense(4)))
    assert kv_bytes_per_token(geometry) == 4 * 2 * (64 + 64) * F16
    keys["attention.head_count_kv"] = [2, 0, 4, 2]
    geometry = from_file(write_gguf(path, "deci", keys, dense(4)))
    assert kv_bytes_per_token(geometry) == (2 + 4 + 2) * (64 + 64) * F16
    keys["attention.head_count_kv"] = [2, 2]
    with pytest.raises(BadInput, match="2 entries"):
        from_file(write_gguf(path, "deci", keys, dense(4)))


def test_heads_without_lengths_divide_the_width(path: Path) -> None:
    keys = {"block_count": 2, "embedding_length": 256, "attention.head_count": 8}
    geometry = from_file(write_gguf(path, "llama", keys, dense()))
    assert kv_bytes_per_token(geometry) == 2 * 8 * (32 + 32) * F16


@pytest.mark.parametrize(
    ("architecture", "full"), [("gemma2", 6), ("gemma3", 2), ("gpt-oss", 6), ("cohere2", 3), ("phi3", 0)]
)
def test_windows_without_a_pattern(path: Path, architecture: str, full: int) -> None:
    keys = {**SMALL, "block_count": 12, "attention.sliding_window": 128}
    geometry = from_file(write_gguf(path, architecture, keys, dense(12)))
    a_layer = 2 * (64 + 64) * F16
    assert kv_bytes(geometry, 10_000) == (full * 10_000 + (12 - full) * 128) * a_layer
    assert kv_bytes(geometry, 100) == 12 * 100 * a_layer
    assert ("all layers count as sliding" in geometry.assumptions[0]) == (architecture == "phi3")


@pytest.mark.parametrize(("pattern", "full"), [([True, True, False, True], 1), (2, 2), ([False] * 4, 4)])
def test_windows_by_the_files_pattern(path: Path, pattern: Any, full: int) -> None:
    keys = {**SMALL, "block_count": 4, "attention.sliding_window": 100, "attention.sliding_window_pattern": pattern}
    geometry = from_file(write_gguf(path, "gemma3", keys, dense(4)))
    assert kv_bytes(geometry, 1000) == (full * 1000 + (4 - full) * 100) * 2 * (64 + 64) * F16
    assert geometry.assumptions == ()


def test_sliding_layers_with_other_lengths_and_shared_caches(path: Path) -> None:
    keys = {
        **SMALL,
        "block_count": 4,
        "attention.sliding_window": 100,
        "attention.sliding_window_pattern": [True, False, True, False],
        "attention.key_length": 128,
        "attention.value_length": 128,
        "attention.key_length_swa": 64,
        "attention.value_length_swa": 64,
        "attention.shared_kv_layers": 2,
    }
    geometry = from_file(write_gguf(path, "gemma4", keys, dense(4)))
    assert kv_bytes(geometry, 1000) == (100 * 2 * 128 + 1000 * 2 * 256) * F16
    assert "another layer's KV cache" in geometry.assumptions[0]
    assert geometry.attention is not None
    assert sum(layers.layers for layers in geometry.attention) == 4


@pytest.mark.parametrize("is_new", [True, False])
def test_mla_caches_one_latent(path: Path, is_new: bool) -> None:
    """C05, in files made before and after llama.cpp cached the latent itself."""
    keys = {
        "block_count": 2,
        "embedding_length": 256,
        "attention.head_count": 16,
        "attention.kv_lora_rank": 512,
        "rope.dimension_count": 64,
    }
    if is_new:
        lengths = {"key_length": 576, "value_length": 512, "key_length_mla": 192, "value_length_mla": 128}
        keys |= {f"attention.{name}": value for name, value in lengths.items()} | {"attention.head_count_kv": 1}
    else:
        keys |= {"attention.key_length": 192, "attention.value_length": 128, "attention.head_count_kv": 16}
    tensors = {name: tensor for name, tensor in dense().items() if ".attn_k" not in name and ".attn_v" not in name}
    tensors |= {f"blk.{index}.attn_kv_a_mqa.weight": ([256, 576], "Q8_0") for index in range(2)}
    geometry = from_file(write_gguf(path, "deepseek2", keys, tensors))
    assert kv_bytes_per_token(geometry) == 2 * (512 + 64) * F16
    assert geometry.attention is not None
    assert (geometry.attention[0].qk_dim, geometry.attention[0].v_dim) == (192, 128)


MAMBA_KEYS = {
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 512,
    "ssm.state_size": 128,
    "ssm.group_count": 2,
    "ssm.time_step_rank": 8,
}
MAMBA_STATE = (3 * (512 + 2 * 2 * 128) + 512 * 128) * 4


def ssm_block(index: int) -> dict[str, Any]:
    return {
        f"blk.{index}.ssm_in.weight": ([256, 1024], "Q8_0"),
        f"blk.{index}.ssm_conv1d.weight": ([4, 1024], "F32"),
        f"blk.{index}.ssm_out.weight": ([512, 256], "Q8_0"),
    }


def test_hybrids_cache_in_attention_layers_and_keep_a_state_in_others(path: Path) -> None:
    tensors = {name: tensor for name, tensor in dense(4).items() if not name.startswith("blk.") or "ffn" in name}
    tensors |= ssm_block(0) | ssm_block(1) | attention_block(2)
    keys = {**SMALL, **MAMBA_KEYS, "block_count": 4, "attention.head_count_kv": [0, 0, 2, 0]}
    geometry = from_file(write_gguf(path, "nemotron_h_moe", keys, tensors))
    assert kv_bytes_per_token(geometry) == 2 * (64 + 64) * F16
    assert geometry.state_bytes == 2 * MAMBA_STATE
    decode_step = step(geometry, 10, batch=3)
    assert decode_step is not None
    assert decode_step.n_bytes == decode_step.weight_bytes + 3 * (10 * 512 + 2 * geometry.state_bytes)


def test_linear_attention_has_a_fused_projection_but_no_cache(path: Path) -> None:
    tensors = {name: tensor for name, tensor in dense(4).items() if ".attn_" not in name or name.startswith("blk.3.")}
    for index in range(3):
        tensors |= ssm_block(index) | {f"blk.{index}.attn_qkv.weight": ([256, 1024], "Q8_0")}
    geometry = from_file(write_gguf(path, "qwen35", {**SMALL, **MAMBA_KEYS, "block_count": 4}, tensors))
    assert kv_bytes_per_token(geometry) == 2 * (64 + 64) * F16
    assert geometry.state_bytes == 3 * MAMBA_STATE


def test_attention_and_mamba_side_by_side(path: Path) -> None:
    tensors = dense(2) | ssm_block(0) | ssm_block(1)
    geometry = from_file(write_gguf(path, "falcon-h1", {**SMALL, **MAMBA_KEYS}, tensors))
    assert kv_bytes_per_token(geometry) == 2 * 2 * (64 + 64) * F16
    assert geometry.state_bytes == 2 * MAMBA_STATE


def test_a_model_without_any_attention(path: Path) -> None:
    tensors = {name: tensor for name, tensor in dense(2).items() if ".attn_" not in name and ".ffn_" not in name}
    tensors |= ssm_block(0) | ssm_block(1)
    keys = {"block_count": 2, "embedding_length": 256, "attention.head_count": 0, **MAMBA_KEYS}
    geometry = from_file(write_gguf(path, "mamba2", keys, tensors))
    assert geometry.attention == ()
    assert kv_bytes(geometry, 100_000) == 0


def test_fused_projection_of_plain_attention(path: Path) -> None:
    tensors = {name: tensor for name, tensor in dense(2).items() if not any(f"attn_{part}." in name for part in "qkv")}
    tensors |= {f"blk.{index}.attn_qkv.weight": ([256, 512], "Q4_K") for index in range(2)}
    assert kv_bytes_per_token(from_file(write_gguf(path, "phi3", SMALL, tensors))) == 2 * 2 * (64 + 64) * F16


def test_short_convolutions(path: Path) -> None:
    tensors = {name: tensor for name, tensor in dense(2).items() if ".attn_" not in name or name.startswith("blk.1.")}
    tensors["blk.0.shortconv.conv.weight"] = ([3, 256], "F32")
    keys = {**SMALL, "shortconv.l_cache": 3, "attention.head_count_kv": [0, 2]}
    assert from_file(write_gguf(path, "lfm2", keys, tensors)).state_bytes == 256 * 2 * 4


@pytest.mark.parametrize("says_so", [True, False])
def test_blocks_for_further_tokens_do_not_count(path: Path, says_so: bool) -> None:
    plain = from_file(write_gguf(path, "glm4moe", SMALL, dense(2)))
    tensors = dense(3) | {
        "blk.2.nextn.eh_proj.weight": ([512, 256], "Q4_K"),
        "blk.2.nextn.embed_tokens.weight": ([256, 512], "Q4_K"),
    }
    keys = {**SMALL, "block_count": 3} | ({"nextn_predict_layers": 1} if says_so else {})
    assert from_file(write_gguf(path, "glm4moe", keys, tensors)) == plain


def test_vision_parts_do_not_count(path: Path) -> None:
    plain = from_file(write_gguf(path, "gemma3", SMALL, dense()))
    seeing = dense() | {"v.blk.0.attn_q.weight": ([256, 256], "F16"), "mm.0.weight": ([256, 256], "F16")}
    assert from_file(write_gguf(path, "gemma3", SMALL, seeing)) == plain


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"general.type": "mmproj"}, "a part of one"),
        ({"general.type": "adapter"}, "a part of one"),
        ({"block_count": 0}, "0 blocks"),
        ({"block_count": 1 << 31}, "blocks"),
        ({"block_count": "two"}, "not a count"),
        ({"attention.head_count_kv": [2.5, 1.5]}, "not a count"),
    ],
)
def test_files_that_are_no_language_model(path: Path, keys: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        from_file(write_gguf(path, "llama", {**SMALL, **keys}, dense()))


def test_llama_4_attends_in_chunks(path: Path) -> None:
    """Its files say neither how long a chunk is nor which layers see everything."""
    geometry = from_file(write_gguf(path, "llama4", {**SMALL, "block_count": 8}, dense(8)))
    a_layer = 2 * (64 + 64) * F16
    assert kv_bytes(geometry, 100_000) == (2 * 100_000 + 6 * 8_192) * a_layer
    assert any("chunked attention" in sentence for sentence in geometry.assumptions)


def test_compressed_caches_of_a_gguf(path: Path) -> None:
    keys: dict[str, Any] = {**SMALL, "block_count": 4, "attention.sliding_window": 128, "attention.indexer.top_k": 64}
    keys |= {"attention.head_count_kv": 1, "attention.compress_ratios": [0, 4, 128, 4]}
    geometry = from_file(write_gguf(path, "deepseek4", keys, dense(4)))
    assert kv_bytes(geometry, 12_800) == (4 * 128 + 2 * 64 + 100) * 64 * F16
