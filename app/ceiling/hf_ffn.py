"""The FFN of a layer in a config.json: how many parameters are dense, and how many belong to routed experts."""

from dataclasses import dataclass

from app.ceiling.hf_keys import EXPERTS_USED, HfConfig, Missing
from app.ceiling.hf_layers import Ffn, Layer

UNGATED_FFN = {
    "bloom",
    "falcon",
    "gpt2",
    "gpt_bigcode",
    "gpt_neox",
    "gptj",
    "mpt",
    "nemotron",
    "nemotron_h",
    "opt",
    "phi",
    "starcoder2",
}
FOUR_TIMES_AS_WIDE = ("bloom", "falcon", "gpt2", "mpt")
"""Families whose files may leave out the width."""
UNGATED_ACTIVATIONS = ("relu2", "xielu")
DENSE_WIDTH = (
    "intermediate_size_mlp", "dense_intermediate_size", "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim",
    "block_ff_dim", "d_ff", "inner_dim",
)  # fmt: skip
EXPERT_WIDTH = (
    "moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size", "expert_intermediate_size",
    "ffn_config.ffn_hidden_size", "expert_hidden_size",
)  # fmt: skip
RATIOS = ("hidden_ratio", "mlp_ratio", "expansion_ratio", "mlp_expansion_factor")
"""Of a width that is named too."""
SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
SHARED_WIDTH = ("moe_shared_expert_intermediate_size",)
SHARED_TOTAL = (
    "shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim", "shared_expert_dim",
    "moe_shared_intermediate_size",
)  # fmt: skip
LATENT = ("moe_latent_size", "expert_latent_size", "moe_latent_dim", "routed_expert_hidden_size")


@dataclass(frozen=True, slots=True)
class FfnParameters:
    dense: int = 0
    router: int = 0
    experts: int = 0
    experts_used: int = 0
    of_expert: int = 0
    """Parameters of one routed expert."""

    @property
    def routed(self) -> int:
        return self.experts * self.of_expert


def ffn_parameters(config: HfConfig, layer: Layer) -> FfnParameters:
    """`config` looks at this layer. Raises Missing, BadInput."""
    dense = 0
    if layer.ffn in (Ffn.DENSE, Ffn.BOTH):
        dense = matrices(config) * config.hidden * _dense_width(config, layer)
        if config.is_of("rwkv") and not config.is_of("rwkv7"):
            dense += config.hidden**2  # the receptance of the channel mixing
        if config.is_of("longcat_flash"):
            dense *= 2
    else:
        config.understand(*DENSE_WIDTH)
    if layer.ffn not in (Ffn.ROUTED, Ffn.BOTH):
        return FfnParameters(dense)
    return _with_experts(config, dense)


def matrices(config: HfConfig) -> int:
    activation = config.value("mlp_hidden_act") or config.value("hidden_act")
    is_ungated = activation in UNGATED_ACTIVATIONS or config.model_type in UNGATED_FFN or config.is_of("rwkv")
    return 2 if is_ungated else 3


def _dense_width(config: HfConfig, layer: Layer) -> int:
    if config.is_of("arctic"):
        return config.hidden
    names: tuple[str, ...] = DENSE_WIDTH
    if config.is_of("granitemoe"):  # without experts, only the shared one is left
        names = ("shared_intermediate_size", *DENSE_WIDTH)
    width = config.count(*names, default=0)
    config.understand(*DENSE_WIDTH, *RATIOS)
    if not width and config.is_of("rwkv"):
        width = config.count("hidden_ratio", default=4) * config.hidden
    if not width and (config.values.get("n_inner", 0) is None or config.is_of(*FOUR_TIMES_AS_WIDE)):
        width = config.count("expansion_ratio", default=4) * config.hidden
    if not width:
        raise Missing("intermediate_size")
    if config.is_of("lfm2") and not config.is_of("lfm2_moe"):
        width = _adjusted(config, width)
    return 2 * width if layer.shares_kv and config.flag("use_double_wide_mlp") else width


def _adjusted(config: HfConfig, width: int) -> int:
    """LFM2 names a width and computes the true one from it."""
    step, factor = config.count("block_multiple_of", default=256) or 1, config.value("block_ffn_dim_multiplier")
    if not config.flag("block_auto_adjust_ff_dim", default=True):
        return width
    width = 2 * width // 3
    if isinstance(factor, int | float) and 0 < factor < 1e3:
        width = int(factor * width)
    return -(-width // step) * step


def _with_experts(config: HfConfig, dense: int) -> FfnParameters:
    hidden, per_expert = config.hidden, matrices(config)
    experts = config.experts
    used = config.experts_used or (1 if experts == 1 else 0)
    if not used:
        raise Missing(EXPERTS_USED[0])
    width = config.count(*EXPERT_WIDTH, *DENSE_WIDTH[2:])
    latent = config.count(*LATENT, default=0)
    of_expert = per_expert * (latent or hidden) * width
    if config.is_of("gpt_oss"):
        of_expert += 2 * width + hidden
    shared = _shared_width(config, width)
    dense += per_expert * hidden * shared + 2 * hidden * latent
    router = hidden * experts
    if config.values.get("shared_expert_intermediate_size"):
        router += hidden
    if zero := config.count("zero_expert_num", default=0):  # experts that pass their input on and cost nothing
        used = used * experts // (experts + zero)
        router += hidden * zero
    return FfnParameters(dense, router, experts, used, of_expert)


def _shared_width(config: HfConfig, width: int) -> int:
    """Of all shared experts together."""
    if config.is_of("llama4"):
        return width
    of_one = config.count(*SHARED_WIDTH, default=0) or width
    shared = of_one * config.count(*SHARED_COUNT, default=0)
    return config.count(*SHARED_TOTAL, default=shared)
