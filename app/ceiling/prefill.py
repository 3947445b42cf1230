"""The prefill ceiling and the floor of TTFT: computing against reading, whichever takes longer."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.ceiling.bytes_per_step import F16, check_tokens, expected_expert_share, kv_bytes
from app.ceiling.decode import Device
from app.ceiling.geometry import Attention, Geometry
from app.ceiling.number_formats import KvTypes
from app.core.errors import BadInput
from app.core.i18n import N_, _
from app.core.units import TERA, format_bandwidth, format_bytes, format_number


class Bound(StrEnum):
    """What limits a prefill."""

    COMPUTE = N_("compute")
    MEMORY = N_("memory")


@dataclass(frozen=True, slots=True)
class PrefillCeiling:
    """Prompt tokens per second that the devices allow, and the shortest TTFT, with the arithmetic in `words`."""

    tokens: int
    flops: float
    n_bytes: int
    """The bytes read from memory once for the whole prompt."""
    tokens_per_s: float
    ttft_floor_ms: float
    bound: Bound
    words: str
    assumptions: tuple[str, ...] = ()


def prefill_flops(geometry: Geometry, tokens: int, start: int = 0) -> float | None:
    """Counts the operations for `tokens` prompt tokens after `start` cached ones; None where the weights are unknown.

    2 x (active - head) x tokens + 2 x head + 2 x pairs x query heads x (qk + v), summed over layers. The head works for
    the last token only. Where layers are unknown, attention is left out.
    """
    check_tokens(tokens)
    check_tokens(start)
    active = geometry.params_active
    if geometry.weights is None or active is None:
        return None
    head = geometry.weights.head.parameters
    attention = sum(
        layers.layers * 2 * attention_pairs(layers, tokens, start) * layers.q_heads * (layers.qk_dim + layers.v_dim)
        for layers in geometry.attention or ()
    )
    return float(2 * (active - head) * tokens + 2 * head + attention)


def attention_pairs(layers: Attention, tokens: int, start: int = 0) -> int:
    """Counts the fewest (query, key) pairs in one of these layers; compressed entries are left out."""
    if layers.chunk:
        return _pairs_in_chunks(start + tokens, layers.chunk) - _pairs_in_chunks(start, layers.chunk)
    limits = [limit for limit in (layers.window, layers.top_k) if limit is not None]
    if layers.compression is not None:
        return causal_pairs(tokens, start, layers.window or 0)
    return causal_pairs(tokens, start, min(limits, default=None))


def _pairs_in_chunks(tokens: int, chunk: int) -> int:
    full_chunks, rest = divmod(tokens, chunk)
    return full_chunks * (chunk * (chunk + 1) // 2) + rest * (rest + 1) // 2


def causal_pairs(tokens: int, start: int = 0, window: int | None = None) -> int:
    """Counts (query, key) pairs: token i sees itself and all before it, no more than `window` of them."""
    end = start + tokens
    growing = end if window is None else max(min(end, window), start)
    pairs = growing * (growing + 1) // 2 - start * (start + 1) // 2
    return pairs + (end - growing) * (window or 0)


def prefill(
    geometry: Geometry, devices: Sequence[Device], tokens: int, start: int = 0, kv: KvTypes = F16
) -> PrefillCeiling | None:
    """Computes the prefill ceiling of one prompt on devices that work at the same time: tokens / max(FLOP / peak, bytes
    / bandwidth). None where weights or a device's peak are unknown.
    """
    if tokens < 1:
        raise BadInput(_("A prompt has at least one token."))
    flops = prefill_flops(geometry, tokens, start)
    peaks = [device.peak_flops for device in devices if device.peak_flops is not None]
    if flops is None or geometry.weights is None or len(peaks) != len(devices) or not devices:
        return None
    peak, bytes_per_s = sum(peaks), sum(device.bandwidth_bytes_per_s for device in devices)
    weights = geometry.weights
    experts = expected_expert_share(geometry, tokens)
    n_bytes = round(weights.dense.n_bytes + weights.head.n_bytes + weights.routed.n_bytes * experts)
    n_bytes += kv_bytes(geometry, start, kv) or 0  # what this prompt itself adds need not be read back from memory
    compute_s, memory_s = flops / peak, n_bytes / bytes_per_s
    bound = Bound.COMPUTE if compute_s >= memory_s else Bound.MEMORY
    seconds = max(compute_s, memory_s)
    if bound is Bound.COMPUTE:
        work = f"{format_number(flops / TERA)} TFLOP / {format_number(peak / TERA)} TFLOP/s"
    else:
        work = f"{format_bytes(n_bytes)} / {format_bandwidth(bytes_per_s)}"
    assumptions = []
    if weights.routed.n_bytes:
        assumptions.append(
            _(
                "prefill of {tokens:,} tokens reads {experts} % of the routed experts, assuming random routing",
                tokens=tokens,
                experts=format_number(experts * 100),
            )
        )
    if len(devices) > 1:
        assumptions.append(_("prefill: the devices work at the same time"))
    return PrefillCeiling(
        tokens=tokens,
        flops=flops,
        n_bytes=n_bytes,
        tokens_per_s=tokens / seconds,
        ttft_floor_ms=seconds * 1000,
        bound=bound,
        words=_(
            "{speed} tok/s = {tokens:,} tokens / ({work}); limited by {bound}",
            speed=format_number(tokens / seconds),
            tokens=tokens,
            work=work,
            bound=_(bound),
        ),
        assumptions=tuple(assumptions),
    )
