"""The share of its ceiling that a measured speed reaches: compared with published results, and when it exceeds the
ceiling.

`published.csv` has one line for each published result, with its source. Fewer than `LEAST_ROWS` of a group judge
nothing.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from app.ceiling.bytes_per_step import Step
from app.ceiling.geometry import Geometry
from app.core.i18n import N_, _
from app.core.units import format_bytes, format_number

CACHE_FACTOR = 10
NEAR = 0.15
"""A share within this relative distance of the published median is usual."""
FAR = 0.5
"""A prefill below this share of the published median is slow."""
TABLE = Path(__file__).with_name("published.csv")
LEAST_ROWS = 5
DENSE, MOE, HYBRID = "dense", "moe", "hybrid"
MODEL_KINDS: Mapping[str, str] = {
    DENSE: N_("dense models"),
    MOE: N_("mixture-of-experts models"),
    HYBRID: N_("hybrid models"),
}
DEVICE_CLASSES: Mapping[str, str] = {
    "nvidia": N_("NVIDIA GPUs with GDDR memory"),
    "nvidia_hbm": N_("NVIDIA GPUs with HBM"),
    "dgx_spark": N_("DGX Spark"),
    "amd": N_("discrete AMD GPUs"),
    "amd_apu": N_("AMD APUs such as Strix Halo"),
    "intel": N_("discrete Intel GPUs"),
    "apple": N_("Apple silicon"),
    "apple_matrix": N_("Apple silicon with matrix units"),
    "cpu": N_("CPUs"),
}
_WITHOUT_MATRIX_UNITS = {"apple_matrix": "apple"}
_WITH_MATRIX_UNITS = re.compile(r"Apple M([5-9]|\d\d)\b")


@dataclass(frozen=True, slots=True)
class PublishedGroup:
    """Published results of one kind of model on one class of device: the range of their shares of a ceiling, of 1."""

    models: str
    devices: str
    """The titles of the devices, not yet translated."""
    count: int
    low: float
    median: float
    high: float


def model_kind(geometry: Geometry) -> str:
    """Returns a key of MODEL_KINDS; a hybrid has recurrent or linear-attention layers, with experts or without."""
    if geometry.state_bytes:
        return HYBRID
    return MOE if geometry.experts_total else DENSE


def device_class(name: str, vendor: str, kind: str, memory_kind: str) -> str | None:
    """Returns the key of DEVICE_CLASSES of a device of the catalogue; None where no results of its class were
    collected.
    """
    if kind == "ram":
        return "cpu"
    if vendor == "apple":
        return "apple_matrix" if _WITH_MATRIX_UNITS.match(name) else "apple"
    if vendor == "nvidia" and kind == "apu":
        return "dgx_spark" if name.startswith("DGX Spark") else None
    if vendor == "nvidia":
        return "nvidia_hbm" if memory_kind.upper().startswith("HBM") else "nvidia"
    if vendor == "amd":
        return "amd_apu" if kind == "apu" else "amd"
    return "intel" if (vendor, kind) == ("intel", "gpu") else None


def decode_group(device_class: str | None, kind: str) -> PublishedGroup | None:
    """Returns the published shares of the decode ceiling; None when there are too few. Matrix units make no difference
    to decode."""
    merged = _WITHOUT_MATRIX_UNITS.get(device_class or "", device_class)
    matching = [
        row for row in published_rows() if _WITHOUT_MATRIX_UNITS.get(row["device_class"], row["device_class"]) == merged
    ]
    return _group(merged, kind, matching, "decode_share_percent")


def prefill_group(device_class: str | None, kind: str) -> PublishedGroup | None:
    """Returns the published shares of the prefill ceiling; None when there are too few."""
    matching = [row for row in published_rows() if row["device_class"] == device_class]
    return _group(device_class, kind, matching, "prefill_share_percent")


@cache
def published_rows() -> tuple[Mapping[str, str], ...]:
    """Returns all lines of `published.csv`, by its column names."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def _group(
    device_class: str | None, kind: str, matching: Iterable[Mapping[str, str]], column: str
) -> PublishedGroup | None:
    shares = [float(row[column]) / 100 for row in matching if row["model_kind"] == kind and row[column]]
    if device_class is None or len(shares) < LEAST_ROWS:
        return None
    titles = MODEL_KINDS[kind], DEVICE_CLASSES[device_class]
    return PublishedGroup(*titles, len(shares), min(shares), median(shares), max(shares))


# --- a share of a ceiling --------------------------------------------------------------------------------------------


def mbu(tokens_per_s: float, ceiling_tokens_per_s: float) -> float:
    """Computes model bandwidth utilisation (Databricks 2023) as a share of 1, never clamped: a decode speed over its
    ceiling."""
    return tokens_per_s / ceiling_tokens_per_s


def mfu(tokens_per_s: float, tokens: int, flops: float, peak_flops: float) -> float:
    """Computes model FLOP utilisation (PaLM, Chowdhery et al. 2022) of a prefill of `tokens` tokens that takes `flops`;
    a share of 1, never clamped."""
    return tokens_per_s / tokens * flops / peak_flops


def judge(share: float, group: PublishedGroup | None) -> str:
    """Says whether a share of the decode ceiling is good among published results of its kind; empty without a group."""
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


def least_usual(group: PublishedGroup) -> float:
    """Returns the share of the ceiling from which on a result is usual."""
    return (1 - NEAR) * group.median


def is_slow_prefill(share: float, group: PublishedGroup | None) -> bool:
    """Whether a prefill is far below what published results of its kind reach; False without enough of them."""
    return group is not None and share < FAR * group.median


def describe(group: PublishedGroup) -> str:
    """Says the median of a group of published results in words."""
    return _("the median of {count} published results for {models} on {devices} is {percent} %", **_figures(group))


def _figures(group: PublishedGroup) -> dict[str, str | int]:
    return {
        "count": group.count,
        "models": _(group.models),
        "devices": _(group.devices),
        "percent": format_number(100 * group.median),
    }


def above_ceiling_reasons(
    share: float,
    geometry: Geometry,
    step: Step,
    is_bandwidth_measured: bool,
    cache_bytes: int | None = None,
    is_speculative: bool | None = None,
) -> tuple[str, ...]:
    """Names the assumptions that may be wrong when a run is faster than its ceiling, likeliest first; empty when it is
    not.

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
    """Warns when so much fits the last-level cache that a run may exceed the ceiling; None when it cannot."""
    if cache_bytes is None or step.n_bytes >= CACHE_FACTOR * cache_bytes:
        return None
    return _(
        "cache may help: a token reads {n_bytes}, less than {cache_factor} x the last-level "
        "cache of {cache_bytes}, so a run may exceed the ceiling",
        n_bytes=format_bytes(step.n_bytes),
        cache_factor=CACHE_FACTOR,
        cache_bytes=format_bytes(cache_bytes),
    )
