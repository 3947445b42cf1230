"""Whether a GGUF file holds all of its model: a file that lacks tensors reads fewer bytes, which makes it no faster."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.ceiling.ggml_keys import Keys
from app.core.i18n import N_

_MIXER = re.compile(r"attn_(q|k|v|qkv|kv_a|kv_b|k_b|out|output)|ssm_|time_mix_|shortconv\.")
_FFN = re.compile(r"ffn_(gate|up|down|gate_up)|channel_mix_")
SHOWN_LAYERS = 6


class Parts(NamedTuple):
    """What a block has tensors of."""

    mixer: bool
    ffn: bool


def missing_parts(keys: Keys, by_block: Mapping[int, Sequence[str]], blocks: Sequence[int], names: set[str]) -> str:
    """A sentence about what is missing; empty where the model is whole."""
    if not any(name.startswith("token_embd") for name in names):
        return N_("the file has no token_embd.weight, so it is not a whole model, and there is no ceiling")
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
    return N_(
        "{count} of {blocks} layers lack tensors ({layers}): the file is incomplete, so there is no ceiling",
        count=len(lacking),
        blocks=len(blocks),
        layers=", ".join(map(str, lacking[:SHOWN_LAYERS])) + (" …" if len(lacking) > SHOWN_LAYERS else ""),
    )


def _expects(keys: Keys, index: int, *names: str) -> bool:
    """A list that gives a layer none of something says that it has none."""
    values = (keys.metadata.get(f"{keys.architecture}.{name}") for name in names)
    return not any(isinstance(value, list) and index < len(value) and value[index] == 0 for value in values)


def _is_half(names: Sequence[str]) -> bool:
    """What goes in without what comes out, or the reverse."""

    def has(pattern: str) -> bool:
        return any(re.match(pattern, name) for name in names)

    return (
        (has(r"ffn_(up|gate_up)(\.weight|_exps|\.\d)") != has(r"ffn_down(\.weight|_exps|\.\d)"))
        or (has(r"attn_(q|qkv|q_b)\.weight") and not has(r"attn_out|ssm_"))
        or (has(r"attn_k\.weight") and not has(r"attn_(q|qkv)"))
    )
