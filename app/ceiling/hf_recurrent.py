"""Layers of a config.json that keep a state instead of a cache: linear attention, Mamba, RWKV, short convolutions."""

from dataclasses import dataclass
from typing import Protocol

from app.ceiling.geometry import STATE_BYTES
from app.ceiling.hf_blocks import HEAD_DIM
from app.ceiling.hf_keys import HEADS, HfConfig
from app.ceiling.hf_layers import Layer, Mixer


class Recurrence(Protocol):
    """A layer that keeps a state: its size for one sequence, and its number of weights."""

    @property
    def state_elements(self) -> int: ...

    def parameters(self, hidden: int) -> int: ...


def recurrence(config: HfConfig, layer: Layer) -> Recurrence | None:
    """The recurrence of a layer, for a `config` that looks at it; None where it has none. Raises Missing, BadInput."""
    if layer.mixer in (Mixer.MAMBA, Mixer.PARALLEL):
        return Mamba.of(config)
    if layer.mixer is Mixer.CONV:
        return ShortConvolution(config.hidden, config.count("conv_L_cache", "conv_kernel", "short_conv_kernel_size"))
    if layer.mixer is not Mixer.LINEAR:
        return None
    if config.is_of("rwkv"):
        return Rwkv.of(config)
    if config.value("linear_attn_config"):
        return Kda.of(config)
    if config.count("lru_width", default=0):
        return Lru.of(config)
    if config.is_of("minimax", "bailing"):
        return Lightning.of(config)
    return DeltaNet.of(config)


def state_bytes(config: HfConfig, layer: Layer) -> int:
    """Bytes of the state of one sequence in one layer. Raises Missing, BadInput."""
    layer_recurrence = recurrence(config, layer)
    return max(layer_recurrence.state_elements, 0) * STATE_BYTES if layer_recurrence else 0


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """Gated delta net."""

    k_heads: int
    v_heads: int
    k_dim: int
    v_dim: int
    kernel: int

    @classmethod
    def of(cls, config: HfConfig) -> "DeltaNet":
        return cls(
            config.count("linear_num_key_heads"),
            config.count("linear_num_value_heads"),
            config.count("linear_key_head_dim"),
            config.count("linear_value_head_dim"),
            config.count("linear_conv_kernel_dim"),
        )

    @property
    def channels(self) -> int:
        """The width of the convolution's input: q, k and v."""
        return 2 * self.k_heads * self.k_dim + self.v_heads * self.v_dim

    @property
    def state_elements(self) -> int:
        return (self.kernel - 1) * self.channels + self.v_heads * self.k_dim * self.v_dim

    def parameters(self, hidden: int) -> int:
        values = self.v_heads * self.v_dim
        total = hidden * (self.channels + values + 2 * self.v_heads) + self.channels * self.kernel
        return total + values * hidden + 2 * self.v_heads + self.v_dim


@dataclass(frozen=True, slots=True)
class Kda:
    """Kimi delta attention: decay and output gate go through a narrow middle of one head's width."""

    heads: int
    dim: int
    kernel: int
    has_full_gate: bool
    """The output gate is as wide as the heads."""

    @classmethod
    def of(cls, config: HfConfig) -> "Kda":
        prefix = "linear_attn_config."
        return cls(
            config.count(f"{prefix}num_heads", default=config.heads),
            config.count(f"{prefix}head_dim"),
            config.count(f"{prefix}short_conv_kernel_size", default=4),
            config.flag(f"{prefix}use_full_rank_gate"),
        )

    @property
    def state_elements(self) -> int:
        return 3 * (self.kernel - 1) * self.heads * self.dim + self.heads * self.dim**2

    def parameters(self, hidden: int) -> int:
        width = self.heads * self.dim
        narrow = hidden * self.dim + self.dim * width
        narrow += hidden * width if self.has_full_gate else narrow
        return 4 * hidden * width + 3 * width * self.kernel + narrow + hidden * self.heads + width + 2 * self.dim


@dataclass(frozen=True, slots=True)
class Lightning:
    """Linear attention with a fixed decay and an output gate."""

    heads: int
    dim: int

    @classmethod
    def of(cls, config: HfConfig) -> "Lightning":
        heads = config.heads
        return cls(heads, config.count(*HEAD_DIM, default=config.hidden // max(heads, 1)))

    @property
    def state_elements(self) -> int:
        return self.heads * self.dim**2

    def parameters(self, hidden: int) -> int:
        return 5 * hidden * self.heads * self.dim + self.heads * self.dim


@dataclass(frozen=True, slots=True)
class Lru:
    """RecurrentGemma's linear recurrence behind a short convolution."""

    width: int
    kernel: int
    blocks: int

    @classmethod
    def of(cls, config: HfConfig) -> "Lru":
        return cls(config.count("lru_width"), config.count("conv1d_width", default=4), config.count(*HEADS, default=1))

    @property
    def state_elements(self) -> int:
        return self.width * self.kernel

    def parameters(self, hidden: int) -> int:
        gates = 2 * self.width * self.width // max(self.blocks, 1)
        return 3 * hidden * self.width + self.width * (self.kernel + 6) + gates


@dataclass(frozen=True, slots=True)
class Rwkv:
    """Time mixing of RWKV 6 and 7; the channel mixing is its FFN."""

    hidden: int
    head_dim: int
    narrow: int
    """Widths of the low-rank parts together."""
    matrices: int

    @classmethod
    def of(cls, config: HfConfig) -> "Rwkv":
        hidden = config.hidden
        config.understand(*HEADS, "attention_hidden_size", "value_dim", "key_dim", "head_dim", "head_size_divisor")
        head_dim = config.count("head_size", "head_dim", default=64)
        if config.is_of("rwkv7"):
            root = hidden**0.5
            ranks = (
                (("decay_low_rank_dim",), 1.8 * root),
                (("a_low_rank_dim",), 1.8 * root),
                (("v_low_rank_dim",), 1.3 * root),
                (("gate_low_rank_dim",), 0.6 * hidden**0.8),
            )
            usual = sum(config.count(*names, default=max(32, round(rank / 32) * 32)) for names, rank in ranks)
            return cls(hidden, head_dim, usual, 4)
        small = hidden < 4096
        mix = config.count("time_mix_extra_dim", default=32 if small else 64)
        return cls(hidden, head_dim, 5 * mix + config.count("time_decay_extra_dim", default=64 if small else 128), 5)

    @property
    def state_elements(self) -> int:
        """The token before this one, for both mixings, and a matrix for each head."""
        return 2 * self.hidden + self.hidden * self.head_dim

    def parameters(self, hidden: int) -> int:
        return self.matrices * hidden**2 + 2 * hidden * self.narrow + 12 * hidden


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    width: int
    kernel: int

    @property
    def state_elements(self) -> int:
        return self.width * (self.kernel - 1)

    def parameters(self, hidden: int) -> int:
        return 4 * hidden * hidden + hidden * self.kernel


@dataclass(frozen=True, slots=True)
class Mamba:
    heads: int
    """0 in the first generation, which has no heads."""
    inner: int
    groups: int
    state: int
    kernel: int
    has_bias: bool
    rank: int

    @classmethod
    def of(cls, config: HfConfig) -> "Mamba":
        short_names = ("num_heads",) if config.is_of("mamba2") else ()  # its layers are of one kind
        heads = config.count("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", *short_names, default=0)
        state = config.count("ssm_state_size", "mamba_d_state", "state_size")
        kernel = config.count("conv_kernel", "mamba_d_conv")
        has_bias = config.flag("use_conv_bias", default=config.flag("mamba_conv_bias", default=True))
        config.understand("mamba_expand", "expand", "mamba_d_ssm", "d_inner", "time_step_rank", "mamba_dt_rank")
        if config.is_of("mamba", "falcon_mamba"):
            config.understand("intermediate_size", "num_heads", "head_dim")
        if heads:
            names = ("mamba_head_dim", "mamba_d_head", "mamba_headdim", *(("head_dim",) if short_names else ()))
            dim, groups = config.count(*names, default=0), ("n_groups", "mamba_n_groups")
            inner = heads * dim or config.hidden * config.count("mamba_expand", "expand", default=2)
            return cls(heads, inner, config.count(*groups, "mamba_ngroups", default=1), state, kernel, has_bias, 0)
        inner = config.count("mamba_d_ssm", "d_inner", default=0)
        inner = inner or config.hidden * config.count("mamba_expand", "expand", default=2)
        rank = config.count("mamba_dt_rank", "time_step_rank", default=-(-config.hidden // 16))
        return cls(0, inner, 0, state, kernel, has_bias, rank)

    @property
    def channels(self) -> int:
        return self.inner + 2 * self.groups * self.state

    @property
    def state_elements(self) -> int:
        return (self.kernel - 1) * self.channels + self.inner * self.state

    def parameters(self, hidden: int) -> int:
        inner = self.inner
        convolution = self.channels * (self.kernel + self.has_bias)
        if self.heads:
            wide = hidden * (inner + self.channels + self.heads)
            return wide + convolution + 3 * self.heads + inner + inner * hidden
        steps = inner * (self.rank + 2 * self.state) + self.rank * inner + inner
        return hidden * 2 * inner + convolution + steps + inner * self.state + inner + inner * hidden
