"""What a server measured itself during a run: engines produce these values, pages and documents show them.

Counters belong to the server, not to one request: they cover the whole run, warm-ups and other clients included.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from app.core.i18n import _, english

Statistic = Literal["mean", "p50", "p99", "max", "total", "now"]
Origin = Literal["counters", "answers"]
"""`counters`: from counters of all requests that the server handled; `answers`: summed over what came with each
answer."""

_STORED_NAMES = {"provenance": "how"}
_OLD_QUANTILE, _OLD_STATED = ", interpolated within its bucket", "stated with "


@dataclass(frozen=True)
class ServerMetric:
    """One figure: a `value`, or for a percentile of a histogram the bounds of the bucket that holds it."""

    name: str
    """`ttft_ms`, ...: the key of the client-side metric that measures the same, where there is one."""
    statistic: Statistic
    unit: str
    value: float | None
    """None where only `low` and `high` are known."""
    provenance: str
    """Where the value comes from: the server's own name for it, and what was computed from that."""
    low: float | None = None
    high: float | None = None
    """The upper bound; None with a `low` means above the server's largest bound."""
    origin: Origin = "counters"

    @property
    def is_range(self) -> bool:
        return self.low is not None

    def to_json(self) -> dict[str, Any]:
        """The stored and served form: `provenance` has the key `how`."""
        return {_STORED_NAMES.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "ServerMetric":
        """The figure that `to_json` gave, also from a version that interpolated within buckets or stored no origin."""
        names = {key: name for name, key in _STORED_NAMES.items()}
        metric = cls(**{names.get(key, key): value for key, value in stored.items()})
        provenance = english(metric.provenance)
        if metric.low is not None and metric.value is not None:
            return replace(metric, value=None, provenance=bucket_of(provenance.partition(_OLD_QUANTILE)[0]))
        if "origin" not in stored and provenance.startswith(_OLD_STATED):
            return replace(metric, origin="answers")
        return metric


def bucket_of(key: str) -> str:
    """The provenance of a percentile that is known only by its bucket in the histogram `key`."""
    return _("{key}, the bucket that holds it, difference of two readings", key=key)
