"""config.json, Ollama's answer and hand-typed numbers; and what happens when they are wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ceiling.bytes_per_step import kv_bytes, kv_bytes_per_token, step
from app.ceiling.geometry import Geometry, from_parameter_counts
from app.ceiling.ggml_geometry import from_file
from app.ceiling.ggml_keys import Keys
from app.ceiling.hf_config import from_config
from app.ceiling.hf_recurrent import Lightning
from app.ceiling.sources import from_document, from_gguf, from_json, from_path
from app.core.errors import BadInput, NotFound
from tests.ceiling.families import FAMILIES
from tests.ceiling.files import SMALL, dense, write_gguf
from tests.ceiling.models import MODELS, MORE, shape

LLAMA = MODELS["Llama-3.1-8B"]


def bits(document: dict[str, Any]) -> float:
    weights = from_config(document).weights
    assert weights is not None
    return weights.bits_per_weight


def test_experts_from_a_config_of_an_unknown_architecture() -> None:
    """C01: 30.5 B parameters of which 3.04 B are active, not what a label says."""
    config = {**MODELS["Qwen3-30B-A3B"], "torch_dtype": "bfloat16", "architectures": ["SynMoeForCausalLM"]}
    del config["model_type"]
    geometry = from_config(config)
    assert geometry.architecture == "SynMoeForCausalLM"
    assert geometry.params_active == pytest.approx(3_041_656_832, rel=0.01)
    assert geometry.params_total == pytest.approx(30_531_911_680, rel=0.01)


def test_mla_from_a_config_that_names_nothing_else() -> None:
    """C05: the cache is known although the weights are not; what is unknown is said, never 0."""
    config = {
        key: MORE["DeepSeek-V3"][key] for key in MORE["DeepSeek-V3"] if key.startswith(("num_", "kv_", "qk_", "v_"))
    }
    geometry = from_config({**config, "hidden_size": 7168})
    assert kv_bytes_per_token(geometry) == 70272
    assert geometry.weights is None
    assert geometry.params_total is None
    assert step(geometry) is None
    assert any("has no num_experts" in sentence for sentence in geometry.assumptions)


def test_the_language_part_of_a_nested_config() -> None:
    inner = {key: value for key, value in MODELS["Gemma-3-27B"].items() if key != "tie_word_embeddings"}
    vision = {"vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}, "dtype": "bfloat16"}
    outer = {"model_type": "gemma3", "tie_word_embeddings": True, "text_config": inner, **vision}
    assert from_config(outer).weights == from_config(MODELS["Gemma-3-27B"]).weights


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, 16),
        ({"torch_dtype": "float32"}, 32),
        ({"dtype": "bfloat16"}, 16),
        ({"quantization_config": {"quant_method": "fp8"}}, 9.05),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, 5.57),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, 6.0),
        ({"quantization_config": {"config_groups": {"group_0": {"weights": {"num_bits": 8}}}}}, 8.52),
        ({"quantization": {"bits": 4, "group_size": 64}}, 4.5),
    ],
)
def test_bits_by_what_the_config_says(more: dict[str, Any], expected: float) -> None:
    assert bits({**LLAMA, **more}) == pytest.approx(expected, abs=0.01)


def test_only_the_experts_of_gpt_oss_are_small() -> None:
    geometry = from_config({**MODELS["gpt-oss-120b"], "quantization_config": {"quant_method": "mxfp4"}})
    assert geometry.weights is not None
    assert geometry.weights.routed.n_bytes * 8 / geometry.weights.routed.parameters == pytest.approx(4.25)
    assert geometry.weights.dense.n_bytes * 8 / geometry.weights.dense.parameters == pytest.approx(8.5)
    assert geometry.weights_at_most is not None
    assert geometry.weights_at_most.dense.n_bytes * 8 / geometry.weights.dense.parameters == pytest.approx(16)
    assert geometry.weights_at_most.routed == geometry.weights.routed


def test_an_unknown_quantization_leaves_the_weights_unknown() -> None:
    config = {**LLAMA, "quantization_config": {"quant_method": "new"}}
    assert from_config(config).weights is None
    assert from_config(config, bits=4).weights is not None


def test_sliding_windows_of_a_config() -> None:
    """C04: 12 sliding and 12 full layers; growth with context is not linear."""
    names = ["sliding_attention", "full_attention"] * 12
    config = shape("syn", 24, 2880, 2880, 64, 8, 201088, head_dim=64, sliding_window=128, layer_types=names)
    geometry = from_config(config)
    bytes_by_context = {0: 0, 128: 6_291_456, 4096: 103_809_024, 131_072: 3_224_371_200}
    assert {context: kv_bytes(geometry, context) for context in bytes_by_context} == bytes_by_context
    del config["layer_types"]
    unknown = from_config(config)
    assert kv_bytes(unknown, 131_072) == 6_291_456
    assert "a sliding window of 128 tokens" in unknown.assumptions[0]
    assert "all layers count as sliding" in unknown.assumptions[0]


def test_shared_caches_and_per_layer_embeddings_of_a_config() -> None:
    base = shape("gemma3n_text", 10, 2048, 8192, 8, 2, 262144, head_dim=256, tie_word_embeddings=True)
    more = {"num_kv_shared_layers": 4, "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144}
    geometry = from_config({**base, **more})
    assert kv_bytes_per_token(geometry) == 6 * 2 * 2 * 256 * 2
    assert geometry.weights is not None
    assert geometry.weights.unread.parameters == 262144 * 256 * 10


def test_other_hybrids_of_a_config() -> None:
    mamba = {"mamba_n_heads": 8, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4}
    granite = from_config(
        {**shape("granitemoehybrid", 4, 512, 1024, 8, 2, 1000), **mamba, "layer_types": ["mamba"] * 3 + ["attention"]}
    )
    assert kv_bytes_per_token(granite) == 2 * 2 * 64 * 2
    state = (3 * (512 + 256) + 512 * 128) * 4
    assert granite.state_bytes == 3 * state
    hybrid = from_config({**shape("falcon_h1", 4, 512, 1024, 8, 2, 1000), **mamba})
    assert (kv_bytes_per_token(hybrid), hybrid.state_bytes) == (4 * 2 * 2 * 64 * 2, 4 * state)
    jamba = {
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_dt_rank": 32,
    }
    first_generation = from_config({**shape("jamba", 8, 512, 1024, 8, 2, 1000), **jamba})
    assert kv_bytes_per_token(first_generation) == 2 * 2 * 64 * 2
    assert first_generation.state_bytes == 7 * (3 * 1024 + 1024 * 16) * 4
    lfm = {"layer_types": ["conv", "full_attention"], "conv_L_cache": 3}
    assert from_config({**shape("lfm2", 2, 512, 1024, 8, 2, 1000), **lfm}).state_bytes == 512 * 2 * 4


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"num_hidden_layers": -3}, "not a count"),
        ({"num_hidden_layers": 10**9}, "layers"),
        ({"hidden_size": "big"}, "not a count"),
        ({"hidden_size": 0}, "reads none of the weights"),
        ({"num_attention_heads": 0}, "no attention heads"),
        ({"vocab_size": 10**30}, "not a count"),
        ({"layer_types": ["magic"] * 32}, "unknown kinds: magic"),
        ({"layer_types": ["full_attention"]}, "32"),
        ({"num_experts": 8, "mlp_only_layers": [0] * 100_000}, "more than any model"),
        ({"hybrid_override_pattern": "M*X"}, "32"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "9 of 8"),
    ],
)
def test_configs_that_make_no_sense(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        from_config({**LLAMA, **more})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "neither GGUF nor valid JSON"),
        ("{", "neither GGUF nor valid JSON"),
        ("[" * 200_000, "neither GGUF nor valid JSON"),
        ('{"a":' * 100_000, "neither GGUF nor valid JSON"),
        ('{"num_hidden_layers": ' + "9" * 10_000 + "}", "neither GGUF nor valid JSON"),
        ("[]", "not the config.json"),
        ("{}", "no num_hidden_layers"),
        ('{"num_hidden_layers": NaN}', "not a count"),
        ('{"model_info": 3}', "no model_info"),
        ('{"model_info": {"general.architecture": "x", "x.block_count": -1}}', "not a count"),
        (
            '{"model_info": {"general.architecture": "x", "x.block_count": 1}, "tensors": [1]}',
            "list of tensors is invalid",
        ),
        (" " * (5 << 20), "larger than any"),
    ],
)
def test_texts_that_are_no_model(text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        from_json(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats() | st.text(max_size=12) | st.just([1] * 2_001),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
QUANTIZED = {
    **LLAMA,
    "quantization_config": {"quant_method": "compressed", "config_groups": {"a": {"weights": {"num_bits": 4}}}},
}


def places(document: Any, before: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The way to every value."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [place for key, value in inner for place in ((*before, key), *places(value, (*before, key)))]


def altered(document: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    """The document with anything in up to three places."""
    changed: dict[str, Any] = json.loads(json.dumps(document))
    for place in data.draw(st.lists(st.sampled_from(places(document)), max_size=3)):
        inner: Any = changed
        try:
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = data.draw(VALUES)
        except (TypeError, KeyError, IndexError):  # an earlier change took the place away
            continue
    return changed


def is_a_geometry_or_one_sentence(document: dict[str, Any]) -> None:
    try:
        geometry = from_document(document)
        step(geometry, 1000)
    except BadInput as error:
        assert str(error).endswith(".")  # noqa: PT017  # reading may also succeed
        assert len(str(error)) < 300  # noqa: PT017  # reading may also succeed


@settings(max_examples=250, deadline=None)
@given(st.sampled_from([*MORE.values(), QUANTIZED, *(family.config for family in FAMILIES.values())]), st.data())
def test_whatever_a_config_says_it_is_a_geometry_or_one_sentence(config: dict[str, Any], data: st.DataObject) -> None:
    is_a_geometry_or_one_sentence(altered(config, data))


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(["tensors", "no tensors", "hybrid"]), st.data())
def test_whatever_ollama_says_it_is_a_geometry_or_one_sentence(what: str, data: st.DataObject) -> None:
    keys = {"block_count": 2, "embedding_length": 256, "attention.head_count": 4, "attention.head_count_kv": 2}
    keys |= {"attention.kv_lora_rank": 8, "full_attention_interval": 2, "ssm.state_size": 8, "expert_count": 4}
    info = {"general.architecture": "llama", **{f"llama.{key}": value for key, value in keys.items()}}
    tensors = [{"name": name, "type": type_name, "shape": list(shape)} for name, (shape, type_name) in dense(1).items()]
    answer = {"model_info": info, "details": {"quantization_level": "Q4_K_M"}}
    is_a_geometry_or_one_sentence(altered(answer | ({"tensors": tensors} if what == "tensors" else {}), data))


HOSTILE = {
    "a list for each of many layers": {"llama.block_count": 2_000, "llama.attention.kv_lora_rank": [1] * 4_096},
    "a list as long as the answer": {"llama.block_count": 2_000, "llama.full_attention_interval": [1] * 1_000_000},
    "lists that are looked at for each layer": {
        "llama.block_count": 2_000,
        **{f"llama.{key}": [1] * 2_000 for key in ("rope.dimension_count", "ssm.state_size", "wkv.head_size")},
    },
}


@pytest.mark.parametrize("what", HOSTILE)
def test_lists_are_walked_once(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for each layer: that would take minutes."""
    looked_at = 0
    check = Keys._checked

    def counting_check(keys: Keys, key: str, value: Any) -> int:
        nonlocal looked_at
        looked_at += 1
        return check(keys, key, value)

    monkeypatch.setattr(Keys, "_checked", counting_check)
    info = {"general.architecture": "llama", "llama.attention.head_count": 8, **HOSTILE[what]}
    is_a_geometry_or_one_sentence({"model_info": info})
    assert looked_at < 40_000


@pytest.mark.parametrize(
    "tensor",
    [
        {"name": "a", "type": "F32", "shape": [9] * 1_000_000},
        {"name": "a", "type": "F32", "shape": [float("inf")]},
        {"name": "a", "type": "F32", "shape": [-4, -4]},
        {"name": "a", "type": "F32", "shape": []},
        {"name": "a", "type": "F32", "shape": 7},
        {"name": "a" * 2_000_000, "type": "F32", "shape": [1]},
        {"name": "a", "type": "Q99", "shape": [1]},
        {"name": 5, "type": "F32", "shape": [1]},
        {"type": "F32"},
        None,
    ],
)
def test_tensors_that_cannot_be(tensor: Any) -> None:
    with pytest.raises(BadInput, match=r"^Ollama's list of tensors is invalid\.$"):
        from_document({"model_info": {"general.architecture": "llama", "llama.block_count": 1}, "tensors": [tensor]})


def show(path: Path) -> dict[str, Any]:
    """What Ollama says of a GGUF file."""
    from app.ceiling.gguf import read_header

    header = read_header(path)
    tensors = [
        {"name": tensor.name, "type": tensor.type_name, "shape": list(tensor.shape)} for tensor in header.tensors
    ]
    return {"model_info": dict(header.metadata), "tensors": tensors, "details": {"quantization_level": "Q4_K_M"}}


def test_ollama_repeats_what_the_file_says(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", "gemma3", {**SMALL, "attention.sliding_window": 128}, dense())
    file_geometry, ollama_geometry = from_file(path), from_document(show(path))
    assert ollama_geometry.source == "ollama"
    assert (ollama_geometry.weights, ollama_geometry.attention) == (file_geometry.weights, file_geometry.attention)


def test_an_ollama_that_lists_no_tensors(tmp_path: Path) -> None:
    answer = show(write_gguf(tmp_path / "m.gguf", "llama", SMALL, dense()))
    del answer["tensors"]
    assert from_document(answer).weights is None
    answer["model_info"]["general.parameter_count"] = 1_443_072
    geometry = from_document(answer)
    assert geometry.params_total == 1_443_072
    assert geometry.weights is not None
    assert geometry.weights.bits_per_weight == pytest.approx(4.85, rel=0.001)
    assert kv_bytes_per_token(geometry) == 2 * 2 * 128 * 2
    assert "4.85 bits per weight" in geometry.assumptions[-1]
    assert "only looked up" in geometry.assumptions[-1]


def test_names_are_fit_to_be_shown() -> None:
    geometry = from_json('{"model_type": "\\ud800\\u001b[31m", "num_hidden_layers": 1, "hidden_size": 8}')
    assert geometry.architecture == "??[31m"


def test_typed_by_hand() -> None:
    geometry = from_parameter_counts(30.5e9, 3e9, 4.5)
    decode_step = step(geometry, 8000)
    assert decode_step is not None
    assert decode_step.n_bytes == 3e9 * 4.5 / 8
    assert decode_step.kv_bytes is None
    assert geometry.params_total == 30.5e9
    assert any("KV" in sentence for sentence in geometry.assumptions)
    for wrong in ((1e9, 2e9, 4), (0, 0, 4), (1e9, 1e9, 0), (1e9, 1e9, float("nan")), (float("inf"), 1, 4)):
        with pytest.raises(BadInput):
            from_parameter_counts(*wrong)


@pytest.mark.parametrize("config", [*MODELS.values(), *MORE.values()])
def test_a_geometry_survives_json(config: dict[str, Any]) -> None:
    geometry = from_config(config)
    assert Geometry.from_json(json.loads(json.dumps(geometry.to_json()))) == geometry


@pytest.mark.parametrize("wrong", [{}, {"source": "gguf"}, {"weights": 3}, None])
def test_json_that_is_no_geometry(wrong: Any) -> None:
    with pytest.raises(BadInput):
        Geometry.from_json(wrong)


def test_any_file(tmp_path: Path) -> None:
    model = write_gguf(tmp_path / "blob", "llama", SMALL, dense())
    assert from_path(model).source == "gguf"
    with pytest.raises(BadInput, match="leave --bits out"):
        from_path(model, bits=4)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA))
    assert from_path(config, bits=4.85).params_total == 8_030_261_248
    with pytest.raises(NotFound, match="no file"):
        from_path(tmp_path / "absent")
    (tmp_path / "x.gguf").write_text("{}")
    with pytest.raises(BadInput, match="not a valid GGUF"):
        from_path(tmp_path / "x.gguf")


def test_a_width_that_nothing_says_is_not_made_up() -> None:
    config = shape("llama", 2, 256, 512, 4, 2, 1000)
    del config["intermediate_size"]
    geometry = from_config(config, bits=16)
    assert geometry.weights is None
    assert geometry.assumptions == ("config.json has no intermediate_size, so the weights are unknown",)


def parameters(config: dict[str, Any]) -> int:
    geometry = from_config(config, bits=16)
    assert geometry.weights is not None
    return geometry.weights.total.parameters


def test_hyper_connections_have_weights_of_their_own() -> None:
    """Twice in a layer, 4 streams give 4 + 4 + 4 x 4 factors, each from all 4 x 256 values: 2 x 2 x 24 x 1,024."""
    config = shape("llama", 2, 256, 512, 4, 2, 1000)
    assert parameters({**config, "hc_mult": 4}) - parameters(config) == 2 * 2 * 24 * 1024


def test_parameters_of_linear_attention_with_a_gate() -> None:
    """Query, key, value, gate and output of 32 x 32 each, and a norm of 32."""
    assert Lightning(heads=4, dim=8).parameters(hidden=32) == 5 * 32 * 32 + 32
    assert Lightning(heads=4, dim=8).state_elements == 4 * 8 * 8


def test_a_file_by_its_whole_path(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", "llama", SMALL, dense())
    assert from_gguf(f" {path} ") == from_file(path)


def test_sliding_layers_may_have_heads_of_their_own_size() -> None:
    """Two heads of keys and values: 64 each where all is seen, 32 and 16 where it slides; 2 bytes each."""
    layers = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 128, "head_dim": 64}
    config = shape("syn", 2, 256, 512, 4, 2, 1000, **layers)
    assert kv_bytes_per_token(from_config(config)) == 2 * 2 * (64 + 64) * 2
    config_with_swa = {**config, "swa_head_dim": 32, "swa_v_head_dim": 16}
    assert kv_bytes_per_token(from_config(config_with_swa)) == 2 * (64 + 64) * 2 + 2 * (32 + 16) * 2
