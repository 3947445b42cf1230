"""Attention and FFN of a layer in a config.json: what it caches, and how many parameters are dense or in experts."""

from dataclasses import dataclass

from app.ceiling.geometry import Attention
from app.ceiling.hf_keys import CHUNK, EXPERTS_USED, HfConfig, Missing
from app.ceiling.hf_layers import Ffn, Layer, Mixer
from app.core.errors import BadInput
from app.core.i18n import _

ATTENTION_WITH_GATE = ("qwen3_next", "qwen3_5", "qwen3_6", "afmoe")
QKV_BIAS = ("qwen2",)
QK_NORMS = ("qwen3", "gemma3", "gemma4")
KV_HEADS = (
    "num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "num_query_groups", "multi_query_group_num",
    "num_attention_groups", "attn_config.kv_n_heads", "num_key_value_heads_per_layer",
)  # fmt: skip
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "d_head", "head_size")
_SPARSE_KEYS = (
    "use_sparse_attention", "sparse_disable_index_value", "sparse_index_dim", "sparse_num_index_heads", "kernel_size",
    "kernel_stride", "window_size", "dense_len",
)  # fmt: skip
"""Keys of block-sparse attention: what picks the blocks, which is left out, and what is read in addition."""
TOP_K = ("index_topk", "index_top_k", "indexer_topk", "indexer_top_k")


def attention(config: HfConfig, layer: Layer) -> Attention | None:
    """Returns what the attention of a layer caches, for a `config` at this layer; None when it has none.

    Raises Missing, BadInput.
    """
    if layer.mixer not in (Mixer.FULL, Mixer.SLIDING, Mixer.PARALLEL):
        return None
    heads = query_heads(config, layer)
    if not heads:
        raise BadInput(_("It has layers with attention, but no attention heads."))
    window = chunk = None
    if layer.mixer is Mixer.SLIDING:
        chunk = config.count(*CHUNK, default=0) or None
        window = config.window or None if chunk is None else None
    if latent := latent_rank(config):
        return _mla(config, latent, heads, window)
    config.understand(*KV_HEADS, *HEAD_DIM)
    if is_compressed(config):
        return _compressed(config, heads)
    qk_dim, v_dim = head_dims(config, layer)
    stored = 0 if layer.shares_kv else kv_heads(config, layer)
    return Attention(
        1, stored * qk_dim, stored * v_dim, heads, qk_dim, v_dim, window, chunk, _top_k(config), None, layer.may_see_all
    )


def latent_rank(config: HfConfig) -> int:
    """Returns `kv_lora_rank` of MLA (DeepSeek-V2, 2024); 0 when there is none, though the file may have its sizes."""
    if not config.flag("use_mla", default=True):
        config.understand("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        return 0
    return config.count("kv_lora_rank", default=0)


def is_compressed(config: HfConfig) -> bool:
    """Whether tokens share cached entries, by `compress_ratios`."""
    return bool(config.value("compress_ratios"))


def _mla(config: HfConfig, latent: int, heads: int, window: int | None) -> Attention:
    rope = config.count("qk_rope_head_dim")
    qk_dim = config.count("qk_nope_head_dim", default=config.count("v_head_dim", default=0)) + rope
    v_dim = config.count("v_head_dim", default=qk_dim - rope)
    config.understand(*KV_HEADS, *HEAD_DIM, "qk_head_dim")
    return Attention(1, latent + rope, 0, heads, qk_dim, v_dim, window, top_k=_top_k(config))


def _compressed(config: HfConfig, heads: int) -> Attention:
    """DeepSeek V4: a short window of single tokens, and beside it entries that many tokens share."""
    dim = config.count(*HEAD_DIM)
    ratio = config.count("compress_ratios", default=0)
    picked = _top_k(config) if ratio and ratio < _longest_ratio(config) else None
    return Attention(1, dim, 0, heads, dim, dim, config.window or None, None, picked, ratio or None)


def _longest_ratio(config: HfConfig) -> int:
    """Returns the longest ratio: layers that compress most read all of what is left; the others pick."""
    ratios = [ratio for ratio in config.list_of("compress_ratios") or () if isinstance(ratio, int)]
    return max(ratios, default=0)


def _top_k(config: HfConfig) -> int | None:
    """Returns the number of entries that sparse attention picks; None when it reads all."""
    for prefix in ("sparse_attention_config.", "sparse_config."):
        if blocks := config.count(
            *(f"{prefix}{name}" for name in ("sparse_topk_blocks", "topk_blocks", "topk")), default=0
        ):
            config.understand(*(f"{prefix}{name}" for name in _SPARSE_KEYS))
            is_sparse = config.count(f"{prefix}sparse_attention_freq", default=1)
            size = config.count(f"{prefix}sparse_block_size", f"{prefix}block_size", default=1)
            return blocks * size if is_sparse else None
    return config.count(*TOP_K, default=0) or None


def query_heads(config: HfConfig, layer: Layer) -> int:
    """Number of query heads of a layer."""
    if layer.mixer is Mixer.SLIDING:
        return config.count("swa_num_attention_heads", default=config.heads)
    config.understand("swa_num_attention_heads")
    return config.heads


def kv_heads(config: HfConfig, layer: Layer) -> int:
    """Number of heads whose keys and values a layer caches."""
    usual_heads = config.count(*KV_HEADS, default=_multi_query(config))
    config.understand("num_global_key_value_heads", "swa_num_key_value_heads")
    if layer.mixer is Mixer.FULL:
        return config.count("num_global_key_value_heads", default=usual_heads)
    return config.count("swa_num_key_value_heads", default=usual_heads) if layer.mixer is Mixer.SLIDING else usual_heads


def _multi_query(config: HfConfig) -> int:
    return 1 if config.flag("multi_query") else config.heads


def head_dims(config: HfConfig, layer: Layer) -> tuple[int, int]:
    """Width of a head's queries and keys, and of its values."""
    stated_dim = config.count(*HEAD_DIM, default=0)
    qk_dim = stated_dim or config.hidden // max(config.heads, 1)
    config.understand("global_head_dim", "swa_head_dim", "swa_v_head_dim")
    if layer.mixer is Mixer.FULL:
        qk_dim = config.count("global_head_dim", default=qk_dim)
    v_dim = config.count("v_head_dim", default=qk_dim) if config.flag("use_mla", default=True) else qk_dim
    if layer.mixer is Mixer.SLIDING:
        qk_dim = config.count("swa_head_dim", default=qk_dim)
        v_dim = config.count("swa_v_head_dim", default=config.count("v_head_dim", default=qk_dim))
    return qk_dim, v_dim


# --- parameters of attention -----------------------------------------------------------------------------------------


def attention_parameters(config: HfConfig, layer: Layer, group: Attention) -> int:
    """Number of weights of a layer's attention; `group` is what `attention` returned for it."""
    if latent_rank(config):
        return _mla_parameters(config, group.k_elements, group.qk_dim, group.v_dim) + _indexer_parameters(config)
    if is_compressed(config):
        return _compressed_parameters(config, group)
    has_v = not (config.flag("attention_k_eq_v") and layer.mixer is Mixer.FULL)
    gates = 2 if config.flag("attn_output_gate", default=config.is_of(*ATTENTION_WITH_GATE)) else 1
    stored = kv_heads(config, layer)
    q = group.q_heads * group.qk_dim * gates
    k, v = (0, 0) if layer.shares_kv else (stored * group.qk_dim, stored * group.v_dim * has_v)
    width = config.hidden
    total = width * (k + v + group.q_heads * group.v_dim) + _query_parameters(config, q)
    has_bias = config.flag("attention_bias") or config.flag("bias") or config.flag("qkv_bias")
    if has_bias or config.is_of(*QKV_BIAS):
        total += q + k + v + (0 if config.is_of(*QKV_BIAS) else width)
    if config.flag("use_head_wise_attn_gate"):
        total += width * group.q_heads
    return total + 2 * group.qk_dim * config.is_of(*QK_NORMS) + _indexer_parameters(config)


def _query_parameters(config: HfConfig, q: int) -> int:
    """Weights of the query projection, which may go through a narrow middle (`q_lora_rank`)."""
    names = ("share_q_dim", "q_lora_rank") if config.flag("use_mla", default=True) else ("share_q_dim",)
    narrow = config.count(*names, default=0)
    return config.hidden * narrow + narrow + narrow * q if narrow else config.hidden * q


def _mla_parameters(config: HfConfig, cached: int, qk_dim: int, v_dim: int) -> int:
    hidden, heads, latent = config.hidden, config.heads, config.count("kv_lora_rank")
    if q_latent := config.count("q_lora_rank", default=0):
        q = hidden * q_latent + q_latent + q_latent * heads * qk_dim
    else:
        q = hidden * heads * qk_dim
    up = latent + latent * heads * (qk_dim - config.count("qk_rope_head_dim") + v_dim)
    gate = hidden * heads * v_dim if config.flag("mla_use_output_gate") else 0
    return q + hidden * cached + up + heads * v_dim * hidden + gate


def _indexer_parameters(config: HfConfig) -> int:
    """Returns the parameters that pick the entries of sparse attention."""
    config.understand("index_topk_freq", "index_skip_topk_offset", "index_topk_pattern")
    kinds = config.value("indexer_types")
    is_shared = isinstance(kinds, list) and config.entry(kinds) == "shared"
    if is_shared or not config.count(*TOP_K, default=0):
        return 0
    heads, dim = config.count("index_n_heads", "index_num_heads"), config.count("index_head_dim")
    source = config.count("q_lora_rank", default=0) or config.hidden
    return source * heads * dim + config.hidden * (dim + heads)


def _compressed_parameters(config: HfConfig, group: Attention) -> int:
    hidden, q_latent, dim = config.hidden, config.count("q_lora_rank"), group.qk_dim
    groups, o_latent = config.count("o_groups"), config.count("o_lora_rank")
    total = hidden * q_latent + q_latent * group.q_heads * dim + hidden * dim
    total += group.q_heads * dim * o_latent + groups * o_latent * hidden
    config.understand("qk_rope_head_dim", "compress_ratios", *TOP_K, "index_n_heads", "index_head_dim")
    if group.compression:
        overlap = 2 if group.top_k else 1
        total += 2 * overlap * hidden * dim
    if group.top_k:
        heads, index_dim = config.count("index_n_heads"), config.count("index_head_dim")
        total += q_latent * heads * index_dim + hidden * heads + 4 * hidden * index_dim
    return total


# --- FFN -------------------------------------------------------------------------------------------------------------

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
"""Ratios of a width that the file has too."""
SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
SHARED_WIDTH = ("moe_shared_expert_intermediate_size",)
SHARED_TOTAL = (
    "shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim", "shared_expert_dim",
    "moe_shared_intermediate_size",
)  # fmt: skip
LATENT = ("moe_latent_size", "expert_latent_size", "moe_latent_dim", "routed_expert_hidden_size")


@dataclass(frozen=True, slots=True)
class FfnParameters:
    """Number of weights of a layer's FFN by role."""

    dense: int = 0
    router: int = 0
    experts: int = 0
    experts_used: int = 0
    of_expert: int = 0
    """Parameters of one routed expert."""

    @property
    def routed(self) -> int:
        """Weights of all routed experts of the layer."""
        return self.experts * self.of_expert


def ffn_parameters(config: HfConfig, layer: Layer) -> FfnParameters:
    """Counts the weights of a layer's FFN, for a `config` that looks at this layer. Raises Missing, BadInput."""
    dense = 0
    if layer.ffn in (Ffn.DENSE, Ffn.BOTH):
        dense = ffn_matrices(config) * config.hidden * _dense_width(config, layer)
        if config.is_of("rwkv") and not config.is_of("rwkv7"):
            dense += config.hidden**2  # the receptance of the channel mixing
        if config.is_of("longcat_flash"):
            dense *= 2
    else:
        config.understand(*DENSE_WIDTH)
    if layer.ffn not in (Ffn.ROUTED, Ffn.BOTH):
        return FfnParameters(dense)
    return _with_experts(config, dense)


def ffn_matrices(config: HfConfig) -> int:
    """Matrices of an FFN: 3 with a gate, 2 without."""
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
    hidden, per_expert = config.hidden, ffn_matrices(config)
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
    """Width of all shared experts together."""
    if config.is_of("llama4"):
        return width
    of_one = config.count(*SHARED_WIDTH, default=0) or width
    shared = of_one * config.count(*SHARED_COUNT, default=0)
    return config.count(*SHARED_TOTAL, default=shared)
