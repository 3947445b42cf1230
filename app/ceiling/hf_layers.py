"""What the layers of a Hugging Face config.json are, and how many parameters each kind has.

A layer is a mixer (some attention or a recurrence) and an FFN; hybrids leave out one of them in each layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.ceiling.geometry import MAX_BLOCKS, SHARED_KV, STATE_BYTES, Attention, printable
from app.ceiling.windows import slides_by_default, slides_by_period
from app.errors import BadInput
from app.i18n import _


class Missing(Exception):
    """The config does not name what is needed; the text is the key."""


class Mixer(StrEnum):
    NONE = "none"
    FULL = "full"
    SLIDING = "sliding"
    LINEAR = "linear"
    MAMBA = "mamba"
    PARALLEL = "parallel"
    """Full attention and Mamba side by side."""
    CONV = "conv"


class Ffn(StrEnum):
    NONE = "none"
    DENSE = "dense"
    ROUTED = "routed"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Layer:
    mixer: Mixer
    ffn: Ffn
    shares_kv: bool = False


HYBRID_LETTERS = {
    "M": Layer(Mixer.MAMBA, Ffn.NONE),
    "*": Layer(Mixer.FULL, Ffn.NONE),
    "-": Layer(Mixer.NONE, Ffn.DENSE),
    "E": Layer(Mixer.NONE, Ffn.ROUTED),
}
HYBRID_NAMES = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
MIXER_NAMES = {
    "full_attention": Mixer.FULL,
    "attention": Mixer.FULL,
    "sliding_attention": Mixer.SLIDING,
    "chunked_attention": Mixer.SLIDING,
    "linear_attention": Mixer.LINEAR,
    "mamba": Mixer.MAMBA,
    "conv": Mixer.CONV,
}
UNGATED_FFN = {
    "bloom",
    "falcon",
    "gpt2",
    "gpt_neox",
    "gptj",
    "mpt",
    "nemotron",
    "nemotron_h",
    "opt",
    "phi",
    "starcoder2",
}
ATTENTION_WITH_GATE = ("qwen3_next", "qwen3_5")
QKV_BIAS = ("qwen2",)
QK_NORMS = ("qwen3", "gemma3", "gemma4")
FOUR_NORMS = ("gemma2", "gemma3", "gemma4")


class Config:
    """A config.json, read with doubt. `model_type` is empty where the file does not say."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.model_type = str(values.get("model_type") or "")

    def is_of(self, *families: str) -> bool:
        return self.model_type.startswith(families)

    def count(self, *names: str, default: int | None = None) -> int:
        """The first of these keys that is there. Raises Missing, BadInput."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
                raise BadInput(_("{name} is {value!r}, which is no count.", name=name, value=str(value)[:60]))
            return value
        if default is None:
            raise Missing(names[0])
        return default

    def list_of(self, name: str) -> list[Any] | None:
        value = self.values.get(name)
        if not isinstance(value, list) or not value:
            return None
        if len(value) > MAX_BLOCKS:
            raise BadInput(
                _("{name} has {count:,} entries, more than any model has layers.", name=name, count=len(value))
            )
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name)
        return default if value is None else bool(value)

    @property
    def hidden(self) -> int:
        return self.count("hidden_size", "n_embd", "d_model")

    @property
    def heads(self) -> int:
        return self.count("num_attention_heads", "n_head", "n_heads")

    @property
    def blocks(self) -> int:
        blocks = self.count("num_hidden_layers", "n_layer", "n_layers", "num_layers")
        if not 0 < blocks <= MAX_BLOCKS:
            raise BadInput(_("{blocks:,} layers make no language model.", blocks=blocks))
        return blocks

    @property
    def experts(self) -> int:
        return self.count("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", default=0)

    @property
    def experts_used(self) -> int:
        return self.count("num_experts_per_tok", "top_k_experts", "experts_per_token", "moe_topk", "moe_k", default=0)

    @property
    def window(self) -> int:
        return self.count("sliding_window", "attention_chunk_size", default=0)


def layers(config: Config) -> tuple[list[Layer], list[str]]:
    """All layers from first to last, and what was taken for granted. Raises Missing, BadInput."""
    blocks = config.blocks
    names = config.list_of("layers_block_type") or config.list_of("layer_types")
    pattern = config.values.get("hybrid_override_pattern")
    if names and {"moe", "mlp"} & {str(name) for name in names}:
        pattern = "".join(HYBRID_NAMES.get(str(name), "?") for name in names)
    if isinstance(pattern, str):
        letters = pattern.replace("|", "")
        if not set(letters) <= set(HYBRID_LETTERS) or len(letters) != blocks:
            raise BadInput(_("Its layer pattern does not name {blocks} layers that Roofmark knows.", blocks=blocks))
        return [HYBRID_LETTERS[letter] for letter in letters], []
    mixers, assumptions = _mixers(config, blocks, names)
    shared_from = blocks - config.count("num_kv_shared_layers", default=0)
    found = [Layer(mixer, _ffn(config, index), index >= shared_from) for index, mixer in enumerate(mixers)]
    if shared_from < blocks:
        assumptions.append(SHARED_KV)
    return found, assumptions


def _mixers(config: Config, blocks: int, names: list[Any] | None) -> tuple[list[Mixer], list[str]]:
    if names:
        if unknown := sorted({str(name) for name in names} - set(MIXER_NAMES)):
            raise BadInput(_("It has layers of unknown kinds: {unknown}.", unknown=printable(", ".join(unknown))))
        if len(names) != blocks:
            raise BadInput(
                _("It names the kinds of {count} layers, but does not name {blocks}.", count=len(names), blocks=blocks)
            )
        return [MIXER_NAMES[name] for name in names], []
    if config.is_of("falcon_h1"):
        return [Mixer.PARALLEL] * blocks, []
    if config.is_of("mamba"):
        return [Mixer.MAMBA] * blocks, []
    if period := config.count("attn_layer_period", default=0):
        offset = config.count("attn_layer_offset", default=0)
        return [Mixer.FULL if index % period == offset else Mixer.MAMBA for index in range(blocks)], []
    if every := config.count("full_attention_interval", default=0):
        return [Mixer.FULL if (index + 1) % every == 0 else Mixer.LINEAR for index in range(blocks)], []
    if not config.window or not config.flag("use_sliding_window", default=True):
        return [Mixer.FULL] * blocks, []
    if every := config.count("sliding_window_pattern", "_sliding_window_pattern", default=0):
        slides, assumptions = slides_by_period(every, blocks), []
    else:
        slides, sentence = slides_by_default(config.model_type, config.window, blocks)
        assumptions = [sentence]
    return [Mixer.SLIDING if one else Mixer.FULL for one in slides], assumptions


def _ffn(config: Config, index: int) -> Ffn:
    if not config.experts:
        return Ffn.DENSE
    if config.values.get("enable_moe_block") is not None:
        return Ffn.BOTH if config.flag("enable_moe_block") else Ffn.DENSE
    for name in ("mlp_layer_types", "moe_layer_freq"):
        if (given := config.list_of(name)) and index < len(given):
            return Ffn.ROUTED if given[index] in ("sparse", "moe", 1, True) else Ffn.DENSE
    if moe_layers := config.list_of("moe_layers"):
        return Ffn.ROUTED if index in moe_layers else Ffn.DENSE
    step = config.count("decoder_sparse_step", "interleave_moe_layer_step", default=1) or 1
    period = config.count("expert_layer_period", default=1) or 1
    is_routed = (
        index >= config.count("first_k_dense_replace", default=0)
        and index not in (config.list_of("mlp_only_layers") or ())
        and (index + 1) % step == 0
        and index % period == config.count("expert_layer_offset", default=0) % period
    )
    return Ffn.ROUTED if is_routed else Ffn.DENSE


def attention(config: Config, layer: Layer) -> Attention | None:
    """Raises Missing, BadInput."""
    if layer.mixer not in (Mixer.FULL, Mixer.SLIDING, Mixer.PARALLEL):
        return None
    heads, window = config.heads, config.window if layer.mixer is Mixer.SLIDING else None
    if not heads:
        raise BadInput(_("It has layers with attention, but no attention heads."))
    if latent := config.count("kv_lora_rank", default=0):
        rope = config.count("qk_rope_head_dim")
        qk_dim = config.count("qk_nope_head_dim", default=config.count("v_head_dim", default=0)) + rope
        return Attention(1, latent + rope, 0, heads, qk_dim, config.count("v_head_dim", default=qk_dim - rope), window)
    head_dim, kv_heads = head_dim_of(config), config.count("num_key_value_heads", "num_kv_heads", default=heads)
    if layer.mixer is Mixer.FULL:
        head_dim = config.count("global_head_dim", default=head_dim)
        kv_heads = config.count("num_global_key_value_heads", default=kv_heads)
    v_dim = config.count("v_head_dim", default=head_dim)
    stored = 0 if layer.shares_kv else kv_heads
    return Attention(1, stored * head_dim, stored * v_dim, heads, head_dim, v_dim, window)


def head_dim_of(config: Config) -> int:
    given = config.count("head_dim", "attention_head_dim", default=0)
    return given or config.hidden // max(config.heads, 1)


def state_bytes(config: Config, layer: Layer) -> int:
    """Recurrent state of one sequence in one layer. Raises Missing, BadInput."""
    elements = 0
    if layer.mixer is Mixer.LINEAR:
        delta = DeltaNet.of(config)
        elements = (delta.kernel - 1) * delta.channels + delta.v_heads * delta.k_dim * delta.v_dim
    elif layer.mixer in (Mixer.MAMBA, Mixer.PARALLEL):
        mamba = Mamba.of(config)
        elements = (mamba.kernel - 1) * mamba.channels + mamba.inner * mamba.state
    elif layer.mixer is Mixer.CONV:
        elements = config.hidden * (config.count("conv_L_cache") - 1)
    return max(elements, 0) * STATE_BYTES


@dataclass(frozen=True, slots=True)
class DeltaNet:
    k_heads: int
    v_heads: int
    k_dim: int
    v_dim: int
    kernel: int

    @classmethod
    def of(cls, config: Config) -> "DeltaNet":
        return cls(
            config.count("linear_num_key_heads"),
            config.count("linear_num_value_heads"),
            config.count("linear_key_head_dim"),
            config.count("linear_value_head_dim"),
            config.count("linear_conv_kernel_dim"),
        )

    @property
    def channels(self) -> int:
        """What the convolution sees: q, k and v."""
        return 2 * self.k_heads * self.k_dim + self.v_heads * self.v_dim


@dataclass(frozen=True, slots=True)
class Mamba:
    heads: int
    """0 in the first generation, which has no heads."""
    inner: int
    groups: int
    state: int
    kernel: int

    @classmethod
    def of(cls, config: Config) -> "Mamba":
        heads = config.count("mamba_num_heads", "mamba_n_heads", default=0)
        state = config.count("ssm_state_size", "mamba_d_state", "state_size")
        kernel = config.count("conv_kernel", "mamba_d_conv")
        if heads:
            groups = config.count("n_groups", "mamba_n_groups", default=1)
            return cls(heads, heads * config.count("mamba_head_dim", "mamba_d_head"), groups, state, kernel)
        inner = config.count("mamba_d_ssm", "d_inner", default=0)
        return cls(0, inner or config.hidden * config.count("mamba_expand", "expand", default=2), 0, state, kernel)

    @property
    def channels(self) -> int:
        return self.inner + 2 * self.groups * self.state
