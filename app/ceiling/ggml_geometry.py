"""Geometry from ggml's own names: the key-values and the tensor table of a GGUF file, which Ollama repeats as JSON."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from app.ceiling.geometry import (
    CHUNKED,
    MLA,
    SHARED_KV,
    STATE_BYTES,
    Attention,
    Certainty,
    Geometry,
    Part,
    Source,
    Weights,
    group_alike,
    printable,
    slides_by_default,
    slides_by_period,
)
from app.ceiling.ggml_keys import Keys
from app.ceiling.gguf import Header, Tensor, read_header
from app.ceiling.named_totals import with_totals_checked
from app.core.errors import BadInput
from app.core.i18n import _

_BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
_OTHER_PARTS = re.compile(r"(v|a|mm|resampler|enc|mtp)\.|blk\.\d+\.vis_")
_LOOK_UPS = re.compile(r"(token_embd|per_layer_token_embd|position_embd|token_types)\.weight")
_ROUTED = re.compile(r"ffn_(gate|up|down|gate_up)(_exps|_chexps|\.\d+)\.")
_ATTENDS = re.compile(r"attn_(q|q_b|k|kv_a_mqa|kv_b|k_b)\.weight")
LLAMA4_CHUNK = 8192
"""The chunk of Llama 4, which its files do not state."""
_RECURRENT = re.compile(r"ssm_|time_mix_|shortconv\.")


def from_file(path: Path, source: Source = Source.GGUF) -> Geometry:
    """Reads the geometry of a GGUF model, all its shards together. Raises BadInput."""
    header = read_header(path)
    try:
        file_geometry = geometry(header, source)
    except BadInput as error:
        raise BadInput(_("{name}: {error}", name=path.name, error=error)) from error
    labels = [header.metadata.get(f"general.{key}") for key in ("name", "size_label")]
    return with_totals_checked(file_geometry, labels, header.metadata.get("general.parameter_count"))


def geometry(header: Header, source: Source) -> Geometry:
    """Makes a geometry of key-values and tensor table. Raises BadInput where they describe no language model."""
    keys = Keys(header.metadata)
    blocks = keys.blocks
    by_block = _names_by_block(header.tensors)
    predictors = _predictor_blocks(keys, by_block)
    own_blocks = [index for index in range(blocks) if index not in predictors]
    layers = _Layers(keys, by_block if header.tensors else None)
    assumptions = list(_unknown_types(header.tensors))
    attention = [layer for index in own_blocks if (layer := layers.attention(index)) is not None]
    state_bytes = sum(layers.state_bytes(index) for index in own_blocks)
    weights = _weights(header.tensors, predictors, blocks) if header.tensors else None
    total, used = keys.number("expert_count"), keys.number("expert_used_count")
    if weights and weights.routed.n_bytes and not total:
        raise BadInput(_("it has routed experts, but does not state how many."))
    if used > total:
        raise BadInput(_("it states that a token uses {used} of {total} experts.", used=used, total=total))
    no_weights_reason = (
        missing_parts(keys, by_block, own_blocks, {tensor.name for tensor in header.tensors}) if header.tensors else ""
    )
    if total and not used:
        no_weights_reason = _(
            "how many of its {experts} experts a token uses is unknown, so the bytes read are unknown: type "
            "the active parameters",
            experts=total,
        )
    not_understood = keys.not_understood()
    return Geometry(
        source=source,
        architecture=printable(keys.architecture),
        weights=None if no_weights_reason else weights,
        attention=group_alike(attention),
        blocks=len(own_blocks),
        state_bytes=state_bytes,
        experts_total=total,
        experts_used=used,
        expert_blocks=tuple(index for index in own_blocks if any(map(_ROUTED.match, by_block.get(index, ())))),
        assumptions=(*([no_weights_reason] if no_weights_reason else []), *assumptions, *layers.assumptions),
        certainty=Certainty.ESTIMATE if not_understood else Certainty.BOUND,
        not_understood=not_understood,
    )


def _unknown_types(tensors: Iterable[Tensor]) -> list[str]:
    """Returns assumptions about tensors whose number format only a fork knows."""
    names = sorted({tensor.type_name for tensor in tensors if tensor.is_sized_by_place})
    if not names:
        return []
    return [
        _(
            "tensors of {types}, which Roofmark does not know, count the bytes up to the next tensor",
            types=", ".join(names[:8]),
        )
    ]


class _Layers:
    """What each layer caches and keeps. `by_block` is None where the tensors are unknown."""

    def __init__(self, keys: Keys, by_block: Mapping[int, Sequence[str]] | None) -> None:
        self._keys, self._by_block = keys, by_block
        self.assumptions: list[str] = []
        keys.understand(*(f"attention.{part}_length_{kind}" for part in ("key", "value") for kind in ("mla", "swa")))
        keys.understand("full_attention_interval")  # where there are tensors, they say which layers attend
        self._may_see_all = False
        self._windows = self._window_of_each()
        self._shared_from = keys.blocks - keys.number("attention.shared_kv_layers")
        if self._shared_from < keys.blocks:
            self.assumptions.append(_(SHARED_KV))
        if keys.number("attention.kv_lora_rank"):
            self.assumptions.append(_(MLA))

    def attention(self, index: int) -> Attention | None:
        """What a layer caches, by the keys `attention.*`; None where it has no attention."""
        keys = self._keys
        heads = keys.of_layer("attention.head_count", index)
        kv_heads = keys.of_layer("attention.head_count_kv", index, default=heads)
        if not heads or not kv_heads or not self._attends(index):
            return None
        window, chunk = self._windows[index], None
        if window is not None and keys.architecture == "llama4":
            window, chunk = None, window
        own_length = keys.number("embedding_length") // heads
        qk_dim = keys.of_layer("attention.key_length", index, default=own_length)
        v_dim = keys.of_layer("attention.value_length", index, default=own_length)
        if latent := keys.number("attention.kv_lora_rank"):
            k_elements, v_elements = latent + keys.number("rope.dimension_count"), 0
            qk_dim = keys.number("attention.key_length_mla", qk_dim)
            v_dim = keys.number("attention.value_length_mla", v_dim)
        else:
            if window is not None or chunk is not None:
                qk_dim = keys.of_layer("attention.key_length_swa", index, default=qk_dim)
                v_dim = keys.of_layer("attention.value_length_swa", index, default=v_dim)
            k_elements, v_elements = kv_heads * qk_dim, kv_heads * v_dim
        ratio = keys.of_layer("attention.compress_ratios", index) or None
        if keys.get("attention.compress_ratios") is not None:  # K and V are the same entry
            v_elements = 0
        if index >= self._shared_from:
            k_elements = v_elements = 0
        return Attention(
            1, k_elements, v_elements, heads, qk_dim, v_dim, window, chunk, self._top_k(ratio), ratio, self._may_see_all
        )

    def _top_k(self, ratio: int | None) -> int | None:
        """Sparse attention. Where caches are compressed, neither whole ones nor the most compressed are picked from."""
        most = self._keys.number("attention.compress_ratios")
        if most and ratio in (None, most):
            return None
        return self._keys.number("attention.indexer.top_k") or None

    def _attends(self, index: int) -> bool:
        if self._by_block is not None:
            names = self._by_block.get(index, ())
            fused = any(name.startswith("attn_qkv.") for name in names) and not self._is_recurrent(index)
            return fused or any(_ATTENDS.match(name) for name in names)
        interval = self._keys.number("full_attention_interval")
        return not interval or (index + 1) % interval == 0

    def _is_recurrent(self, index: int) -> bool:
        if self._by_block is not None:
            return any(_RECURRENT.match(name) for name in self._by_block.get(index, ()))
        has_state = any(self._keys.number(key) for key in ("ssm.state_size", "wkv.head_size", "shortconv.l_cache"))
        return has_state and (self._keys.of_layer("attention.head_count_kv", index) == 0 or not self._attends(index))

    def state_bytes(self, index: int) -> int:
        """The recurrent state of a layer, as llama.cpp keeps it: what its convolution looks back at, and the rest."""
        if not self._is_recurrent(index):
            return 0
        number = self._keys.number
        width, heads = number("embedding_length"), self._keys.of_layer("attention.head_count", index)
        if head_size := number("wkv.head_size"):
            elements = number("token_shift_count", 2) * width + width * head_size
        elif cached := number("shortconv.l_cache"):
            elements = width * (cached - 1)
        else:
            history = max(number("ssm.conv_kernel") - 1, 0)
            if head_dim := number("kda.head_dim"):
                elements = 3 * history * heads * head_dim + heads * head_dim**2
            else:
                inner, state = number("ssm.inner_size"), number("ssm.state_size")
                elements = history * (inner + 2 * number("ssm.group_count") * state) + inner * state
        return elements * STATE_BYTES

    def _window_of_each(self) -> list[int | None]:
        keys, blocks = self._keys, self._keys.blocks
        window = keys.number("attention.sliding_window") or keys.number("attention.chunk_size")
        if keys.architecture == "llama4":
            window = window or LLAMA4_CHUNK
            self.assumptions.append(_(CHUNKED))
        pattern = keys.get("attention.sliding_window_pattern")
        if not window:
            return [None] * blocks
        if keys.get("attention.compress_ratios") is not None:
            return [window] * blocks
        if isinstance(pattern, list):
            if len(pattern) < blocks:
                raise BadInput(
                    _(
                        "{name} has {count:,} entries, fewer than there are layers.",
                        name="sliding_window_pattern",
                        count=len(pattern),
                    )
                )
            return [window if slides else None for slides in pattern[:blocks]]
        if pattern is None:
            slides, self._may_see_all, sentence = slides_by_default(keys.architecture, window, blocks)
            self.assumptions.append(sentence)
        else:
            slides = slides_by_period(keys.number("attention.sliding_window_pattern"), blocks)
        return [window if is_sliding else None for is_sliding in slides]


def _names_by_block(tensors: Iterable[Tensor]) -> dict[int, list[str]]:
    by_block: dict[int, list[str]] = {}
    for tensor in tensors:
        if match := _BLOCK.fullmatch(tensor.name):
            by_block.setdefault(int(match[1]), []).append(match[2])
    return by_block


def _predictor_blocks(keys: Keys, by_block: Mapping[int, Sequence[str]]) -> set[int]:
    """Blocks that predict further tokens (MTP): those that own `nextn` tensors, else the last ones by their number."""
    owners = {index for index, names in by_block.items() if any(name.startswith("nextn.") for name in names)}
    if owners:
        return owners
    count = keys.number("nextn_predict_layers")
    return set(range(max(keys.blocks - count, 0), keys.blocks))


def _weights(tensors: Sequence[Tensor], predictors: set[int], blocks: int) -> Weights:
    dense = routed = head = unread = Part()
    is_tied = all(tensor.name != "output.weight" for tensor in tensors)
    for tensor in tensors:
        part = Part(tensor.elements, tensor.n_bytes)
        block = _BLOCK.fullmatch(tensor.name)
        if _OTHER_PARTS.match(tensor.name):
            continue
        if block and (int(block[1]) in predictors or int(block[1]) >= blocks):
            continue
        if tensor.name == "output.weight" or (is_tied and tensor.name == "token_embd.weight"):
            head += part
        elif _LOOK_UPS.fullmatch(tensor.name):
            unread += part
        elif block and _ROUTED.match(block[2]):
            routed += part
        else:
            dense += part
    return Weights(dense, routed, head, unread)


# --- whether the file holds all of its model -------------------------------------------------------------------------
# A file that lacks tensors reads fewer bytes, which makes it no faster.

_MIXER = re.compile(r"attn_(q|k|v|qkv|kv_a|kv_b|k_b|out|output)|ssm_|time_mix_|shortconv\.")
_FFN = re.compile(r"ffn_(gate|up|down|gate_up)|channel_mix_")
SHOWN_LAYERS = 6


class Parts(NamedTuple):
    """Whether a block has tensors of a mixer, and of an FFN."""

    mixer: bool
    ffn: bool


def missing_parts(keys: Keys, by_block: Mapping[int, Sequence[str]], blocks: Sequence[int], names: set[str]) -> str:
    """Says which tensors are missing; empty where the model is whole."""
    if not any(name.startswith("token_embd") for name in names):
        return _("the file has no token_embd.weight, so it is not a whole model, and there is no ceiling")
    parts = {
        index: Parts(*(any(part.match(name) for name in by_block.get(index, ())) for part in (_MIXER, _FFN)))
        for index in blocks
    }
    has_both = 2 * sum(all(block_parts) for block_parts in parts.values()) > len(parts)
    lacking = [
        index
        for index, block_parts in parts.items()
        if not any(block_parts)
        or _is_half(by_block.get(index, ()))
        or (
            has_both
            and not block_parts.mixer
            and _expects(keys, index, "attention.head_count", "attention.head_count_kv")
        )
        or (has_both and not block_parts.ffn and _expects(keys, index, "feed_forward_length"))
    ]
    if not lacking:
        return ""
    return _(
        "{count} of {blocks} layers lack tensors ({layers}): the file is incomplete, so there is no ceiling",
        count=len(lacking),
        blocks=len(blocks),
        layers=", ".join(map(str, lacking[:SHOWN_LAYERS])) + (" …" if len(lacking) > SHOWN_LAYERS else ""),
    )


def _expects(keys: Keys, index: int, *names: str) -> bool:
    """Whether a list expects something of a layer: a list with nothing for a layer says that it has none."""
    values = (keys.metadata.get(f"{keys.architecture}.{name}") for name in names)
    return not any(isinstance(value, list) and index < len(value) and value[index] == 0 for value in values)


def _is_half(names: Sequence[str]) -> bool:
    """Whether only one of input and output is there."""

    def has(pattern: str) -> bool:
        return any(re.match(pattern, name) for name in names)

    return (
        (has(r"ffn_(up|gate_up)(\.weight|_exps|\.\d)") != has(r"ffn_down(\.weight|_exps|\.\d)"))
        or (has(r"attn_(q|qkv|q_b)\.weight") and not has(r"attn_out|ssm_"))
        or (has(r"attn_k\.weight") and not has(r"attn_(q|qkv)"))
    )
