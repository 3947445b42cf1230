"""What a field is, what it is read from, and how its values are sorted and shown."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement

from app.core.config_settings import NOT_STATED
from app.core.configuration import Snapshot
from app.core.i18n import N_, _
from app.core.samples import Workload
from app.core.units import format_number, with_unit
from app.db.json_columns import contains
from app.suites import BUILT_IN

if TYPE_CHECKING:
    from app.db.models import KnownGeometry

FieldValue = str | float | datetime
Kind = Literal["number", "category", "time"]
NO_WORKLOAD = Workload(0, 0)
Use = Literal["series", "difference", "share"]


@dataclass(frozen=True, eq=False)
class RunContext:
    """All that a field may be read from, except measured numbers and times: a run, or many runs that share all this.

    A caller leaves the parts that it does not need empty.
    """

    snapshot: Snapshot
    engine: str = ""
    """The engine's title."""
    machine: str = ""
    server: str = ""
    suite: str = ""
    labels: tuple[str, ...] = ()
    """The labels of the run and of its configuration."""
    workload: Workload = NO_WORKLOAD
    config_title: str = ""
    """The shortest name of the configuration that still differs from the others."""
    model_name: str = ""
    """The model's name, in full where another model that is shown beside it shares it."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """What distinguishes the model's weights from those of a comparison's other models, by the title of a setting."""
    hardware: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """The plan that the run was queued with."""
    geometry: "KnownGeometry | None" = None
    reported_parameters: Any = None
    """The number of the model's parameters as its server reports it."""
    decode_ceiling: float | None = None
    """The decode ceiling in tok/s of all streams together."""


Reader = Callable[[RunContext], FieldValue | None]


def no_value(_context: RunContext) -> FieldValue | None:
    return None


def identity(value: float, _context: RunContext) -> float | None:
    """Returns the value of a metric unchanged."""
    return value


def unranked(_text: str) -> tuple[Any, ...]:
    return ()


class Disclosure(Enum):
    """Whether a field may become public in a share. `app.share.anonymize` decides how: fields of a share are read from
    an anonymised context."""

    ALWAYS = "always"
    """The anonymised context's value is always public."""
    MACHINE = "machine"
    """A neutral word replaces it unless a person ticks the machine's name."""
    LABELS = "labels"
    """It is public only when a person ticks labels."""
    SETTING = "setting"
    """Numbers and listed choices are public; other values only when a person ticks their own settings."""
    OWN_SETTING = "own setting"
    """Even its name is a person's own: it is public only when they tick their own settings."""
    NEVER = "never"


class SearchScope(Enum):
    """The tables whose columns a search reads for each run."""

    RUN = "run"
    CONFIG = "config"
    """The configuration and its model."""
    MACHINE = "machine"
    SERVER = "server"
    SERVER_WITHOUT_CONFIG = "server without config"
    """The server, for runs that have no configuration yet."""


@dataclass(frozen=True, eq=False)
class SearchColumn:
    scope: SearchScope
    column: Any
    matches: Callable[[Any, str], ColumnElement[bool]] = contains


@dataclass(frozen=True, eq=False)
class Field:
    """One thing that a run, its configuration, its model, its workload or a metric has.

    Its value is read from a context (`read`), from a `metric` of each observation by `transform`, or it is a time.
    """

    key: str
    """The key in addresses and documents of the explorer."""
    title: str
    group: str
    """One of `registry.GROUPS`."""
    kind: Kind = "category"
    unit: str = ""
    explanation: str = ""
    missing: str = N_("It is unknown.")
    """Why there is no value, in one sentence."""
    read: Reader = no_value
    texts: Mapping[Use, Reader] = field(default_factory=dict)
    """Readers for the uses that do not show the value of `read`."""
    rank: Callable[[str], tuple[Any, ...]] = unranked
    """The sort key of categories, before their names."""

    metric: str | None = None
    streams_metric: str | None = None
    """The metric that replaces `metric` at workloads with several streams."""
    transform: Callable[[float, RunContext], float | None] = identity
    better: Literal["higher", "lower"] = "higher"
    """Which values of a measured number are better."""
    of_workload: Callable[[Workload], float] | None = None
    """Reads the value from a workload, for a field that depends on the workload alone."""
    needs: Literal["", "config_title", "ceiling"] = ""
    """The part of a context that is computed only when a field needs it."""

    in_explorer: bool = True
    series_key: str = ""
    """The key in addresses of a history whose series are made by this field; empty: no series are."""
    absent: str = NOT_STATED
    """The name of the series of runs without a value."""
    difference: Literal["", "setting", "procedure"] = ""
    """Whether a comparison names it as a difference: as a setting, which a verdict can be about (hardware and
    configuration), or as part of the procedure."""
    is_always_set: bool = False
    """Whether every run has some value of it: then one that is not stated is unknown, and no difference."""
    disclosure: Disclosure = Disclosure.NEVER
    is_share_fact: bool = False
    """Whether shares list it among the circumstances of a run."""
    filter: str = ""
    """The parameter of RunFilter that limits runs to one value of it; empty: none."""
    search: tuple[SearchColumn, ...] = ()
    """The columns that a search for words reads."""

    @property
    def label(self) -> str:
        return with_unit(self.title, self.unit)

    @property
    def is_discrete(self) -> bool:
        """Whether many observations can share one value."""
        return self.metric is None and self.kind != "time"

    @property
    def is_own_setting(self) -> bool:
        """Whether a person invented the setting: then even its title is their own word."""
        return self.disclosure is Disclosure.OWN_SETTING

    @property
    def localized_title(self) -> str:
        """Returns the title in the reader's language; the name of a person's own setting stays as it is."""
        return self.title if self.is_own_setting else _(self.title)

    def metric_at(self, workload: Workload) -> str | None:
        return self.metric if self.streams_metric is None or workload.concurrency == 1 else self.streams_metric

    def text(self, use: Use, context: RunContext) -> str:
        """Returns the value in the reader's language as one use shows it; empty when there is none."""
        value = self.texts.get(use, self.read)(context)
        return "" if value is None else format_value(value)

    @property
    def remedy(self) -> str:
        """Returns a sentence on what would give this field another value."""
        of_workload = self.of_workload
        if of_workload is None:
            return _("measure with another one to see a difference")
        for key, suite in BUILT_IN.items():
            if len({of_workload(case.point) for case in suite.cases}) > 1:
                return _("run the `{suite}` suite to see others", suite=key)
        return _("run a suite that has several to see others")


def natural_key(text: str) -> tuple[tuple[int, float, str], ...]:
    """Returns a sort key that puts b999 before b6301.

    >>> sorted(["b6301", "B999", "a"], key=natural_key)
    ['a', 'B999', 'b6301']
    """
    parts = re.findall(r"\d+|\D+", text.casefold())
    return tuple((0, float(part), "") if part.isdecimal() and len(part) < 16 else (1, 0.0, part) for part in parts)


def sort_key(field: Field, value: FieldValue | None) -> tuple[Any, ...]:
    """Returns a sort key for a field's values; unknown ones come last."""
    if value is None:
        return (1,)
    return (0, field.rank(value), natural_key(value), value) if isinstance(value, str) else (0, value)


def format_value(value: FieldValue | None) -> str:
    """Returns a value as a person reads it, without its unit.

    >>> format_value(4096), format_value(71.23), format_value(datetime(2026, 8, 1)), format_value("Q8_0")
    ('4,096', '71.2', '2026-08-01', 'Q8_0')
    """
    if isinstance(value, datetime):
        has_time = (value.hour, value.minute, value.second) != (0, 0, 0)
        return f"{value:%Y-%m-%d %H:%M}" if has_time else f"{value:%Y-%m-%d}"
    if isinstance(value, int):  # counts: 8 streams, not 8.00
        return f"{value:,}"
    return value if isinstance(value, str) else format_number(value)
