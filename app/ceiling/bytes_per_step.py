"""Bytes that one decode step reads, and what they are for.

step(c, batch) = dense + head + routed x share of experts + batch x (kv(c) + 2 x state)

Everything uncertain is left out, so that a speed computed from these bytes is an upper bound.
"""

from dataclasses import dataclass, replace

from app.ceiling.geometry import Geometry
from app.ceiling.number_formats import KvTypes
from app.core.errors import BadInput
from app.core.i18n import _, joined
from app.core.units import format_bytes

F16 = KvTypes()


@dataclass(frozen=True, slots=True)
class Step:
    """One decode step of `batch` sequences that each have `context` tokens in the cache."""

    context: int
    batch: int
    weight_bytes: int
    """The bytes read once for the whole batch; the strict bound, as if all sequences used the same experts."""
    expected_weight_bytes: int
    """The same when each sequence uses experts of its own by chance: an expectation, not a bound."""
    kv_bytes: int | None
    """KV cache of one sequence that is read; None where the layers are unknown."""
    state_bytes: int
    """Recurrent state of one sequence, which a step reads and writes."""
    head_bytes: int = 0
    """The part of `weight_bytes` that is the output head."""
    routed_bytes: int = 0
    """The part of `weight_bytes` that is routed experts."""

    @property
    def dense_bytes(self) -> int:
        """The bytes of weights in the layers that are read whole."""
        return self.weight_bytes - self.head_bytes - self.routed_bytes

    @property
    def expected(self) -> "Step":
        """The same step when each sequence uses experts of its own by chance."""
        more = self.expected_weight_bytes - self.weight_bytes
        return replace(self, weight_bytes=self.expected_weight_bytes, routed_bytes=self.routed_bytes + more)

    @property
    def sequence_bytes(self) -> int:
        """The bytes of all sequences of the batch: KV cache read, recurrent state read and written."""
        return self.batch * ((self.kv_bytes or 0) + 2 * self.state_bytes)

    @property
    def n_bytes(self) -> int:
        """All bytes that the step reads, as the strict bound counts them."""
        return self.weight_bytes + self.sequence_bytes

    @property
    def expected_bytes(self) -> int:
        """The bytes of the step when each sequence uses experts of its own by chance."""
        return self.expected_weight_bytes + self.sequence_bytes

    @property
    def words(self) -> str:
        """The sum in words: `3.05 GB = 2.91 GB weights + 134 MB KV cache`."""
        parts = [_("{weight_bytes} weights", weight_bytes=format_bytes(self.weight_bytes))]
        if self.kv_bytes:
            parts.append(self._of_each(_("{kv_bytes} KV cache", kv_bytes=format_bytes(self.kv_bytes))))
        if self.state_bytes:
            parts.append(self._of_each(_("2 x {state_bytes} state", state_bytes=format_bytes(self.state_bytes))))
        if len(parts) == 1:
            return parts[0]
        return _("{total} = {parts}", total=format_bytes(self.n_bytes), parts=joined(*parts, by=" + "))

    def _of_each(self, part: str) -> str:
        """Returns what each sequence reads: `4 x 134 MB KV cache`."""
        return _("{batch} x {part}", batch=self.batch, part=part) if self.batch > 1 else part


def step(geometry: Geometry, context: int = 0, kv: KvTypes = F16, batch: int = 1) -> Step | None:
    """Computes the bytes of one decode step (docs/ceilings.md, What counts). None where the weights are unknown."""
    check_tokens(context)
    if not 1 <= batch <= 1_000_000:
        raise BadInput(_("A batch of {batch:,} makes no sense.", batch=batch))
    weights = geometry.weights
    if weights is None:
        return None
    always = weights.dense.n_bytes + weights.head.n_bytes
    routed = round(weights.routed.n_bytes * geometry.expert_share)
    return Step(
        context=context,
        batch=batch,
        weight_bytes=always + routed,
        expected_weight_bytes=always + round(weights.routed.n_bytes * expected_expert_share(geometry, batch)),
        kv_bytes=kv_bytes(geometry, context, kv),
        state_bytes=geometry.state_bytes,
        head_bytes=weights.head.n_bytes,
        routed_bytes=routed,
    )


def expected_expert_share(geometry: Geometry, tokens: int) -> float:
    """Share of the routed experts that `tokens` tokens use together when each picks by chance: 1 - (1 - used /
    total)^tokens.
    """
    return 1 - (1 - geometry.expert_share) ** tokens


def kv_bytes(geometry: Geometry, context: int, kv: KvTypes = F16) -> int | None:
    """Bytes of KV cache that one sequence of `context` tokens reads; None where the layers are unknown. A layer with a
    window reads no more than that.
    """
    if geometry.attention is None:
        return None
    k_bits, v_bits = kv.bits
    return round(
        sum(
            layers.layers * layers.entries(context) * (layers.k_elements * k_bits + layers.v_elements * v_bits) / 8
            for layers in geometry.attention
        )
    )


def kv_bytes_per_token(geometry: Geometry, kv: KvTypes = F16) -> int | None:
    """Returns the bytes by which a token increases the cache while no window is full."""
    return kv_bytes(geometry, 1, kv)


def check_tokens(count: int) -> None:
    """Raises BadInput for a number of tokens that is negative or absurdly large."""
    if not 0 <= count <= 1_000_000_000:
        raise BadInput(_("A context of {count:,} tokens makes no sense.", count=count))
