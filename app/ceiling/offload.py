"""Computes which share of each role of a model is in system memory, from the settings."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from app.ceiling.bytes_per_step import Step
from app.ceiling.geometry import Geometry
from app.core.i18n import _

EXPERTS = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
"""A block's routed experts by llama.cpp's names, taken as equally large."""
_DENSE = (
    "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down",
    "ffn_gate_inp", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp",
)  # fmt: skip
ALL_LAYERS = 10**6
"""More than any model has."""
_LONGEST_PATTERN = 500
_MOST_REPETITIONS = 3
_MOST_QUANTIFIERS = 5
"""The most quantifiers of one pattern, with those that repeat nothing: each multiplies the ways to match a name."""
_MOST_PATTERNS = 40
_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]")
_GROUP_START = re.compile(r"\(\?(?:P?<[^>]*>|P=|<?[=!]|[aiLmsux-]*:?)")
_INNERMOST = re.compile(r"\(([^()]*)\)([*+{]?)")


@dataclass(frozen=True)
class Offload:
    """What an engine leaves in system memory by its settings; None where they do not state it."""

    gpu_layers: int | None = None
    n_cpu_moe: int | None = None
    """The first blocks whose routed experts are in system memory."""
    override_tensor: str = ""
    gpu_share: float | None = None
    """The share of the whole model in the memory of cards, 0 to 1, as Ollama reports it."""
    gpu_weight_bytes: int | None = None
    """The bytes of weights in the memory of cards, from an engine's log."""
    is_kv_in_ram: bool = False

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> "Offload":
        """Reads the settings, by the keys of `app.core.config_settings`."""
        share, mib = _count(settings, "gpu_share"), _count(settings, "gpu_weight_mib")
        has_no_experts_on_cards = str(settings.get("cpu_moe", "")).lower() in ("on", "true", "1", "yes")
        return cls(
            gpu_layers=_count(settings, "gpu_layers"),
            n_cpu_moe=ALL_LAYERS if has_no_experts_on_cards else _count(settings, "n_cpu_moe"),
            override_tensor=str(settings.get("override_tensor") or ""),
            gpu_share=None if share is None else min(share, 100) / 100,
            gpu_weight_bytes=None if mib is None else mib << 20,
            is_kv_in_ram=str(settings.get("kv_offload", "on")).lower() in ("off", "false", "0"),
        )

    @property
    def is_observed(self) -> bool:
        """Whether the engine itself reports how much is on cards, so that it surely fits them."""
        return self.gpu_share is not None or self.gpu_weight_bytes is not None


def _count(settings: Mapping[str, object], key: str) -> int | None:
    value = settings.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


@dataclass(frozen=True)
class RamShares:
    """The share of each role's bytes in system memory, 0 to 1."""

    dense: float = 0.0
    routed: float = 0.0
    head: float = 0.0
    sequences: float = 0.0
    """The share of KV cache and recurrent state."""

    def n_bytes(self, step: Step) -> float:
        """Returns the bytes of a step that are read from system memory."""
        return (
            step.dense_bytes * self.dense
            + step.routed_bytes * self.routed
            + step.head_bytes * self.head
            + step.sequence_bytes * self.sequences
        )


@dataclass(frozen=True)
class InRam:
    """The parts in system memory. When the same settings can be read in several ways, the reading with the fewest bytes
    counts."""

    readings: tuple[RamShares, ...] = (RamShares(),)
    sentences: tuple[str, ...] = ()

    def n_bytes(self, step: Step) -> float:
        """Returns the bytes of a step that are read from system memory, by the reading with the fewest."""
        return min(shares.n_bytes(step) for shares in self.readings)

    def held_bytes(self, geometry: Geometry, sequence_bytes: int) -> float:
        """Returns the bytes of weights that a step may read, of KV cache and state: the most that any reading holds in
        system memory."""
        weights = geometry.weights
        assert weights is not None
        return max(
            weights.dense.n_bytes * shares.dense
            + weights.routed.n_bytes * shares.routed
            + weights.head.n_bytes * shares.head
            + sequence_bytes * shares.sequences
            for shares in self.readings
        )


def in_ram(geometry: Geometry, offload: Offload) -> InRam:
    """Computes which shares of a model are in system memory. Layers are taken as equally large."""
    blocks = geometry.blocks
    sentences: list[str] = []
    if offload.gpu_share is not None:
        left = 1 - offload.gpu_share
        if left:
            percent = round(100 * offload.gpu_share)
            sentences.append(_("{percent} % of the model is in GPU memory, the rest in system memory", percent=percent))
        return InRam((RamShares(left, left, left, left),), tuple(sentences))
    if not blocks:
        if offload.gpu_layers == 0:
            return InRam((RamShares(1, 1, 1, 1),))
        if offload.n_cpu_moe or offload.override_tensor or offload.is_kv_in_ram or 0 < (offload.gpu_layers or 0) < 99:
            sentences.append(_("the model's layers are unknown, so all of them are taken to be on the device"))
        return InRam(sentences=tuple(sentences))
    readings = _readings(blocks, geometry.expert_blocks, offload)
    if offload.gpu_weight_bytes is not None:
        readings = tuple(_as_logged(geometry, offload.gpu_weight_bytes, shares) for shares in readings)
    return InRam(readings, tuple(_words(geometry, offload)))


@lru_cache(maxsize=512)
def _readings(blocks: int, expert_blocks: tuple[int, ...], offload: Offload) -> tuple[RamShares, ...]:
    readings = [_shares(blocks, expert_blocks, offload, *reading) for reading in _layer_readings(offload, blocks)]
    return tuple(dict.fromkeys(readings))


def _layer_readings(offload: Offload, blocks: int) -> list[tuple[int, bool]]:
    """Returns how many of the first layers are in system memory, and whether the head is.

    Of N layers on cards one is the head in newer builds of llama.cpp; older ones moved it last.
    """
    layers = offload.gpu_layers
    if layers is None or layers >= blocks:
        return [(0, False)]
    if layers == 0:
        return [(blocks, True)]
    return [(blocks - layers, True), (blocks - layers + 1, False)]


def _shares(
    blocks: int, expert_blocks: tuple[int, ...], offload: Offload, layers_in_ram: int, is_head_in_ram: bool
) -> RamShares:
    overrides = _Overrides(offload.override_tensor)
    first_experts = max(layers_in_ram, offload.n_cpu_moe or 0)
    experts = [
        overrides.is_in_ram(f"blk.{index}.{name}.weight", index < first_experts)
        for index in expert_blocks or range(blocks)
        for name in EXPERTS
    ]
    dense = [overrides.is_block_in_ram(index, index < layers_in_ram) for index in range(blocks)]
    return RamShares(
        dense=sum(dense) / blocks,
        routed=sum(experts) / len(experts),
        head=float(overrides.is_in_ram("output.weight", is_head_in_ram)),
        sequences=1.0 if offload.is_kv_in_ram else layers_in_ram / blocks,
    )


def _as_logged(geometry: Geometry, gpu_bytes: int, shares: RamShares) -> RamShares:
    """Returns what is not on cards by the log: for a mixture of experts its experts first, else all roles alike.

    Look-up tables stay in system memory and are not read.
    """
    weights = geometry.weights
    if weights is None:
        return shares
    read_whole = weights.dense.n_bytes + weights.head.n_bytes
    left = max(0, read_whole + weights.routed.n_bytes - gpu_bytes)
    if not weights.routed.n_bytes:
        part = left / read_whole
        return RamShares(part, 0.0, part, shares.sequences)
    routed = min(1.0, left / weights.routed.n_bytes)
    rest = max(0, left - weights.routed.n_bytes) / read_whole
    return RamShares(rest, routed, rest, shares.sequences)


def _words(geometry: Geometry, offload: Offload) -> list[str]:
    blocks, sentences = geometry.blocks or 0, []
    if offload.gpu_layers is not None and 0 < offload.gpu_layers < blocks:
        sentences.append(
            _(
                "{on_cards} of {blocks} layers are on GPUs, the others in system memory; whether the head is one of "
                "them differs between builds, so what reads less from system memory counts",
                on_cards=offload.gpu_layers,
                blocks=blocks,
            )
        )
    if offload.n_cpu_moe is not None and not geometry.experts_total:
        sentences.append(_("the model has no routed experts, so none are in system memory"))
    elif offload.n_cpu_moe:
        sentences.append(
            _(
                "the routed experts of the first {layers} of {blocks} layers are in system memory",
                layers=min(offload.n_cpu_moe, blocks),
                blocks=blocks,
            )
        )
    if offload.override_tensor and geometry.experts_total:
        sentences.append(
            _(
                "{percent} % of the routed experts are in system memory by tensor overrides",
                percent=round(100 * _readings(blocks, geometry.expert_blocks, offload)[0].routed),
            )
        )
    if offload.is_kv_in_ram:
        sentences.append(_("the KV cache is in system memory"))
    if offload.gpu_weight_bytes is not None:
        sentences.append(_("how much of the weights is on GPUs comes from the server's log"))
    if unknown := _not_understood(offload.override_tensor, blocks):
        sentences.append(
            _(
                "not understood, so those tensors are taken to be on the device: {overrides}",
                overrides=", ".join(unknown),
            )
        )
    return sentences


class _Overrides:
    """`pattern=buffer` pairs as llama.cpp reads them: patterns are searched for in a tensor's name, and the first match
    wins."""

    def __init__(self, text: str) -> None:
        self.rules, _unknown = _parsed(text)

    def is_in_ram(self, name: str, otherwise: bool) -> bool:
        return next((is_ram for pattern, is_ram in self.rules if pattern.search(name)), otherwise)

    def is_block_in_ram(self, index: int, otherwise: bool) -> bool:
        """Whether all of a block's other weights are in system memory; the sizes of single ones are unknown."""
        if not self.rules:
            return otherwise
        return all(self.is_in_ram(f"blk.{index}.{name}.weight", otherwise) for name in _DENSE)


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[tuple[tuple[re.Pattern[str], bool], ...], tuple[str, ...]]:
    """Returns each pattern with whether it moves tensors to system memory, and what could not be understood."""
    rules: list[tuple[re.Pattern[str], bool]] = []
    unknown: list[str] = []
    for pair in filter(None, map(str.strip, text.split(","))):
        pattern, equals, buffer = pair.rpartition("=")
        if not equals or not pattern or not buffer or len(rules) >= _MOST_PATTERNS or not _is_harmless(pattern):
            unknown.append(pair)
            continue
        try:
            rules.append((re.compile(pattern), buffer.upper().startswith("CPU") or "HOST" in buffer.upper()))
        except re.error:  # no pattern: named among what is not understood
            unknown.append(pair)
    return tuple(rules), tuple(unknown)


def _is_harmless(pattern: str) -> bool:
    """Whether searching with a pattern takes little time, whoever wrote it: it has few repetitions, and no repeated
    group that contains a repetition or a choice, since such a group can match one text in too many ways."""
    if len(pattern) > _LONGEST_PATTERN:
        return False
    plain = re.sub(r"([*+?}])[?+]", r"\1", _GROUP_START.sub("(", _CLASS.sub("x", pattern)))
    if len(re.findall(r"[*+{]", plain)) > _MOST_REPETITIONS or len(re.findall(r"[*+?{]", plain)) > _MOST_QUANTIFIERS:
        return False
    while group := _INNERMOST.search(plain):
        if group[2] and set(group[1]) & set("|*+?{"):
            return False
        plain = plain[: group.start()] + group[1] + group[2] + plain[group.end() :]
    return True


@lru_cache(maxsize=64)
def _not_understood(text: str, blocks: int) -> tuple[str, ...]:
    """Returns invalid pairs, and patterns that move to system memory some, but not all, of what a block has besides
    routed experts: the size of that part is unknown."""
    rules, unknown = _parsed(text)

    def moves_a_part(pattern: re.Pattern[str], index: int) -> bool:
        moved = [bool(pattern.search(f"blk.{index}.{name}.weight")) for name in _DENSE]
        return any(moved) and not all(moved)

    partial = [
        pattern.pattern
        for pattern, is_ram in rules
        if is_ram and any(moves_a_part(pattern, index) for index in range(blocks))
    ]
    return tuple(dict.fromkeys((*unknown, *partial)))
