"""What a server itself counted while a run went on: the language between engines, which read it, and those who show it.

Counters belong to the server, not to one request: they tell of the whole run, warm-ups and strangers included.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from app.core.i18n import _, english

Statistic = Literal["mean", "p50", "p99", "max", "total", "now"]
Origin = Literal["counters", "answers"]
"""Counters of all requests, or the sum of what came with each answer."""

_OLD_QUANTILE, _OLD_STATED = ", interpolated within its bucket", "stated with "


@dataclass(frozen=True)
class ServerMetric:
    """One figure: a `value`, or where a histogram tells no more, the bounds of the bucket that holds it."""

    name: str
    """`ttft_ms`, ...: a metric of the same name is about the same thing."""
    statistic: Statistic
    unit: str
    value: float | None
    """None: somewhere between `low` and `high`."""
    how: str
    """How it was told: the server's own name for it, and what was done with it."""
    low: float | None = None
    high: float | None = None
    """None beside a `low`: above the largest bound that the server has."""
    origin: Origin = "counters"

    @property
    def is_range(self) -> bool:
        return self.low is not None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "ServerMetric":
        """Older runs kept a value that was interpolated within its bucket, and did not say where a figure is from."""
        figure = cls(**stored)
        if figure.low is not None and figure.value is not None:
            how = bucket_of(english(figure.how).partition(_OLD_QUANTILE)[0])
            return cls(figure.name, figure.statistic, figure.unit, None, how, figure.low, figure.high)
        if "origin" not in stored and english(figure.how).startswith(_OLD_STATED):
            return cls(**{**stored, "origin": "answers"})
        return figure


def bucket_of(key: str) -> str:
    """How a percentile of a histogram is told."""
    return _("{key}, the bucket that holds it, difference of two readings", key=key)
