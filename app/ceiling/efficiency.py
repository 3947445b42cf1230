"""How much of the roof a measured speed reaches, and what it means when that is more than all of it."""

import math

from app.ceiling.geometry import Geometry
from app.ceiling.traffic import Step
from app.i18n import _, marked
from app.units import size

CACHE_FACTOR = 10
PUBLISHED_SHARES: dict[str, tuple[int, str]] = {
    "all": (73, marked("all published results")),
    "geforce": (71, marked("GeForce cards with 4 bit dense models")),
    "apple": (73, marked("Apple processors")),
    "strix_halo": (82, "Strix Halo"),
    "dgx_spark": (75, "DGX Spark"),
    "datacenter": (43, marked("A100 and H100 with models of 7 to 8 B")),
    "amd_discrete": (46, marked("discrete AMD cards")),
}
"""Median MBU in percent of published llama.cpp results by kind of device."""
PUBLISHED_RANGE = (0.21, 0.87)
"""Where all of them lie, as shares of 1."""
FOUR_BITS = 5.5
"""Bits per weight below which a model counts as one of 4 bits: those have scales and larger layers too."""
SMALL_MODEL = (6e9, 10e9)
"""Parameters of models called 7 to 8 B."""
NEAR = 0.15
"""A share within so much of the median, relative to it, is usual."""


def mbu(tokens_per_s: float, ceiling_tokens_per_s: float) -> float:
    """Model bandwidth utilisation as a share of 1, never clamped: a decode speed over its ceiling."""
    return tokens_per_s / ceiling_tokens_per_s


def mfu(tokens_per_s: float, tokens: int, flops: float, peak_flops: float) -> float:
    """Model FLOP utilisation as a share of 1, never clamped, of a prefill of `tokens` tokens that takes `flops`."""
    return tokens_per_s / tokens * flops / peak_flops


def published_kind(name: str, vendor: str, kind: str, geometry: Geometry) -> str:
    """The key of PUBLISHED_SHARES for a model on a device of the catalogue; all results where none is of its kind."""
    if vendor == "apple":
        return "apple"
    if (vendor, kind) == ("amd", "gpu"):
        return "amd_discrete"
    if name.startswith("Strix Halo"):
        return "strix_halo"
    if name.startswith("DGX Spark"):
        return "dgx_spark"
    bits = geometry.weights.bits_per_weight if geometry.weights else math.inf
    if name.startswith("GeForce") and bits < FOUR_BITS and not geometry.experts_total:
        return "geforce"
    low, high = SMALL_MODEL
    if name.startswith(("A100", "H100")) and low <= (geometry.params_total or 0) <= high:
        return "datacenter"
    return "all"


def judge(share: float, kind: str) -> str:
    """Whether a share of the roof is good, beside published ones of this kind of device (see `published_kind`)."""
    percent, what = PUBLISHED_SHARES[kind]
    low, high = PUBLISHED_RANGE
    median = _("the median of {what} is {percent} %", what=_(what), percent=percent)
    if share > 1:
        return _("more than all: an assumption is wrong, see the run")
    if share > high:
        return _("better than any published result; {median}", median=median)
    if share < low:
        return _("worse than any published result; {median}", median=median)
    if share > (1 + NEAR) * percent / 100:
        return _("better than usual: {median}", median=median)
    if share < (1 - NEAR) * percent / 100:
        return _("below what is usual: {median}", median=median)
    return _("usual: {median}", median=median)


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
        reasons.append(_("the measured bandwidth is a lower bound; a busy machine measures it too low"))
    else:
        reasons.append(_("the bandwidth taken for this machine is too low"))
    if is_speculative is None:
        reasons.append(_("speculative decoding may be on, which makes several tokens with one reading of the weights"))
    elif is_speculative:
        reasons.append(_("speculative decoding may have had more of its drafted tokens accepted than the server tells"))
    if geometry.experts_total:
        reasons.append(_("the experts that were used may have been cached"))
    reasons.append(_("the server may run another model file or quantization than the one the ceiling was computed for"))
    return tuple(reasons)


def cache_guard(step: Step, cache_bytes: int | None) -> str | None:
    """A sentence where so much fits the last-level cache that the ceiling is no hard line; None where it is one."""
    if cache_bytes is None or step.n_bytes >= CACHE_FACTOR * cache_bytes:
        return None
    return _(
        "cache may help: a token reads {n_bytes}, less than {cache_factor} x the last-level "
        "cache of {cache_bytes}, so the ceiling is no hard line",
        n_bytes=size(step.n_bytes),
        cache_factor=CACHE_FACTOR,
        cache_bytes=size(cache_bytes),
    )
