"""A model on several memories: cards that share it, and system memory for the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app.ceiling.bytes_per_step import Step
from app.ceiling.decode import RAM_STAGE, DecodeCeiling, Device, Portion, Split, decode
from app.ceiling.geometry import Geometry, Source
from app.ceiling.offload import InRam, Offload, in_ram
from app.core.i18n import _
from app.core.units import format_bytes

OVERHEAD = 0.05
"""The minimum that an engine needs besides weights and KV cache, as a share of both."""


@dataclass(frozen=True)
class Memory:
    device: Device
    capacity_bytes: int | None = None
    """None: unknown, so that nothing is checked for fitting."""


@dataclass(frozen=True)
class Layout:
    cards: tuple[Memory, ...]
    """The cards; empty when the processor works alone."""
    ram: Memory | None = None
    """None: its bandwidth is unknown."""
    offload: Offload = field(default_factory=Offload)
    split: Split = Split.LAYER
    shares: tuple[float, ...] = ()
    """The relative shares of the cards; empty when nothing states them, and memory sizes count."""
    stages: int = 1
    """Stages of a pipeline, each of which divides its layers over its cards (only with a tensor split)."""

    def decode(self, geometry: Geometry, step: Step) -> DecodeCeiling | None:
        """Returns the decode ceiling of a step; None when a part is in system memory whose bandwidth is unknown."""
        portions, by_chance = self.portions(geometry, step), step.expected
        expected = portions if by_chance == step else self.portions(geometry, by_chance)
        if portions is None or expected is None:
            return None
        ceiling = decode(step, portions, self.split, expected)
        sentences = self.sentences(geometry, step)
        return replace(ceiling, assumptions=(*sentences, *ceiling.assumptions)) if sentences else ceiling

    def portions(self, geometry: Geometry, step: Step) -> list[Portion] | None:
        """Returns how much of a step each memory reads; None when that memory's bandwidth is unknown."""
        if not self.cards:
            return [Portion(self.ram.device)] if self.ram else None
        if self.overflow(geometry, step) is not None:
            return self._best_split(geometry, step)
        return self._divided(step, self.placed(geometry).n_bytes(step))

    def placed(self, geometry: Geometry) -> InRam:
        return in_ram(geometry, self.offload) if self.cards else InRam()

    def overflow(self, geometry: Geometry, step: Step) -> str | None:
        """Returns one sentence when the model does not fit the cards, with the parts elsewhere that settings name."""
        capacities = [card.capacity_bytes for card in self.cards]
        if self.offload.is_observed or not capacities or None in capacities or geometry.weights is None:
            return None
        needed, placed = needed_bytes(geometry, step), self.placed(geometry)
        on_cards, overhead = float(needed), OVERHEAD
        if outside := placed.held_bytes(geometry, sequence_bytes(step)):
            # a person chose these settings, so only an impossible split is refused; look-up tables are not on cards
            on_cards, overhead = needed - outside - geometry.weights.unread.n_bytes, 0.0
        parts = zip(self.card_shares(), capacities, strict=True)
        if all((1 + overhead) * on_cards * share <= (capacity or 0) for share, capacity in parts):
            return None
        names = " + ".join(dict.fromkeys(card.device.name for card in self.cards))
        capacity = sum(filter(None, capacities))
        if (1 + overhead) * on_cards <= capacity:
            return _(
                "the model does not fit: divided as stated, its {needed} exceed the memory of one of the GPUs ({name})",
                needed=format_bytes(round(on_cards)),
                name=names,
            )
        if outside:
            return _(
                "the model does not fit: what settings leave on GPUs takes {needed}, and {name} holds {capacity}",
                needed=format_bytes(round(on_cards)),
                name=names,
                capacity=format_bytes(capacity),
            )
        return _(
            "the model does not fit: weights and KV cache take {needed}, engines need at least 5 % more, and {name} "
            "holds {capacity}",
            needed=format_bytes(needed),
            name=names,
            capacity=format_bytes(capacity),
        )

    def sentences(self, geometry: Geometry, step: Step) -> list[str]:
        """Returns sentences on the placement, when it is not simply one device."""
        if (overflow := self.overflow(geometry, step)) is None:
            return list(self.placed(geometry).sentences)
        words = [overflow]
        portions = self._best_split(geometry, step)
        if portions is None:
            return words
        total_share = sum(portion.share for portion in portions)
        ram_bytes_read = portions[-1].share / total_share * step.n_bytes if self.ram else 0
        words.append(
            _(
                "the ceiling is that of the best split: {in_ram} of what a token reads stay in system memory, "
                "experts first",
                in_ram=format_bytes(round(ram_bytes_read)),
            )
            if geometry.weights and geometry.weights.routed.n_bytes
            else _(
                "the ceiling is that of the best split: {in_ram} of what a token reads stay in system memory",
                in_ram=format_bytes(round(ram_bytes_read)),
            )
        )
        if _is_only_totals(geometry):
            words.append(
                _(
                    "which weights are experts is unknown, so the bytes that a token reads are assumed to be "
                    "spread evenly"
                )
            )
        ram_bytes = self.ram.capacity_bytes if self.ram else None
        cards = sum(card.capacity_bytes or 0 for card in self.cards)
        if ram_bytes is not None and needed_bytes(geometry, step) > ram_bytes + cards:
            words.append(_("GPUs and system memory together do not hold it either; reading from a disk is slower"))
        return words

    def card_shares(self) -> tuple[float, ...]:
        """Returns one share of 1 for each card."""
        shares: Sequence[float] = self.shares
        if not shares:
            sizes = [card.capacity_bytes or 0 for card in self.cards]
            shares = sizes if all(sizes) else [1] * len(sizes)
        return tuple(share / sum(shares) for share in shares)

    def _divided(self, step: Step, ram_bytes: float) -> list[Portion] | None:
        if ram_bytes and self.ram is None:
            return None
        portions = self._card_portions(step.n_bytes - ram_bytes)
        if ram_bytes and self.ram:
            portions.append(Portion(self.ram.device, ram_bytes, RAM_STAGE))
        return portions

    def _card_portions(self, n_bytes: float) -> list[Portion]:
        shares = self.card_shares()
        if self.split is not Split.TENSOR or self.stages == 1 or len(self.cards) % self.stages:
            stage = 0 if self.split is Split.TENSOR else None
            return [
                Portion(card.device, n_bytes * share, stage) for card, share in zip(self.cards, shares, strict=True)
            ]
        width = len(self.cards) // self.stages
        return [
            Portion(card.device, n_bytes * share, place // width)
            for place, (card, share) in enumerate(zip(self.cards, shares, strict=True))
        ]

    def _best_split(self, geometry: Geometry, step: Step) -> list[Portion] | None:
        """Returns the best split: what is read most often per byte is in the fastest memory. Cards that divide each
        layer fill together."""
        if self.ram is None:
            return None
        parts = _by_density(geometry, step)
        if self.split is Split.TENSOR:
            shares = self.card_shares()
            capacity = min((card.capacity_bytes or 0) / share for card, share in zip(self.cards, shares, strict=True))
            (on_cards,) = _filled(parts, [capacity])
            return self._divided(step, max(step.n_bytes - on_cards, 0))
        memories = sorted((*self.cards, self.ram), key=_bandwidth, reverse=True)
        ram_at = memories.index(self.ram)
        capacities = [float(memory.capacity_bytes or 0) for memory in memories]
        capacities[ram_at] = float("inf")
        reads = _filled(parts, capacities)
        portions = [Portion(memory.device, n_bytes) for memory, n_bytes in zip(memories, reads, strict=True)]
        return [*portions[:ram_at], *portions[ram_at + 1 :], replace(portions[ram_at], stage=RAM_STAGE)]


def _bandwidth(memory: Memory) -> float:
    return memory.device.bandwidth_bytes_per_s


def needed_bytes(geometry: Geometry, step: Step) -> int:
    """Returns the bytes that must be held: all weights, and cache and state of each sequence."""
    assert geometry.weights is not None
    return geometry.weights.total.n_bytes + sequence_bytes(step)


def sequence_bytes(step: Step) -> int:
    """Returns the bytes of cache and state; a step writes the state as well as it reads it."""
    return step.batch * ((step.kv_bytes or 0) + step.state_bytes)


def _is_only_totals(geometry: Geometry) -> bool:
    """Whether experts are known only from the counts of all and of active parameters."""
    weights = geometry.weights
    return bool(geometry.source is Source.TYPED and weights and weights.unread.n_bytes and not weights.routed.n_bytes)


def _by_density(geometry: Geometry, step: Step) -> list[tuple[float, float]]:
    """Returns bytes held and bytes read in a step, those read most per byte held first."""
    weights = geometry.weights
    assert weights is not None
    held_always = weights.dense.n_bytes + weights.head.n_bytes
    sequences = (sequence_bytes(step), step.sequence_bytes)
    if _is_only_totals(geometry):
        parts = [sequences, (held_always + weights.unread.n_bytes, step.weight_bytes)]
    else:
        parts = [sequences, (held_always, step.dense_bytes + step.head_bytes)]
        parts += [(weights.routed.n_bytes, step.routed_bytes)] if weights.routed.n_bytes else []
    return sorted(
        ((float(n_held), float(n_read)) for n_held, n_read in parts if n_held),
        key=lambda part: part[1] / part[0],
        reverse=True,
    )


def _filled(parts: Sequence[tuple[float, float]], capacities: Sequence[float]) -> list[float]:
    """Returns the bytes read from each memory when parts fill them in order; what does not fit is left out."""
    reads = [0.0] * len(capacities)
    free = list(capacities)
    for n_held, n_read in parts:
        left = n_held
        for place, room in enumerate(free):
            moved = min(left, room)
            reads[place] += n_read * moved / n_held
            free[place] -= moved
            left -= moved
    return reads
