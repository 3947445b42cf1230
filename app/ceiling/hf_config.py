"""Geometry from a Hugging Face config.json: parameters by role, times bits per weight."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from app.ceiling.geometry import (
    CHUNKED,
    MLA,
    Attention,
    Certainty,
    Geometry,
    Part,
    Source,
    Weights,
    group_alike,
    printable,
)
from app.ceiling.hf_blocks import FfnParameters, attention, attention_parameters, ffn_parameters
from app.ceiling.hf_keys import (
    EXPERTS,
    EXPERTS_USED,
    KNOWN_MODEL_TYPES,
    VOCABULARY,
    HfConfig,
    Missing,
    language_part,
    outer_keys,
    with_defaults,
)
from app.ceiling.hf_layers import Ffn, Layer, Mixer, layers
from app.ceiling.hf_quantization import DTYPE_BITS, EXPERT_FORMATS, Bits, Range, bits_by_role
from app.ceiling.hf_recurrent import recurrence, state_bytes
from app.core.errors import BadInput
from app.core.i18n import _

TIED_BY_DEFAULT = ("gemma", "cohere", "gpt2", "falcon", "bloom", "opt", "lfm2", "recurrent_gemma")
FOUR_NORMS = ("gemma2", "gemma3", "gemma4")


@dataclass(frozen=True, slots=True)
class Parameters:
    """Number of weights of the whole model by role."""

    mixer: int
    ffn: int
    routed: int
    small: int
    """Norms and routers."""
    head: int
    looked_up: int

    def part(self, *roles: tuple[str, float]) -> Part:
        """Adds up roles, each at its bits per weight."""
        total = Part()
        for role, bits in roles:
            total += Part.of(getattr(self, role), bits)
        return total


def from_config(document: Mapping[str, Any], bits: float | None = None) -> Geometry:
    """Reads the geometry of a config.json; `bits` of each weight, or None for what the config says. Raises BadInput."""
    inner = with_defaults(language_part(document))
    config = HfConfig(inner)
    try:
        plan, assumptions = layers(config)
    except Missing as error:
        raise BadInput(_("This is not the config.json of a language model: it has no {key}.", key=error)) from error
    attending, state = _cache(config, plan, assumptions)
    fewest, most, experts = _weights(document, config, plan, bits, assumptions)
    if attending and any(group.v_elements == 0 and group.k_elements for group in attending):
        assumptions.append(_(MLA))
    if attending and any(group.chunk for group in attending):
        assumptions.append(_(CHUNKED))
    if config.experts_used > config.experts > 0:
        raise BadInput(
            _(
                "It states that a token uses {used} of {experts} experts.",
                used=config.experts_used,
                experts=config.experts,
            )
        )
    not_understood = _not_understood(document, config)
    return Geometry(
        source=Source.CONFIG,
        architecture=printable(config.model_type or _architecture(document)),
        weights=fewest,
        attention=attending,
        blocks=len(plan),
        state_bytes=state,
        experts_total=experts[0],
        experts_used=experts[1],
        expert_blocks=tuple(index for index, layer in enumerate(plan) if layer.ffn in (Ffn.ROUTED, Ffn.BOTH)),
        assumptions=tuple(assumptions),
        certainty=Certainty.ESTIMATE if not_understood or fewest is None else Certainty.BOUND,
        not_understood=not_understood,
        weights_at_most=most,
    )


def _not_understood(document: Mapping[str, Any], config: HfConfig) -> tuple[str, ...]:
    keys = [] if config.model_type in KNOWN_MODEL_TYPES else ["model_type"]
    types = {"torch_dtype": DTYPE_BITS, "dtype": DTYPE_BITS, "expert_dtype": EXPERT_FORMATS}
    for name, understood in types.items():
        if str(config.values.get(name)).lower().removeprefix("torch.") in understood:
            config.understand(name)
    keys += config.not_understood()
    if config.count("zero_expert_num", default=0):
        keys.append("zero_expert_num")  # how many of the experts used cost nothing differs from token to token
    outer = HfConfig(outer_keys(document, config.values), used=set(config.used))
    if document.keys() != config.values.keys():
        keys += outer.not_understood()
    return tuple(printable(key) for key in dict.fromkeys(keys))


def _cache(config: HfConfig, plan: Sequence[Layer], assumptions: list[str]) -> tuple[tuple[Attention, ...] | None, int]:
    """What the layers cache, and the bytes of their states."""
    try:
        groups = [
            group
            for index, layer in enumerate(plan)
            if (group := attention(config.at(index), layer)) is not None
            for _copy in range(sublayers(config))
        ]
        return group_alike(groups), sum(state_bytes(config.at(index), layer) for index, layer in enumerate(plan))
    except Missing as error:
        assumptions.append(_("config.json has no {key}, so KV cache and state are unknown and left out", key=error))
        return None, 0


def sublayers(config: HfConfig) -> int:
    """How often a layer attends: LongCat's layers attend twice."""
    return 2 if config.is_of("longcat_flash") else 1


def _weights(
    document: Mapping[str, Any], config: HfConfig, plan: Sequence[Layer], bits: float | None, assumptions: list[str]
) -> tuple[Weights | None, Weights | None, tuple[int, int]]:
    """The fewest bytes and the most, None where unknown; and experts in all and used."""
    routed = any(layer.ffn in (Ffn.ROUTED, Ffn.BOTH) for layer in plan)
    try:
        if config.experts_used and not config.experts:
            raise Missing(EXPERTS[0])
        ffns = [ffn_parameters(config.at(index), layer) for index, layer in enumerate(plan)]
        parameters = _parameters(config, plan, ffns)
        roles = bits_by_role(document, bits)
    except Missing as error:
        if str(error) == EXPERTS_USED[0]:
            assumptions.insert(
                0,
                _(
                    "how many of its {experts} experts a token uses is unknown, so the bytes read are unknown: type "
                    "the active parameters",
                    experts=config.experts,
                ),
            )
        else:
            assumptions.insert(0, _("config.json has no {key}, so the weights are unknown", key=error))
        return None, None, (config.experts if routed else 0, 0)
    assumptions.append(roles.words)
    is_tied = config.flag(
        "tie_word_embeddings", default=config.flag("tie_embedding", default=config.is_of(*TIED_BY_DEFAULT))
    )
    fewest = _at(parameters, roles, is_tied, fewest=True)
    most = _at(parameters, roles, is_tied, fewest=False)
    return fewest, most if most != fewest else None, _experts(ffns)


def _experts(ffns: Sequence[FfnParameters]) -> tuple[int, int]:
    """Experts in all and used: of a layer where all layers are alike, else summed, by size where sizes differ."""
    routed = [ffn for ffn in ffns if ffn.experts]
    if len({(ffn.experts, ffn.experts_used, ffn.of_expert) for ffn in routed}) <= 1:
        return (routed[0].experts, routed[0].experts_used) if routed else (0, 0)
    unit = gcd(*(ffn.of_expert for ffn in routed)) or 1
    total = sum(ffn.experts * ffn.of_expert // unit for ffn in routed)
    return total, sum(ffn.experts_used * ffn.of_expert // unit for ffn in routed)


def _at(parameters: Parameters, roles: Bits, is_tied: bool, fewest: bool) -> Weights:
    def of(bits: Range) -> float:
        return bits.fewest if fewest else bits.most

    dense = parameters.part(("mixer", of(roles.mixer)), ("ffn", of(roles.ffn)), ("small", of(roles.small)))
    unread = parameters.looked_up + (0 if is_tied else parameters.head)
    return Weights(
        dense=dense,
        routed=Part.of(parameters.routed, of(roles.routed)),
        head=Part.of(parameters.head, of(roles.head)),
        unread=Part.of(unread, of(roles.table)),
    )


def _parameters(config: HfConfig, plan: Sequence[Layer], ffns: Sequence[FfnParameters]) -> Parameters:
    mixer = sum(_mixer_parameters(config.at(index), layer) for index, layer in enumerate(plan))
    ffn, small = sum(ffn_layer.dense for ffn_layer in ffns), sum(ffn_layer.router for ffn_layer in ffns)
    hidden, vocabulary = config.hidden, config.count(*VOCABULARY)
    for layer in plan:
        norms = 4 if config.is_of(*FOUR_NORMS) else (layer.mixer is not Mixer.NONE) + (layer.ffn is not Ffn.NONE)
        small += norms * hidden
    small += hidden
    per_layer, looked_up = _per_layer_inputs(config, vocabulary, len(plan))
    if streams := config.count("hc_mult", default=0):
        mixer += 2 * len(plan) * (2 + streams) * streams * streams * hidden
    config.understand("hc_sinkhorn_iters", "hc_eps")
    return Parameters(
        mixer, ffn + per_layer, sum(ffn_layer.routed for ffn_layer in ffns), small, hidden * vocabulary, looked_up
    )


def _per_layer_inputs(config: HfConfig, vocabulary: int, blocks: int) -> tuple[int, int]:
    """Weights of Gemma's embeddings for each layer: those that are read, and those only looked up."""
    per_layer, hidden = config.count("hidden_size_per_layer_input", default=0), config.hidden
    rows = config.count("vocab_size_per_layer_input", default=vocabulary)
    dense = blocks * (3 * hidden * per_layer + hidden) + per_layer if per_layer else 0
    dense += 2 * blocks * hidden * config.count("laurel_rank", default=0)
    dense += 2 * max(config.count("altup_num_inputs", default=1) - 1, 0) * hidden**2
    return dense, rows * per_layer * blocks


def _mixer_parameters(config: HfConfig, layer: Layer) -> int:
    total = 0
    if group := attention(config, layer):
        total += attention_parameters(config, layer, group) * sublayers(config)
    if recurrent := recurrence(config, layer):
        total += recurrent.parameters(config.hidden)
    return total


def _architecture(document: Mapping[str, Any]) -> str:
    names = document.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""
