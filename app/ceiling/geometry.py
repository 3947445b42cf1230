"""What must be known of a model to compute the bytes and operations of one token, and which of its layers slide.

A sliding layer sees no more than a window of the context.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from app.core.errors import BadInput
from app.core.i18n import N_, _

MAX_BLOCKS = 2_000
SHOWN_KEYS = 8
STATE_BYTES = 4
"""Bytes of an element of recurrent state: engines keep it in float32."""
SHARED_KV = N_("layers that use another layer's KV cache are counted as reading nothing more")
MLA = N_("MLA: the KV cache holds one latent and one rope part for each token")
CHUNKED = N_("chunked attention counts a whole chunk once one is full; right after a chunk begins, fewer are read")
NO_ACCOUNT = N_(
    "an older version of Roofmark read the model's file and did not record the keys that it did not understand"
)


class Source(StrEnum):
    """The source of a geometry."""

    GGUF = "gguf"
    CONFIG = "config.json"
    OLLAMA = "ollama"
    LLAMA_CPP = "llama.cpp"
    TYPED = "typed"


class Certainty(StrEnum):
    """What a speed computed from a geometry is: a bound or an estimate (docs/ceilings.md, Bound or estimate)."""

    BOUND = "bound"
    """Everything that shapes bytes was understood, so hardware cannot beat it."""
    ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True)
class Part:
    """A number of a model's weights, and their bytes."""

    parameters: int = 0
    n_bytes: int = 0

    def __add__(self, other: "Part") -> "Part":
        return Part(self.parameters + other.parameters, self.n_bytes + other.n_bytes)

    def scaled(self, factor: float) -> "Part":
        """Returns the same parameters in `factor` times the bytes."""
        return Part(self.parameters, round(self.n_bytes * factor))

    @classmethod
    def of(cls, parameters: float, bits: float) -> "Part":
        """Makes a part of so many parameters at so many bits each."""
        return cls(round(parameters), round(parameters * bits / 8))


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights by their use in a step, without vision and audio parts and blocks for further tokens (MTP)."""

    dense: Part
    """Read whole in each step: attention, dense and shared FFN, norms, routers."""
    routed: Part = Part()
    """All routed experts, of which a token uses some."""
    head: Part = Part()
    """The output head; a tied embedding table is the head."""
    unread: Part = Part()
    """Held in memory but not read in a step: tables that are only looked up, or experts where only totals are known."""

    @property
    def total(self) -> Part:
        """All weights that are held in memory."""
        return self.dense + self.routed + self.head + self.unread

    @property
    def bits_per_weight(self) -> float:
        """Mean bits per weight of all parts."""
        return self.total.n_bytes * 8 / self.total.parameters

    def scaled(self, factor: float) -> "Weights":
        """Returns the same parameters in `factor` times the bytes."""
        return Weights(*(part.scaled(factor) for part in (self.dense, self.routed, self.head, self.unread)))


@dataclass(frozen=True, slots=True)
class Attention:
    """Layers with alike attention, and what one of them caches."""

    layers: int
    k_elements: int
    """Elements that the K cache gains with each token, in one layer; the latent and rope part of MLA."""
    v_elements: int
    """The same of the V cache; 0 where V is a view of K (MLA). Both are 0 where another layer's cache is used."""
    q_heads: int
    qk_dim: int
    """The width per query head, in prefill."""
    v_dim: int
    window: int | None = None
    """The number of tokens that these layers see; None: all."""
    chunk: int | None = None
    """Chunked attention: a token sees those since the last multiple of this many tokens."""
    top_k: int | None = None
    """Sparse attention: the number of entries that a layer picks of those it sees."""
    compression: int | None = None
    """The number of tokens that share one cached entry; the window's entries are single tokens."""
    may_see_all: bool = False
    """Whether it is unknown which layers slide: this window is then the least that they may read."""

    def entries(self, context: int) -> int:
        """Cached entries that one of these layers reads with so many tokens in the cache."""
        if self.compression is not None:
            compressed = context // self.compression
            return min(context, self.window or 0) + min(compressed, self.top_k or compressed)
        visible = min(context, self.window or context)
        return min(visible, self.chunk or visible, self.top_k or visible)


@dataclass(frozen=True, slots=True)
class Geometry:
    """What shapes the bytes and operations of a token: weights by role, attention layers, states, experts."""

    source: Source
    architecture: str
    weights: Weights | None
    """None: unknown, and the first of the `assumptions` says why."""
    attention: tuple[Attention, ...] | None
    """Layers with attention, alike ones together. None: unknown."""
    blocks: int | None = None
    state_bytes: int = 0
    """Recurrent state of one sequence (SSM, linear attention, short convolutions)."""
    experts_total: int = 0
    experts_used: int = 0
    expert_blocks: tuple[int, ...] = ()
    """Blocks that have routed experts, counted from 0; empty: unknown."""
    assumptions: tuple[str, ...] = ()
    """The assumptions in words."""
    certainty: Certainty = Certainty.BOUND
    not_understood: tuple[str, ...] = ()
    """Keys that shape bytes and were seen, but are not understood."""
    weights_at_most: Weights | None = None
    """The most bytes when files of one quantization differ; `weights` are then the fewest."""

    def __post_init__(self) -> None:
        """Raises BadInput for weights of which a token reads nothing: they would have no ceiling."""
        if self.weights is not None:
            read_part = self.weights.dense + self.weights.head + self.weights.routed.scaled(self.expert_share)
            if not read_part.n_bytes or not self.params_active:
                raise BadInput(_("A token reads none of the weights, so this is not a complete language model."))

    @property
    def doubt(self) -> str:
        """Why a ceiling is an estimate, in words; empty for a bound."""
        if self.certainty is Certainty.BOUND:
            return ""
        if not self.not_understood:
            return _("an estimate, not a bound: the figures that it is computed from are not exact")
        more = " …" if len(self.not_understood) > SHOWN_KEYS else ""
        keys = ", ".join(self.not_understood[:SHOWN_KEYS]) + more
        return _("an estimate, not a bound: Roofmark does not understand {keys}", keys=keys)

    @property
    def expert_share(self) -> float:
        """Share of the routed experts that one token uses."""
        return self.experts_used / self.experts_total if self.experts_total else 0.0

    @property
    def params_total(self) -> int | None:
        """Parameters of the whole model; None where the weights are unknown."""
        return self.weights.total.parameters if self.weights else None

    @property
    def params_active(self) -> int | None:
        """The parameters that one token uses, without tables that are only looked up."""
        if self.weights is None:
            return None
        routed = round(self.weights.routed.parameters * self.expert_share)
        return self.weights.dense.parameters + self.weights.head.parameters + routed

    def to_json(self) -> dict[str, Any]:
        """The geometry as a stored JSON document."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Geometry":
        """Reads what `to_json` returned. Raises BadInput for any other document."""
        try:
            fields = dict(document)
            for key in ("weights", "weights_at_most"):
                if (weights := fields.setdefault(key, None)) is not None:
                    fields[key] = Weights(**{role: Part(**part) for role, part in weights.items()})
            if (attention := fields["attention"]) is not None:
                fields["attention"] = tuple(Attention(**layers) for layers in attention)
            fields["source"] = Source(fields["source"])
            fields["assumptions"] = tuple(fields["assumptions"])
            fields["expert_blocks"] = tuple(fields.get("expert_blocks", ()))
            if "certainty" not in fields:
                fields["certainty"] = Certainty.ESTIMATE
                fields["assumptions"] += (_(NO_ACCOUNT),)
            fields["certainty"] = Certainty(fields["certainty"])
            fields["not_understood"] = tuple(fields.get("not_understood", ()))
            return cls(**fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(_("This is not a model geometry that Roofmark has written.")) from error


def printable(text: str) -> str:
    """Makes a name out of a file fit to be shown: short, and without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:60])


def group_alike(layers: Iterable[Attention]) -> tuple[Attention, ...]:
    """Puts single layers (`layers` = 1) that are alike together."""
    return tuple(replace(layer, layers=count) for layer, count in Counter(layers).items())


def from_parameter_counts(params_total: float, params_active: float, bits: float) -> Geometry:
    """Makes the geometry of a model from its parameter counts and bits per weight alone. Raises BadInput."""
    if not 0 < params_active <= params_total <= 1e15:
        raise BadInput(_("Active parameters must be more than none and no more than all parameters."))
    check_bits(bits)
    return Geometry(
        source=Source.TYPED,
        architecture="",
        weights=Weights(dense=Part.of(params_active, bits), unread=Part.of(params_total - params_active, bits)),
        attention=None,
        assumptions=(
            _(
                "parameter counts and {bits:g} bits per weight were entered by hand, so tables that are only looked "
                "up count too",
                bits=bits,
            ),
            _("layers are unknown, so KV cache and attention are left out"),
        ),
        certainty=Certainty.ESTIMATE,
    )


def check_bits(bits: float) -> None:
    """Raises BadInput for bits per weight that no format has."""
    if not 0 < bits <= 64:
        raise BadInput(
            _("{bits:g} bits per weight make no sense; typical are 4.85 (Q4_K_M), 8.5 (Q8_0) and 16.", bits=bits)
        )


# --- which layers slide ----------------------------------------------------------------------------------------------

FULL_EVERY = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gemma4": 6,
    "gemma_embedding": 6,
    "gpt_oss": 2,
    "cohere2": 4,
    "exaone4": 4,
    "exaone_moe": 4,
    "olmo2": 4,
    "olmo3": 4,
    "afmoe": 4,
    "llama4": 4,
    "smallthinker": 4,
    "recurrent_gemma": 3,
}
"""Families whose files have a sliding window but no pattern: each n-th layer sees everything."""


def slides_by_period(every: int, blocks: int) -> list[bool]:
    """Returns whether each layer slides: every `every`-th sees everything, the others slide; with 0 all slide."""
    return [not every or (index + 1) % every != 0 for index in range(blocks)]


def slides_by_default(family: str, window: int, blocks: int) -> tuple[list[bool], bool, str]:
    """Returns whether each layer slides when a window has no pattern, whether that is unknown, and the assumption."""
    name = family.removesuffix("_text").replace("-", "_").replace("gptoss", "gpt_oss")
    if every := FULL_EVERY.get(name):
        sentence = _("no pattern beside the sliding window: 1 layer in {every} sees all", every=every)
        return slides_by_period(every, blocks), False, sentence
    sentence = _(
        "there is a sliding window of {window:,} tokens but no pattern, so all layers count as sliding, which "
        "reads the fewest bytes",
        window=window,
    )
    return [True] * blocks, True, sentence
