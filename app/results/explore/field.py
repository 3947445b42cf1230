"""What a field of the explorer is, and how its values are sorted."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from app.core.i18n import N_, _
from app.core.samples import Workload
from app.core.units import with_unit
from app.db.models import KnownGeometry
from app.db.tables import Config, Model
from app.suites import BUILT_IN

Value = str | float | datetime
Kind = Literal["number", "category", "time"]


@dataclass(frozen=True, eq=False)
class GroupContext:
    """What many observations share: all that a field may read except measured numbers and times."""

    config: Config
    model: Model
    told: KnownGeometry | None
    """The model's geometry."""
    title: str
    """Of the configuration, as short as it can be and still differ from the others."""
    machine: str
    server: str
    engine: str
    """Its title."""
    suite: str
    point: Workload
    labels: tuple[str, ...]
    """Of the run and of its configuration."""
    decode_ceiling: float | None
    """tok/s of all streams together; only where a field needs it."""


def _unread(_spot: GroupContext) -> Value | None:
    return None


def identity(value: float, _spot: GroupContext) -> float | None:
    """A metric as it was measured."""
    return value


def _unranked(_text: str) -> tuple[Any, ...]:
    return ()


@dataclass(frozen=True)
class Field:
    """Either `read` from what observations share, or from a `metric` of each observation by `turn`, or its time."""

    name: str
    title: str
    group: str
    kind: Kind
    unit: str = ""
    explanation: str = ""
    missing: str = N_("It is not known of them.")
    """Why there is no value, in one sentence."""
    read: Callable[[GroupContext], Value | None] = _unread
    metric: str | None = None
    streams_metric: str | None = None
    """In its place at points with several streams."""
    turn: Callable[[float, GroupContext], float | None] = identity
    rank: Callable[[str], tuple[Any, ...]] = _unranked
    """What categories are sorted by, before their names."""
    of_point: Callable[[Workload], float] | None = None
    """How it is read from a point, where it is a matter of points alone."""
    needs: Literal["", "title", "ceiling"] = ""
    """What of a Spot costs something to find out."""

    @property
    def label(self) -> str:
        return with_unit(self.title, self.unit)

    def metric_at(self, point: Workload) -> str | None:
        return self.metric if self.streams_metric is None or point.concurrency == 1 else self.streams_metric

    @property
    def is_discrete(self) -> bool:
        """Whether many observations can share one value."""
        return self.metric is None and self.kind != "time"

    @property
    def is_of_point(self) -> bool:
        return self.of_point is not None

    @property
    def remedy(self) -> str:
        """What would give this field another value."""
        if self.of_point is not None:
            of = self.of_point
            suite = next((k for k, each in BUILT_IN.items() if len({of(case.point) for case in each.cases}) > 1), None)
            return (
                _("run the `{suite}` suite to see others", suite=suite)
                if suite
                else _("run a suite that has several to see others")
            )
        return _("measure with another one to see a difference")


def natural(text: str) -> tuple[tuple[int, float, str], ...]:
    """Sorts b999 before b6301.

    >>> sorted(["b6301", "B999", "a"], key=natural)
    ['a', 'B999', 'b6301']
    """
    parts = re.findall(r"\d+|\D+", text.casefold())
    return tuple((0, float(part), "") if part.isdecimal() and len(part) < 16 else (1, 0.0, part) for part in parts)


def order(field: Field, value: Value | None) -> tuple[Any, ...]:
    """A key to sort a field's values by; the unknown comes last."""
    if value is None:
        return (1,)
    return (0, field.rank(value), natural(value), value) if isinstance(value, str) else (0, value)
