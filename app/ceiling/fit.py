"""Whether a model fits: weights and KV cache at a context beside the memory that holds them, and what is left."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.ceiling.bytes_per_step import Step, kv_bytes_per_token
from app.ceiling.geometry import Geometry
from app.ceiling.layout import OVERHEAD, Layout, Memory, needed_bytes, sequence_bytes
from app.ceiling.number_formats import KvTypes
from app.core.i18n import _
from app.core.units import format_bytes


@dataclass(frozen=True)
class MemoryUse:
    """What a model takes of one memory; the cards that share a model count as one."""

    name: str
    weights_bytes: int
    cache_bytes: int
    """KV cache and recurrent state of all sequences."""
    capacity_bytes: int | None
    """None: unknown."""

    @property
    def needed_bytes(self) -> int:
        return self.weights_bytes + self.cache_bytes

    @property
    def free_bytes(self) -> int | None:
        """What is left of the memory; negative when it is too small, None when its size is unknown."""
        return None if self.capacity_bytes is None else self.capacity_bytes - self.needed_bytes

    @property
    def fits(self) -> bool | None:
        """Whether it holds the model and the least that engines need besides; None when its size is unknown."""
        if self.capacity_bytes is None:
            return None
        return (1 + OVERHEAD) * self.needed_bytes <= self.capacity_bytes


@dataclass(frozen=True)
class Fit:
    """A model at one context in the memories that hold it."""

    context: int
    uses: tuple[MemoryUse, ...]
    """Cards first; only memories that hold a part of the model."""
    tokens_left: int | None
    """About how many more tokens of context have room; None when that is unknown, or the model does not fit."""

    @property
    def fits(self) -> bool | None:
        """None when the size of a memory is unknown and no other one is too small."""
        answers = {use.fits for use in self.uses}
        return False if False in answers else None if None in answers else True

    @property
    def words(self) -> str:
        """The verdict in one or two sentences."""
        weights = format_bytes(sum(use.weights_bytes for use in self.uses))
        cache = format_bytes(sum(use.cache_bytes for use in self.uses))
        parts = _(
            "weights {weights} and KV cache {cache} at {context:,} tokens",
            weights=weights,
            cache=cache,
            context=self.context,
        )
        if self.fits is None:
            unknown = next(use.name for use in self.uses if use.fits is None)
            return _(
                "It needs {parts}. The memory of {name} is unknown, so nothing says whether it fits.",
                parts=parts,
                name=unknown,
            )
        tightest = min((use for use in self.uses if use.free_bytes is not None), key=lambda use: use.free_bytes or 0)
        capacity, free = format_bytes(tightest.capacity_bytes), format_bytes(abs(tightest.free_bytes or 0))
        if not self.fits:
            return _(
                "It does not fit: {name} holds {capacity}, and it needs {parts} and at least 5 % more for the engine.",
                name=tightest.name,
                capacity=capacity,
                parts=parts,
            )
        sentence = _(
            "It fits: {parts} leave {free} of {capacity} on {name}.",
            parts=parts,
            free=free,
            capacity=capacity,
            name=tightest.name,
        )
        if self.tokens_left:
            return f"{sentence} " + _("About {tokens:,} more tokens of context have room.", tokens=self.tokens_left)
        return sentence


def fit(layout: Layout, geometry: Geometry, step: Step, kv: KvTypes) -> Fit | None:
    """Returns how a model fills the memories of a layout at a step's context; None without its weights or layers.

    Without settings that move parts of it, a model that is too large for its cards is counted there all the same: that
    is what does not fit.
    """
    if geometry.weights is None or step.kv_bytes is None:
        return None
    sequences = sequence_bytes(step)
    weights = needed_bytes(geometry, step) - sequences
    ram_weights, ram_cache = _in_ram(layout, geometry, sequences)
    uses = []
    if layout.cards:
        uses.append(
            MemoryUse(_names(layout.cards), weights - ram_weights, sequences - ram_cache, _capacity(layout.cards))
        )
    if ram_weights or ram_cache or not layout.cards:
        ram = layout.ram
        name, capacity = (ram.device.name, ram.capacity_bytes) if ram else (_("system memory"), None)
        uses.append(MemoryUse(name, ram_weights, ram_cache, capacity))
    at_context = Fit(step.context, tuple(uses), None)
    per_token = kv_bytes_per_token(geometry, kv)
    growing = uses[0]
    if not at_context.fits or not per_token or growing.capacity_bytes is None:
        return at_context
    room = growing.capacity_bytes / (1 + OVERHEAD) - growing.needed_bytes
    return Fit(step.context, tuple(uses), _rounded(room / (per_token * step.batch)))


def _in_ram(layout: Layout, geometry: Geometry, sequences: int) -> tuple[int, int]:
    """Returns the bytes of weights and of cache that settings place in system memory."""
    weights = geometry.weights
    assert weights is not None
    if not layout.cards:
        return weights.total.n_bytes, sequences
    placements = [
        (
            weights.dense.n_bytes * shares.dense
            + weights.routed.n_bytes * shares.routed
            + weights.head.n_bytes * shares.head,
            sequences * shares.sequences,
        )
        for shares in layout.placed(geometry).readings
    ]
    in_weights, in_cache = max(placements, key=sum)
    if in_weights:  # look-up tables stay where the processor reads them
        in_weights += weights.unread.n_bytes
    return round(in_weights), round(in_cache)


def _names(cards: Sequence[Memory]) -> str:
    counts: dict[str, int] = {}
    for card in cards:
        counts[card.device.name] = counts.get(card.device.name, 0) + 1
    return " + ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def _capacity(cards: Sequence[Memory]) -> int | None:
    sizes = [card.capacity_bytes for card in cards]
    return None if None in sizes else sum(filter(None, sizes))


def _rounded(tokens: float) -> int:
    """Returns a number of tokens with two significant digits, rounded down."""
    count = max(0, int(tokens))
    scale: int = 10 ** max(0, len(str(count)) - 2)
    return count // scale * scale
