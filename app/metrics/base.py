"""What a metric is: a pure function from samples to numbers.

One metric is one module of this package with a `Metric` in a module-level name `METRIC`; `app.metrics` finds it.
Definitions and keys are those of the README's metrics table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from app.samples import Sample

Source = Literal["client", "server", "slope", "import"]


@dataclass(frozen=True)
class Reading:
    """One number of one sample, from one source; `value` None has a reason."""

    source: Source
    value: float | None
    null_reason: str | None = None


@dataclass(frozen=True)
class Metric:
    key: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    explanation: str
    """What it is, in one plain sentence for a page."""
    read: Callable[[Sample], Sequence[Reading]]
    """Every source's reading of one sample; at least one, a null with a reason where there is no number."""
    formula_version: int = 1
