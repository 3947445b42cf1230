"""Geometry from ggml's own names: the key-values and the tensor table of a GGUF file, which Ollama repeats as JSON."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.ceiling.geometry import (
    MAX_BLOCKS,
    MLA,
    SHARED_KV,
    STATE_BYTES,
    Attention,
    Geometry,
    Part,
    Source,
    Weights,
    printable,
    together,
)
from app.ceiling.gguf import Header, Tensor, read_header
from app.ceiling.windows import slides_by_default, slides_by_period
from app.errors import BadInput
from app.i18n import _, marked

_BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
_OTHER_PARTS = re.compile(r"(v|a|mm|resampler|enc|mtp)\.|blk\.\d+\.vis_")
_LOOK_UPS = re.compile(r"(token_embd|per_layer_token_embd|position_embd|token_types)\.weight")
_ROUTED = re.compile(r"ffn_(gate|up|down|gate_up)(_exps|_chexps|\.\d+)\.")
_ATTENDS = re.compile(r"attn_(q|q_b|k|kv_a_mqa|kv_b|k_b)\.weight")
_RECURRENT = re.compile(r"ssm_|time_mix_|shortconv\.")


def from_file(path: Path, source: Source = Source.GGUF) -> Geometry:
    """The geometry of a GGUF model, all its shards together. Raises BadInput."""
    header = read_header(path)
    try:
        return geometry(header, source)
    except BadInput as error:
        raise BadInput(_("{name}: {error}", name=path.name, error=error)) from error


def geometry(header: Header, source: Source) -> Geometry:
    """Raises BadInput when the key-values describe no language model."""
    keys = Keys(header.metadata)
    blocks = keys.blocks
    by_block = _names_by_block(header.tensors)
    predictors = _predictor_blocks(keys, by_block)
    own = [index for index in range(blocks) if index not in predictors]
    layers = _Layers(keys, by_block if header.tensors else None)
    assumptions = []
    attention = [layer for index in own if (layer := layers.attention(index)) is not None]
    state_bytes = sum(layers.state_bytes(index) for index in own)
    weights = _weights(header.tensors, predictors, blocks) if header.tensors else None
    total, used = keys.number("expert_count"), keys.number("expert_used_count")
    if weights and weights.routed.n_bytes and not total:
        raise BadInput(_("there are routed experts, but not how many."))
    if total and not used:
        used = 1
        assumptions.append(marked("how many experts a token uses is unknown; the least possible, one, is counted"))
    if used > total:
        raise BadInput(_("a token is said to use {used} of {total} experts.", used=used, total=total))
    return Geometry(
        source=source,
        architecture=printable(keys.architecture),
        weights=weights,
        attention=together(attention),
        blocks=len(own),
        state_bytes=state_bytes,
        experts_total=total,
        experts_used=used,
        expert_blocks=tuple(index for index in own if any(map(_ROUTED.match, by_block.get(index, ())))),
        assumptions=(*assumptions, *layers.assumptions),
    )


@dataclass(frozen=True)
class Keys:
    """Key-values, read with doubt."""

    metadata: Mapping[str, Any]
    _numbers: dict[str, int | None] = field(default_factory=dict, init=False, compare=False)
    """What was found already: each layer asks anew, and a list may be long."""

    @property
    def architecture(self) -> str:
        name = self.metadata.get("general.architecture")
        if self.metadata.get("general.type", "model") != "model" or name == "clip":
            raise BadInput(_("this is not a language model but a part of one, such as a vision projector."))
        if not isinstance(name, str) or not name:
            raise BadInput(_("there is no general.architecture, so this is no language model."))
        return name

    @property
    def blocks(self) -> int:
        if not 0 < (blocks := self.number("block_count")) <= MAX_BLOCKS:
            raise BadInput(_("{blocks} blocks make no language model.", blocks=blocks))
        return blocks

    def get(self, key: str) -> Any:
        return self.metadata.get(f"{self.architecture}.{key}")

    def number(self, key: str, default: int = 0) -> int:
        """A count; of a list (one for each layer) the largest."""
        if key not in self._numbers:
            value = self.get(key)
            values = self._bounded(key, value) if isinstance(value, list) else [value]
            self._numbers[key] = max((self._checked(key, one) for one in values if one is not None), default=None)
        found = self._numbers[key]
        return default if found is None else found

    def of_layer(self, key: str, index: int, default: int = 0) -> int:
        """The same, where a list may give each layer its own."""
        value = self.get(key)
        if isinstance(value, list):
            if index >= len(value):
                raise BadInput(
                    _("{name} has {count:,} entries, fewer than there are layers.", name=key, count=len(value))
                )
            value = value[index]
        return default if value is None else self._checked(key, value)

    def _bounded(self, key: str, values: list[Any]) -> list[Any]:
        if len(values) > MAX_BLOCKS:
            raise BadInput(
                _("{name} has {count:,} entries, more than any model has layers.", name=key, count=len(values))
            )
        return values

    def _checked(self, key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
            raise BadInput(_("{name} is {value!r}, which is no count.", name=key, value=printable(str(value))))
        return value


class _Layers:
    """What each layer caches and keeps. `by_block` is None where the tensors are unknown."""

    def __init__(self, keys: Keys, by_block: Mapping[int, Sequence[str]] | None) -> None:
        self._keys, self._by_block = keys, by_block
        self.assumptions: list[str] = []
        self._windows = self._window_of_each()
        self._shared_from = keys.blocks - keys.number("attention.shared_kv_layers")
        if self._shared_from < keys.blocks:
            self.assumptions.append(SHARED_KV)
        if keys.number("attention.kv_lora_rank"):
            self.assumptions.append(MLA)

    def attention(self, index: int) -> Attention | None:
        keys = self._keys
        heads = keys.of_layer("attention.head_count", index)
        kv_heads = keys.of_layer("attention.head_count_kv", index, default=heads)
        if not heads or not kv_heads or not self._attends(index):
            return None
        window = self._windows[index]
        own_length = keys.number("embedding_length") // heads
        qk_dim = keys.of_layer("attention.key_length", index, default=own_length)
        v_dim = keys.of_layer("attention.value_length", index, default=own_length)
        if latent := keys.number("attention.kv_lora_rank"):
            k_elements, v_elements = latent + keys.number("rope.dimension_count"), 0
            qk_dim = keys.number("attention.key_length_mla", qk_dim)
            v_dim = keys.number("attention.value_length_mla", v_dim)
        else:
            if window is not None:
                qk_dim = keys.of_layer("attention.key_length_swa", index, default=qk_dim)
                v_dim = keys.of_layer("attention.value_length_swa", index, default=v_dim)
            k_elements, v_elements = kv_heads * qk_dim, kv_heads * v_dim
        if index >= self._shared_from:
            k_elements = v_elements = 0
        return Attention(1, k_elements, v_elements, heads, qk_dim, v_dim, window)

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
        window = keys.number("attention.sliding_window")
        if not window:
            return [None] * blocks
        pattern = keys.get("attention.sliding_window_pattern")
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
            slides, sentence = slides_by_default(keys.architecture, window, blocks)
            self.assumptions.append(sentence)
        else:
            slides = slides_by_period(keys.number("attention.sliding_window_pattern"), blocks)
        return [window if one else None for one in slides]


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
