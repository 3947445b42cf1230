"""What a server itself counted while a run went on: the language between engines, which read it, and those who show it.

Counters belong to the server, not to one request: they tell of the whole run, warm-ups and strangers included.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Statistic = Literal["mean", "p50", "p99", "max", "total", "now"]


@dataclass(frozen=True)
class Counted:
    """One figure. `value` lies for certain between `low` and `high` where a histogram gives no more than that."""

    name: str
    """`ttft_ms`, ...: a metric of the same name is about the same thing."""
    statistic: Statistic
    unit: str
    value: float
    how: str
    """How it was told: the server's own name for it, and what was done with it."""
    low: float | None = None
    high: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
