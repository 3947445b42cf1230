"""What a configuration takes of the memory that holds it, computed from its model and its settings."""

from dataclasses import dataclass

from app import engines
from app.ceiling.bytes_per_step import kv_bytes
from app.results.ceiling import Decode, Placement


@dataclass(frozen=True)
class MemoryNeed:
    """Weights and KV cache at one context beside the devices that hold them; computed, and without what an engine needs
    besides."""

    weights_bytes: int
    kv_bytes: int | None
    """The KV cache of all slots; None: unknown, as the layers are."""
    context: int
    """The tokens in the cache of each slot."""
    slots: int
    devices: str
    capacity_bytes: int | None
    """The memory of these devices together; None: unknown."""

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + (self.kv_bytes or 0)

    @property
    def free_bytes(self) -> int | None:
        """What is left of the devices; negative where they are too small, None where their size is unknown."""
        return None if self.capacity_bytes is None else self.capacity_bytes - self.total_bytes

    def share(self, n_bytes: int) -> float:
        """Returns a share of the devices' memory, or of the need where that is larger or theirs is unknown."""
        return n_bytes / max(self.total_bytes, self.capacity_bytes or 0)


def memory_need(decode: Decode, placement: Placement) -> MemoryNeed:
    """Returns what the configuration of a run needs at the context that its server offers, else at the one measured."""
    context = engines.with_flags(decode.config.settings).get("context")
    tokens = context if isinstance(context, int) and context > 0 else decode.point.mean_context()
    slots = placement.slots or 1
    per_slot = kv_bytes(placement.geometry, tokens, placement.kv)
    shares = placement.device_shares
    sizes = [share.memory_bytes for share in shares]
    weights = placement.geometry.weights
    assert weights is not None, "a placement has weights"
    return MemoryNeed(
        weights_bytes=weights.total.n_bytes,
        kv_bytes=None if per_slot is None else slots * per_slot,
        context=tokens,
        slots=slots,
        devices=" + ".join(
            f"{count} × {name}" if (count := sum(share.device.name == name for share in shares)) > 1 else name
            for name in dict.fromkeys(share.device.name for share in shares)
        ),
        capacity_bytes=sum(filter(None, sizes)) if all(sizes) else None,
    )
