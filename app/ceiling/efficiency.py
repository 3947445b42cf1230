"""How much of the roof a measured speed reaches, and what it means when that is more than all of it."""

from app.ceiling.bytes_per_step import Step
from app.ceiling.geometry import Geometry
from app.ceiling.published import Group
from app.core.i18n import _
from app.core.units import format_bytes, format_number

CACHE_FACTOR = 10
NEAR = 0.15
"""A share within so much of the published median, relative to it, is usual."""
FAR = 0.5
"""A prefill below so much of the published median is slow."""


def mbu(tokens_per_s: float, ceiling_tokens_per_s: float) -> float:
    """Model bandwidth utilisation as a share of 1, never clamped: a decode speed over its ceiling."""
    return tokens_per_s / ceiling_tokens_per_s


def mfu(tokens_per_s: float, tokens: int, flops: float, peak_flops: float) -> float:
    """Model FLOP utilisation as a share of 1, never clamped, of a prefill of `tokens` tokens that takes `flops`."""
    return tokens_per_s / tokens * flops / peak_flops


def judge(share: float, group: Group | None) -> str:
    """Whether a share of the decode ceiling is good, among published results of its kind; empty without a group."""
    if share > 1:
        return _("above the ceiling: an assumption is wrong, see the run")
    if group is None:
        return ""
    if share > group.high:
        return _(
            "better than all {count} published results for {models} on {devices}; their median is {percent} %",
            **_figures(group),
        )
    if share < group.low:
        return _(
            "worse than all {count} published results for {models} on {devices}; their median is {percent} %",
            **_figures(group),
        )
    if share > (1 + NEAR) * group.median:
        return _("better than usual: {median}", median=describe(group))
    if share < least_usual(group):
        return _("worse than usual: {median}", median=describe(group))
    return _("usual: {median}", median=describe(group))


def least_usual(group: Group) -> float:
    """The share of the ceiling from which on a result is usual."""
    return (1 - NEAR) * group.median


def is_slow_prefill(share: float, group: Group | None) -> bool:
    """Far below what published results of its kind reach; never without enough of them."""
    return group is not None and share < FAR * group.median


def describe(group: Group) -> str:
    return _("the median of {count} published results for {models} on {devices} is {percent} %", **_figures(group))


def _figures(group: Group) -> dict[str, str | int]:
    return {
        "count": group.count,
        "models": _(group.models),
        "devices": _(group.devices),
        "percent": format_number(100 * group.median),
    }


def why_above_all(
    share: float,
    geometry: Geometry,
    step: Step,
    is_bandwidth_measured: bool,
    cache_bytes: int | None = None,
    is_speculative: bool | None = None,
) -> tuple[str, ...]:
    """Which assumption must be wrong when a run is faster than its ceiling, likeliest first; empty when it is not.

    `cache_bytes`: the last-level cache; `is_speculative`: whether a draft helped, which the ceiling then counts; None:
    unknown.
    """
    if share <= 1:
        return ()
    reasons = []
    if words := cache_guard(step, cache_bytes):
        reasons.append(words)
    if is_bandwidth_measured:
        reasons.append(
            _("the measured bandwidth may be too low: it is a lower bound, and other load on the machine lowers it")
        )
    else:
        reasons.append(_("the bandwidth assumed for this machine is too low"))
    if is_speculative is None:
        reasons.append(_("speculative decoding may be on: it makes several tokens per pass over the weights"))
    elif is_speculative:
        reasons.append(_("speculative decoding may have accepted more drafted tokens than the server reports"))
    if geometry.experts_total:
        reasons.append(_("the experts that were used may have been cached"))
    reasons.append(_("the server may run another model file or quantization than the one the ceiling was computed for"))
    return tuple(reasons)


def cache_guard(step: Step, cache_bytes: int | None) -> str | None:
    """A sentence where so much fits the last-level cache that a run may exceed the ceiling; None where it cannot."""
    if cache_bytes is None or step.n_bytes >= CACHE_FACTOR * cache_bytes:
        return None
    return _(
        "cache may help: a token reads {n_bytes}, less than {cache_factor} x the last-level "
        "cache of {cache_bytes}, so a run may exceed the ceiling",
        n_bytes=format_bytes(step.n_bytes),
        cache_factor=CACHE_FACTOR,
        cache_bytes=format_bytes(cache_bytes),
    )
