"""Many families by their config.json: totals, active parameters, KV cache; and results published for them."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from app.ceiling.bytes_per_step import kv_bytes, kv_bytes_per_token, step
from app.ceiling.decode import Device, decode_on
from app.ceiling.efficiency import mbu
from app.ceiling.geometry import Certainty, Geometry
from app.ceiling.hf_config import from_config
from app.core.samples import Workload
from app.results.ceiling import context_of
from tests.ceiling.families import FAMILIES
from tests.ceiling.models import MODELS

ROWS = list(csv.DictReader((Path(__file__).parent / "published-2026.csv").read_text().splitlines()))
SHAPES = {
    **{name: family.config for name, family in FAMILIES.items()},
    "qwen3-30b-a3b": MODELS["Qwen3-30B-A3B"],
    "nemotron-3-nano-30b": MODELS["Nemotron-3-Nano-30B-A3B"],
    "llama-3-8b": MODELS["Llama-3.1-8B"],
    "llama-3-70b": MODELS["Llama-3.3-70B"],
    "lfm2.5-8b-a1b": FAMILIES["lfm2-8b-a1b"].config,
    "qwen3.6-27b": {
        **FAMILIES["qwen3-next-80b"].config,
        "model_type": "qwen3_5_text", "num_hidden_layers": 64, "hidden_size": 5120, "intermediate_size": 17408,
        "num_attention_heads": 24, "num_key_value_heads": 4, "vocab_size": 248320, "linear_num_value_heads": 48,
        "num_experts": None, "num_experts_per_tok": None, "moe_intermediate_size": None,
        "shared_expert_intermediate_size": None, "decoder_sparse_step": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_totals_active_parameters_and_cache(name: str) -> None:
    family = FAMILIES[name]
    geometry = from_config(family.config)
    assert geometry.weights is not None
    assert geometry.params_total is not None
    assert geometry.params_active is not None
    assert geometry.params_total / 1e9 == pytest.approx(family.total_b, rel=0.02)
    if family.kv_bytes is not None:
        assert kv_bytes_per_token(geometry) == pytest.approx(family.kv_bytes, rel=0.02)
    if (published := family.active_b) is not None:
        # published figures count the tables that are only looked up, or leave out the head
        ways = (0, geometry.weights.unread.parameters, -geometry.weights.head.parameters)
        counts = [(geometry.params_active + difference) / 1e9 for difference in ways]
        assert any(count == pytest.approx(published, rel=0.05) for count in counts)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_that_are_understood_have_a_bound(name: str) -> None:
    geometry = from_config(FAMILIES[name].config)
    assert geometry.not_understood == ()
    assert geometry.certainty is Certainty.BOUND


def at_depth(name: str, context: int) -> int | None:
    return kv_bytes(from_config(SHAPES[name]), context)


def test_sparse_attention_reads_no_more_than_it_picks() -> None:
    """DSA: 2,048 of the cached entries in each layer; indexer keys are left out."""
    a_token = 61 * (512 + 64) * 2
    assert at_depth("deepseek-v3.2", 1_000) == 1_000 * a_token
    assert at_depth("deepseek-v3.2", 100_000) == 2_048 * a_token
    assert at_depth("deepseek-v3", 100_000) == 100_000 * a_token


def test_blocks_that_sparse_attention_picks() -> None:
    sparse = {"use_sparse_attention": True, "sparse_topk_blocks": 16, "sparse_block_size": 128}
    config = {**SHAPES["qwen3-14b"], "sparse_attention_config": {**sparse, "sparse_attention_freq": [0] * 4 + [1] * 36}}
    geometry = from_config(config)
    assert geometry.not_understood == ()
    a_layer = 2 * 8 * 128 * 2
    assert kv_bytes(geometry, 50_000) == (4 * 50_000 + 36 * 2_048) * a_layer


def test_compressed_caches() -> None:
    """43 layers with a window of 128; half of them pick 512 of the entries for 4 tokens, half read those for 128."""
    entry = 512 * 2
    assert at_depth("deepseek-v4-flash", 100) == (43 * 100 + 21 * 25) * entry
    long = 65_536
    assert at_depth("deepseek-v4-flash", long) == (43 * 128 + 21 * 512 + 20 * long // 128) * entry


def test_chunked_attention_sees_its_own_chunk() -> None:
    a_layer = 2 * 8 * 128 * 2
    assert at_depth("llama-4-scout", 8_192) == 48 * 8_192 * a_layer
    assert at_depth("llama-4-scout", 32_768) == (12 * 32_768 + 36 * 8_192) * a_layer
    assert at_depth("llama-4-scout", 100_000) == (12 * 100_000 + 36 * 8_192) * a_layer
    assert any("chunked attention" in text for text in from_config(SHAPES["llama-4-scout"]).assumptions)


def test_windows_by_letters_lists_and_periods() -> None:
    full, slides = 16 * 100_000, 48 * 4_096
    assert at_depth("exaone-4.0-32b", 100_000) == (full + slides) * 2 * 8 * 128 * 2
    assert at_depth("command-a", 100_000) == (full + slides) * 2 * 8 * 128 * 2
    assert at_depth("trinity-mini", 100_000) == (8 * 100_000 + 24 * 2_048) * 2 * 4 * 128 * 2
    assert at_depth("mimo-v2-flash", 100_000) == (9 * 100_000 * 4 + 39 * 128 * 8) * (192 + 128) * 2


def test_states_of_linear_attention() -> None:
    kimi = 20 * (3 * 3 * 32 * 128 + 32 * 128 * 128) * 4
    assert from_config(SHAPES["kimi-linear-48b"]).state_bytes == kimi
    assert from_config(SHAPES["minimax-m1"]).state_bytes == 70 * 64 * 96 * 96 * 4 * (128 * 128) // (96 * 96)
    assert from_config(SHAPES["rwkv7-2.9b"]).state_bytes == 32 * (2 * 2560 + 2560 * 64) * 4


def test_a_list_gives_each_layer_its_own() -> None:
    """B05, and layers that differ: experts are summed, so that the share stays exact."""
    config = {**SHAPES["hunyuan-a13b"], "moe_topk": [8] * 16 + [4] * 16}
    geometry = from_config(config)
    assert (geometry.experts_total, geometry.experts_used) == (64 * 32, 8 * 16 + 4 * 16)
    assert geometry.expert_share == 6 / 64
    same = from_config(SHAPES["hunyuan-a13b"])
    assert (same.experts_total, same.experts_used) == (64, 8)
    heads = from_config({**SHAPES["qwen3-14b"], "num_key_value_heads": [8] * 20 + [4] * 20})
    assert kv_bytes_per_token(heads) == 20 * (8 + 4) * 128 * 2 * 2
    widths = from_config({**SHAPES["qwen3-14b"], "intermediate_size": [17408] * 20 + [8704] * 20})
    assert widths.params_total is not None
    assert widths.params_total == from_config(SHAPES["qwen3-14b"]).params_total - 20 * 3 * 5120 * 8704  # type: ignore[operator]  # known


def test_layers_that_use_the_cache_of_another() -> None:
    half = from_config({**SHAPES["qwen3-14b"], "use_cla": True, "cla_share_factor": 2})
    assert kv_bytes_per_token(half) == 163_840 // 2
    assert half.not_understood == ()


def published_geometry(row: dict[str, str]) -> Geometry:
    """From the config.json alone where no file is known, else at the mean bits of the file that was measured."""
    config = SHAPES[row["model"]]
    if row["model"].startswith("gpt-oss"):
        return from_config({**config, "quantization_config": {"quant_method": "mxfp4"}})
    if row["quantization"].startswith("NVFP4"):
        return from_config({**config, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})
    if not row["file_bytes"]:
        return from_config(config, 4)
    return from_config(config, float(row["file_bytes"]) * 8 / (float(row["params_billion"]) * 1e9))


def published_share(row: dict[str, str]) -> float:
    context = context_of(Workload(int(row["depth"]), int(row["generated_tokens"])), None)
    decode_step = step(published_geometry(row), context)
    assert decode_step is not None
    ceiling = decode_on(decode_step, Device.of(row["device"], float(row["bandwidth_gb_s"])))
    return mbu(float(row["decode_tok_s"]), ceiling.tokens_per_s)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']} on {row['device']}")
def test_no_result_of_2026_beats_its_bound(row: dict[str, str]) -> None:
    assert published_geometry(row).certainty is Certainty.BOUND
    assert 0.05 < published_share(row) < 0.95


def test_all_rows_are_there() -> None:
    assert len(ROWS) == 28


def test_the_same_weights_at_most() -> None:
    """With the most bytes that such files have, gpt-oss would be above its roof."""
    above = set()
    for row in ROWS:
        geometry = published_geometry(row)
        if geometry.weights_at_most is not None:
            full = replace(geometry, weights=geometry.weights_at_most)
            decode_step = step(full, context_of(Workload(int(row["depth"]), int(row["generated_tokens"])), None))
            assert decode_step is not None
            device = Device.of(row["device"], float(row["bandwidth_gb_s"]))
            if float(row["decode_tok_s"]) > decode_on(decode_step, device).tokens_per_s:
                above.add((row["model"], row["device"]))
    assert {("gpt-oss-20b", "DGX Spark (GB10)"), ("gpt-oss-20b", "Strix Halo")} < above
