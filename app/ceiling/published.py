"""Published results of others, by kind of model and class of device: what a share of a ceiling is compared with.

`published.csv` has one line for each result, with its source. Fewer than `LEAST_ROWS` of a group judge nothing.
"""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from app.ceiling.geometry import Geometry
from app.core.i18n import N_

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
class Group:
    """Shares are of 1."""

    models: str
    devices: str
    """Their titles, in English."""
    count: int
    low: float
    median: float
    high: float


def model_kind(geometry: Geometry) -> str:
    """A hybrid has recurrent or linear-attention layers, whether it has experts or not."""
    if geometry.state_bytes:
        return HYBRID
    return MOE if geometry.experts_total else DENSE


def device_class(name: str, vendor: str, kind: str, memory_kind: str) -> str | None:
    """The key of DEVICE_CLASSES of a device of the catalogue; None: no results of its class were collected."""
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


def decode_group(device_class: str | None, kind: str) -> Group | None:
    """Shares of the decode ceiling; None: too few results. Matrix units do not change how decode reads memory."""
    merged = _WITHOUT_MATRIX_UNITS.get(device_class or "", device_class)
    matching = [row for row in rows() if _WITHOUT_MATRIX_UNITS.get(row["device_class"], row["device_class"]) == merged]
    return _group(merged, kind, matching, "decode_share_percent")


def prefill_group(device_class: str | None, kind: str) -> Group | None:
    """Shares of the prefill ceiling; None: too few results."""
    matching = [row for row in rows() if row["device_class"] == device_class]
    return _group(device_class, kind, matching, "prefill_share_percent")


@cache
def rows() -> tuple[Mapping[str, str], ...]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def _group(device_class: str | None, kind: str, matching: Iterable[Mapping[str, str]], column: str) -> Group | None:
    shares = [float(row[column]) / 100 for row in matching if row["model_kind"] == kind and row[column]]
    if device_class is None or len(shares) < LEAST_ROWS:
        return None
    titles = MODEL_KINDS[kind], DEVICE_CLASSES[device_class]
    return Group(*titles, len(shares), min(shares), median(shares), max(shares))
