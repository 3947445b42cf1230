"""The layers of a Hugging Face config.json.

A layer is a mixer (some attention or a recurrence) and an FFN; hybrids leave out one of them in each layer.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.ceiling.geometry import SHARED_KV, printable, slides_by_default, slides_by_period
from app.ceiling.hf_keys import CHUNK, LAYER_KINDS, WINDOW, HfConfig, integers
from app.core.errors import BadInput
from app.core.i18n import _


class Mixer(StrEnum):
    """How a layer looks at earlier tokens."""

    NONE = "none"
    FULL = "full"
    SLIDING = "sliding"
    LINEAR = "linear"
    MAMBA = "mamba"
    PARALLEL = "parallel"
    """Full attention and Mamba side by side."""
    CONV = "conv"


class Ffn(StrEnum):
    """Whether the FFN of a layer is dense, of routed experts, or both."""

    NONE = "none"
    DENSE = "dense"
    ROUTED = "routed"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Layer:
    """A mixer and an FFN."""

    mixer: Mixer
    ffn: Ffn
    shares_kv: bool = False
    may_see_all: bool = False
    """It is unknown which layers slide; this one counts as sliding."""


HYBRID_LETTERS = {
    "M": Layer(Mixer.MAMBA, Ffn.NONE),
    "*": Layer(Mixer.FULL, Ffn.NONE),
    "-": Layer(Mixer.NONE, Ffn.DENSE),
    "E": Layer(Mixer.NONE, Ffn.ROUTED),
}
HYBRID_NAMES = {"mamba": "M", "mamba2": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}
MIXER_NAMES = {
    **dict.fromkeys(("full_attention", "attention", "full", "global", "global_attention", "attn"), Mixer.FULL),
    **dict.fromkeys(("deepseek_sparse_attention", "sparse_attention", "mla", "self_attention"), Mixer.FULL),
    **dict.fromkeys(("compressed_sparse_attention", "heavily_compressed_attention"), Mixer.FULL),
    **dict.fromkeys(("sliding_attention", "sliding_window", "sliding", "local", "local_attention"), Mixer.SLIDING),
    **dict.fromkeys(("chunked_attention", "swa", "window_attention"), Mixer.SLIDING),
    **dict.fromkeys(("linear_attention", "lightning_attention", "kda", "gated_delta_net", "recurrent"), Mixer.LINEAR),
    **dict.fromkeys(("linear", "rwkv", "gated_deltanet", "lightning"), Mixer.LINEAR),
    **dict.fromkeys(("mamba", "mamba2", "ssm"), Mixer.MAMBA),
    **dict.fromkeys(("hybrid", "parallel"), Mixer.PARALLEL),
    **dict.fromkeys(("conv", "short_conv", "convolution"), Mixer.CONV),
}
FULL_INTERVAL = ("full_attention_interval", "global_attn_every_n_layers", "global_attention_interval", "layer_switch")
ATTENDING = ("attn_layer_indices", "attn_layer_idx", "attention_layer_indices", "full_attn_idxs")
WINDOW_PATTERN = ("sliding_window_pattern", "_sliding_window_pattern", "hybrid_layer_pattern", "sliding_window_layout")
ROUTED_STEP = ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval")
ROUTED_EVERY = ("moe_layer_freq", "moe_layer_frequency", "moe_every_n_layers")
_DENSE_FIRST = re.compile(r"\w*(leading|first)_(k_)?dense\w*|(num|n)_dense_(layers|blocks)|\w*dense_first\w*")


def layers(config: HfConfig) -> tuple[list[Layer], list[str]]:
    """Returns all layers from first to last, and the assumptions. Raises Missing, BadInput."""
    blocks = config.blocks
    names = config.list_of(*LAYER_KINDS)
    pattern = config.value("hybrid_override_pattern")
    if names and {"moe", "mlp"} & {str(name) for name in names}:
        pattern = "".join(HYBRID_NAMES.get(str(name), "?") for name in names)
    if isinstance(pattern, str):
        letters = pattern.replace("|", "")
        if not set(letters) <= set(HYBRID_LETTERS) or len(letters) != blocks:
            raise BadInput(_("Its layer pattern does not describe {blocks} layers of known kinds.", blocks=blocks))
        return [HYBRID_LETTERS[letter] for letter in letters], []
    mixers, is_unknown_pattern, assumptions = _mixers(config, blocks, names)
    shares = _shares_kv(config, blocks)
    plan = [
        Layer(mixer, ffn_of(config, index), shares[index], is_unknown_pattern and mixer is Mixer.SLIDING)
        for index, mixer in enumerate(mixers)
    ]
    if any(shares):
        assumptions.append(_(SHARED_KV))
    return plan, assumptions


def _shares_kv(config: HfConfig, blocks: int) -> list[bool]:
    """Whether each layer uses the cache of another one."""
    shared_from = blocks - config.count("num_kv_shared_layers", "num_shared_kv_layers", default=0)
    factor = config.count("cla_share_factor", default=1) if config.flag("use_cla", default=True) else 1
    config.understand("cla_share_factor")
    return [index >= shared_from or (factor > 1 and index % factor != 0) for index in range(blocks)]


def _mixers(config: HfConfig, blocks: int, names: list[Any] | None) -> tuple[list[Mixer], bool, list[str]]:
    """The mixer of each layer, whether it is unknown which layers slide, and assumptions."""
    config.understand(*FULL_INTERVAL, *WINDOW_PATTERN, "max_window_layers", "layer_group_size", "attn_type_list")
    if names:
        config.understand(*WINDOW, *CHUNK, *ATTENDING, "use_sliding_window", "attn_layer_period", "attn_layer_offset")
        if unknown := sorted({str(name) for name in names} - set(MIXER_NAMES)):
            raise BadInput(_("It has layers of unknown kinds: {unknown}.", unknown=printable(", ".join(unknown))))
        if len(names) < blocks or (len(names) > blocks and len(names) % blocks == 0) or len(names) > 2 * blocks:
            names = _cycled(names, blocks, config)
        mixers = [MIXER_NAMES[str(name)] for name in names[:blocks]]
        if config.is_of("recurrent_gemma"):
            mixers = [Mixer.SLIDING if mixer is Mixer.FULL else mixer for mixer in mixers]
        return mixers, False, []
    if (recurrent := _recurrent_mixers(config, blocks)) is not None:
        return recurrent, False, []
    return _windows(config, blocks)


def _cycled(names: list[Any], blocks: int, config: HfConfig) -> list[Any]:
    """RecurrentGemma names one period of its layers."""
    if config.is_of("recurrent_gemma") and len(names) < blocks:
        return [names[index % len(names)] for index in range(blocks)]
    raise BadInput(
        _("It lists the kinds of {count} layers, but not those of {blocks}.", count=len(names), blocks=blocks)
    )


def _recurrent_mixers(config: HfConfig, blocks: int) -> list[Mixer] | None:
    """The mixers of a model that is not all attention, by whichever key says so; None where all layers attend."""
    indices = range(blocks)
    if config.is_of("falcon_h1"):
        return [Mixer.PARALLEL] * blocks
    if config.is_of("mamba", "falcon_mamba"):
        return [Mixer.MAMBA] * blocks
    if config.is_of("rwkv"):
        return [Mixer.LINEAR] * blocks
    full = set(integers(config.list_of("linear_attn_config.full_attn_layers") or []))
    linear = set(
        integers(config.list_of("linear_attn_config.kda_layers", "linear_attn_config.linear_attn_layers") or [])
    )
    if full or linear:  # counted from 1
        is_full = [index + 1 in full or (bool(linear) and index + 1 not in linear) for index in indices]
        return [Mixer.FULL if attends else Mixer.LINEAR for attends in is_full]
    if kinds := config.list_of("attn_type_list"):
        return [Mixer.FULL if kind else Mixer.LINEAR for kind in _whole(kinds, blocks, "attn_type_list")]
    if attending := set(integers(config.list_of(*ATTENDING) or [])):
        recurrent = Mixer.CONV if config.count("conv_L_cache", default=0) else Mixer.MAMBA
        return [Mixer.FULL if index in attending else recurrent for index in indices]
    if period := config.count("attn_layer_period", default=0):
        offset = config.count("attn_layer_offset", default=0)
        return [Mixer.FULL if index % period == offset else Mixer.MAMBA for index in indices]
    if config.is_of("bailing") and "linear" in config.model_type and (size := config.count("layer_group_size")):
        last = blocks // size * size
        return [Mixer.FULL if (index + 1) % size == 0 or index >= last else Mixer.LINEAR for index in indices]
    if not config.window and (every := config.count("full_attention_interval", default=0)):
        return [Mixer.FULL if (index + 1) % every == 0 else Mixer.LINEAR for index in indices]
    return None


def _whole(entries: list[Any], blocks: int, name: str) -> list[Any]:
    if len(entries) < blocks:
        raise BadInput(_("{name} has {count:,} entries, fewer than there are layers.", name=name, count=len(entries)))
    return entries[:blocks]


def _windows(config: HfConfig, blocks: int) -> tuple[list[Mixer], bool, list[str]]:
    """The mixers of a model whose layers all attend; the rest is as in `_mixers`."""
    chunk = config.count(*CHUNK, default=0)
    default = not config.is_of("qwen2", "qwen3")
    if not (config.window or chunk) or not config.flag("use_sliding_window", default=default):
        config.understand(*WINDOW)
        return [Mixer.FULL] * blocks, False, []
    assumptions: list[str] = []
    if config.is_of("llama4") and (with_rope := config.list_of("no_rope_layers")):
        slides = [bool(entry) for entry in _whole(with_rope, blocks, "no_rope_layers")]
    elif config.is_of("qwen2", "qwen3"):
        slides = [index >= config.count("max_window_layers", default=0) for index in range(blocks)]
    elif config.is_of("mistral", "mixtral") or config.value("compress_ratios"):
        slides = [True] * blocks
    elif (stated := _stated_pattern(config, blocks)) is not None:
        slides = stated
    else:
        slides, is_unknown, sentence = slides_by_default(config.model_type, config.window or chunk, blocks)
        return [Mixer.SLIDING if is_sliding else Mixer.FULL for is_sliding in slides], is_unknown, [sentence]
    return [Mixer.SLIDING if is_sliding else Mixer.FULL for is_sliding in slides], False, assumptions


def _stated_pattern(config: HfConfig, blocks: int) -> list[bool] | None:
    """A period, letters for local and global layers, or 1 for each layer that slides."""
    if entries := config.list_of(*WINDOW_PATTERN):
        return [bool(entry) for entry in _whole(entries, blocks, "sliding_window_pattern")]
    letters = config.value("sliding_window_pattern")
    if isinstance(letters, str) and letters and set(letters.upper()) <= set("LGSF"):
        return [letters[index % len(letters)].upper() in "LS" for index in range(blocks)]
    if every := config.count(*WINDOW_PATTERN[:2], *FULL_INTERVAL, default=0):
        return slides_by_period(every, blocks)
    return None


def ffn_of(config: HfConfig, index: int) -> Ffn:
    """The kind of a layer's FFN, by whichever key says where experts are."""
    layer_config = config.at(index)
    if config.is_of("mamba", "falcon_mamba"):
        return Ffn.NONE
    if not layer_config.experts:
        return Ffn.DENSE
    config.understand(*ROUTED_STEP, *ROUTED_EVERY)
    if config.value("enable_moe_block") is not None:
        return Ffn.BOTH if config.flag("enable_moe_block") else Ffn.DENSE
    if config.is_of("longcat_flash") or (config.is_of("arctic") and config.flag("use_residual", default=True)):
        return Ffn.BOTH
    for name in ("mlp_layer_types", "moe_layer_freq", "is_moe_layer"):
        if (kinds := config.list_of(name)) and index < len(kinds):
            return Ffn.ROUTED if kinds[index] in ("sparse", "moe", 1, True) else Ffn.DENSE
    if (moe_layers := _numbers(config, "moe_layers", "moe_layers_enum", "moe_layer_indices")) is not None:
        return Ffn.ROUTED if index in moe_layers else Ffn.DENSE
    return Ffn.ROUTED if _is_routed(config, index) else Ffn.DENSE


def _numbers(config: HfConfig, *names: str) -> set[int] | None:
    """A list of layers, or the same as text: `4,5,6`."""
    for name in names:
        value = config.value(name)
        if isinstance(value, str) and re.fullmatch(r"[\d, ]{1,9999}", value):
            return {int(number) for number in value.replace(",", " ").split()}
        if isinstance(value, list):
            return set(integers(config.list_of(name) or []))
    return None


def _is_routed(config: HfConfig, index: int) -> bool:
    step = config.count(*ROUTED_STEP, default=1) or 1
    period = config.count("expert_layer_period", default=1) or 1
    every = config.count(*ROUTED_EVERY, default=1) or 1
    last = config.count("moe_layer_end_index", default=0)
    config.understand("expert_layer_offset")
    dense = _numbers(config, "mlp_only_layers", "dense_layers", "dense_layer_indices", "dense_layer_ids") or ()
    return (
        index >= dense_first(config)
        and not 0 < last < index
        and index not in dense
        and (index + 1) % step == 0
        and index % every == 0
        and index % period == config.count("expert_layer_offset", default=0) % period
    )


def dense_first(config: HfConfig) -> int:
    """Returns how many layers at the beginning are dense in a model with experts, under any of the names."""
    names = [name for name in config.values if _DENSE_FIRST.fullmatch(name)]
    return config.count(*names, "moe_layer_start_index", default=0)
