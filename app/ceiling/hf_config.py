"""Geometry from a Hugging Face config.json: parameters by role, times bits per weight."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.ceiling.geometry import MLA, Geometry, Part, Source, Weights, check_bits, printable, together
from app.ceiling.hf_layers import (
    ATTENTION_WITH_GATE,
    FOUR_NORMS,
    QK_NORMS,
    QKV_BIAS,
    UNGATED_FFN,
    Config,
    DeltaNet,
    Ffn,
    Layer,
    Mamba,
    Missing,
    Mixer,
    attention,
    layers,
    state_bytes,
)
from app.errors import BadInput
from app.i18n import _, marked, translated

NESTED = ("text_config", "thinker_config", "llm_config", "language_config")
TIED_BY_DEFAULT = ("gemma", "cohere", "gpt2", "falcon", "bloom", "opt", "lfm2")
DTYPE_BITS = {"float32": 32.0, "bfloat16": 16.0, "float16": 16.0, "float8_e4m3fn": 8.0}


@dataclass(frozen=True, slots=True)
class Bits:
    """Bits per weight by role, and where they come from."""

    dense: float
    routed: float
    tables: float
    """The input embedding and the output head."""
    words: str


def from_config(document: Mapping[str, Any], bits: float | None = None) -> Geometry:
    """`bits`: of each weight; without it, what the config says. Raises BadInput."""
    config = Config(language_part(document))
    try:
        plan, assumptions = layers(config)
    except Missing as error:
        raise BadInput(
            _("This is not the config.json of a language model: it has no {error}.", error=translated(str(error)))
        ) from error
    weights = found = None
    state = 0
    try:
        found = together(one for layer in plan if (one := attention(config, layer)))
        state = sum(state_bytes(config, layer) for layer in plan)
    except Missing as error:
        assumptions.append(
            marked("config.json names no {error}, so KV cache and state are unknown and left out", error=error)
        )
    try:
        of_role = bits_by_role(document, bits)
        weights = _weights(config, plan, of_role)
        assumptions.append(of_role.words)
    except Missing as error:
        assumptions.append(marked("config.json names no {error}, so the weights are unknown", error=error))
    if found and any(layers.v_elements == 0 and layers.k_elements for layers in found):
        assumptions.append(MLA)
    if config.experts_used > config.experts > 0:
        raise BadInput(
            _("A token is said to use {used} of {experts} experts.", used=config.experts_used, experts=config.experts)
        )
    return Geometry(
        source=Source.CONFIG,
        architecture=printable(config.model_type or _architecture(document)),
        weights=weights,
        attention=found,
        blocks=len(plan),
        state_bytes=state,
        experts_total=config.experts if any(layer.ffn in (Ffn.ROUTED, Ffn.BOTH) for layer in plan) else 0,
        experts_used=config.experts_used if config.experts else 0,
        expert_blocks=tuple(index for index, layer in enumerate(plan) if layer.ffn in (Ffn.ROUTED, Ffn.BOTH)),
        assumptions=tuple(assumptions),
    )


def language_part(document: Mapping[str, Any]) -> dict[str, Any]:
    """The part about the language model, with what only the outer part says about it."""
    inner = dict(document)
    while nested := next((inner[key] for key in NESTED if isinstance(inner.get(key), dict)), None):
        outer = inner
        inner = dict(nested)
        for key in ("tie_word_embeddings", "torch_dtype", "dtype"):
            if outer.get(key) is not None:
                inner.setdefault(key, outer[key])
    return inner


def bits_by_role(document: Mapping[str, Any], bits: float | None) -> Bits:
    """Raises Missing (quantized in a way that Roofmark does not know), BadInput."""
    if bits is not None:
        check_bits(bits)
        return Bits(bits, bits, bits, marked("{bits:g} bits per weight, as given", bits=bits))
    inner = language_part(document)
    dtype = str(inner.get("torch_dtype") or inner.get("dtype") or "").removeprefix("torch.")
    plain = DTYPE_BITS.get(dtype, 16.0)
    said = marked("{bits:g} bits per weight, taken for granted", bits=plain)
    if dtype in DTYPE_BITS:
        said = marked("{bits:g} bits per weight, from its type {type}", bits=plain, type=dtype)
    for key in ("quantization_config", "compression_config", "quantization"):
        if isinstance(found := document.get(key) or inner.get(key), dict):
            return _quantized(found, plain, said, has_plain_tables=key != "quantization")
    return Bits(plain, plain, plain, said)


def _quantized(found: Mapping[str, Any], plain: float, said: str, has_plain_tables: bool) -> Bits:
    method = printable(str(found.get("quant_method") or ""))
    if method == "mxfp4":
        return Bits(
            plain, 4.25, plain, marked("experts at 4.25 bits per weight (mxfp4), the rest at {bits}", bits=said)
        )
    bits: Any = {"fp8": 8, "fbgemm_fp8": 8}.get(method) or found.get("bits") or found.get("w_bit")
    if bits is None and found.get("load_in_4bit"):
        bits = 4
    if bits is None and found.get("load_in_8bit"):
        bits = 8
    if bits is None and isinstance(groups := found.get("config_groups"), dict):
        parts = [group.get("weights") for group in groups.values() if isinstance(group, dict)]
        widths = [part.get("num_bits") for part in parts if isinstance(part, dict)]
        bits = min((width for width in widths if isinstance(width, int)), default=None)
    if not isinstance(bits, int | float) or isinstance(bits, bool):
        raise Missing(marked("bits per weight for its quantization {method!r}", method=method))
    check_bits(bits)
    tables = plain if has_plain_tables else float(bits)
    return Bits(
        bits,
        bits,
        tables,
        marked(
            "layers at {bits:g} bits per weight ({method}), scales left out", bits=bits, method=method or "quantized"
        ),
    )


def _weights(config: Config, plan: list[Layer], bits: Bits) -> Weights:
    if config.experts_used and not config.experts:
        raise Missing("num_experts")
    dense = routed = 0
    for layer in plan:
        dense += _mixer_parameters(config, layer)
        own_dense, own_routed = _ffn_parameters(config, layer.ffn)
        dense, routed = dense + own_dense, routed + own_routed
        norms = 4 if config.is_of(*FOUR_NORMS) else (layer.mixer is not Mixer.NONE) + (layer.ffn is not Ffn.NONE)
        dense += norms * config.hidden
    hidden, vocabulary = config.hidden, config.count("vocab_size", "padded_vocab_size")
    dense += hidden
    looked_up = 0
    if per_layer := config.count("hidden_size_per_layer_input", default=0):
        looked_up = config.count("vocab_size_per_layer_input", default=vocabulary) * per_layer * len(plan)
        dense += len(plan) * (3 * hidden * per_layer + hidden) + per_layer
    is_tied = config.flag("tie_word_embeddings", default=config.is_of(*TIED_BY_DEFAULT))
    table = hidden * vocabulary
    return Weights(
        dense=Part.of(dense, bits.dense),
        routed=Part.of(routed, bits.routed),
        head=Part.of(table, bits.tables),
        unread=Part.of(looked_up + (0 if is_tied else table), bits.tables),
    )


def _mixer_parameters(config: Config, layer: Layer) -> int:
    hidden, total = config.hidden, 0
    if one := attention(config, layer):
        if config.count("kv_lora_rank", default=0):
            total += _mla_parameters(config, one.k_elements, one.qk_dim, one.v_dim)
        else:
            kv_heads = config.count("num_key_value_heads", "num_kv_heads", default=one.q_heads)
            if layer.mixer is Mixer.FULL:
                kv_heads = config.count("num_global_key_value_heads", default=kv_heads)
            has_v = not (config.flag("attention_k_eq_v") and layer.mixer is Mixer.FULL)
            gates = 2 if config.flag("attn_output_gate", default=config.is_of(*ATTENTION_WITH_GATE)) else 1
            q = one.q_heads * one.qk_dim * gates
            k, v = (0, 0) if layer.shares_kv else (kv_heads * one.qk_dim, kv_heads * one.v_dim * has_v)
            total += hidden * (q + k + v + one.q_heads * one.v_dim)
            if config.flag("attention_bias") or config.flag("bias") or config.is_of(*QKV_BIAS):
                total += q + k + v + (0 if config.is_of(*QKV_BIAS) else hidden)
            total += 2 * one.qk_dim * config.is_of(*QK_NORMS)
    if layer.mixer is Mixer.LINEAR:
        delta = DeltaNet.of(config)
        values = delta.v_heads * delta.v_dim
        total += hidden * (delta.channels + values + 2 * delta.v_heads) + delta.channels * delta.kernel
        total += values * hidden + 2 * delta.v_heads + delta.v_dim
    elif layer.mixer in (Mixer.MAMBA, Mixer.PARALLEL):
        total += _mamba_parameters(config, Mamba.of(config))
    elif layer.mixer is Mixer.CONV:
        total += 4 * hidden * hidden + hidden * config.count("conv_L_cache")
    return total


def _mla_parameters(config: Config, cached: int, qk_dim: int, v_dim: int) -> int:
    hidden, heads, latent = config.hidden, config.heads, config.count("kv_lora_rank")
    if q_latent := config.count("q_lora_rank", default=0):
        q = hidden * q_latent + q_latent + q_latent * heads * qk_dim
    else:
        q = hidden * heads * qk_dim
    up = latent + latent * heads * (qk_dim - config.count("qk_rope_head_dim") + v_dim)
    return q + hidden * cached + up + heads * v_dim * hidden


def _mamba_parameters(config: Config, mamba: Mamba) -> int:
    hidden, inner = config.hidden, mamba.inner
    convolution = mamba.channels * (mamba.kernel + config.flag("use_conv_bias", default=True))
    if mamba.heads:
        return hidden * (inner + mamba.channels + mamba.heads) + convolution + 3 * mamba.heads + inner + inner * hidden
    rank = config.count("mamba_dt_rank", "time_step_rank", default=-(-hidden // 16))
    steps = inner * (rank + 2 * mamba.state) + rank * inner + inner
    return hidden * 2 * inner + convolution + steps + inner * mamba.state + inner + inner * hidden


def _ffn_parameters(config: Config, ffn: Ffn) -> tuple[int, int]:
    """Dense and routed ones."""
    hidden = config.hidden
    activation = config.values.get("mlp_hidden_act") or config.values.get("hidden_act")
    matrices = 2 if activation == "relu2" or config.model_type in UNGATED_FFN else 3
    dense = routed = 0
    if ffn in (Ffn.DENSE, Ffn.BOTH):
        width = config.count("intermediate_size_mlp", "intermediate_size", "n_inner", default=0)
        if not width and config.values.get("n_inner", 0) is None:
            width = 4 * hidden
        if not width:
            raise Missing("intermediate_size")
        dense += matrices * hidden * width
    if ffn in (Ffn.ROUTED, Ffn.BOTH):
        width = config.count("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
        routed += config.experts * matrices * hidden * width
        dense += hidden * config.experts
        if config.is_of("gpt_oss"):
            routed += config.experts * (2 * width + hidden)
        shared = config.count("moe_shared_expert_intermediate_size", default=0) or width
        shared *= config.count("n_shared_experts", "num_shared_experts", default=0)
        shared = config.count("shared_expert_intermediate_size", "shared_intermediate_size", default=shared)
        if config.is_of("llama4"):
            shared = width
        dense += matrices * hidden * shared
        if config.values.get("shared_expert_intermediate_size"):
            dense += hidden
    return dense, routed


def _architecture(document: Mapping[str, Any]) -> str:
    names = document.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""
