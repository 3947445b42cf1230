"""The public content of a share: built field by field, stored, and never computed again."""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.charts import Figure
from app.core.errors import Conflict
from app.core.i18n import Text, _
from app.core.units import format_number, with_unit

SCHEMA_VERSION = 2
"""The version of the stored form, whose texts are messages. In version 1 they are English sentences, which stay as they
are."""
READABLE_VERSIONS = (1, SCHEMA_VERSION)
SCHEMA = "roofmark.share/1"
"""The schema of the public document, whose texts are English in either version."""

Words = Text | str
"""A message, or a text that is the same in every language."""

Cell = int | float | Text | str | None
"""Numbers unrounded, counts as integers; None is unknown."""


def format_cell(cell: Cell) -> str:
    """The text that a person reads."""
    if isinstance(cell, str):
        return cell
    return f"{cell:,}" if isinstance(cell, int) else format_number(cell)


@dataclass(frozen=True)
class Fact:
    title: Words
    value: Words


@dataclass(frozen=True)
class Tile:
    """One large number."""

    title: Words
    value: float | None
    unit: str
    standard_deviation: float | None = None
    low: float | None = None
    high: float | None = None
    """The two ends of the 95 % interval."""
    samples: int | None = None
    """The number of samples; None: computed, not measured."""
    source: Words = ""
    reason: Words = ""
    """Why there is no value."""


@dataclass(frozen=True)
class CeilingShare:
    """The share of a ceiling that was reached."""

    title: Words
    share: float
    """The share of the ceiling: 1 is all of it; never clamped."""
    ceiling: float
    unit: str
    words: Words
    """The arithmetic of the ceiling."""


@dataclass(frozen=True)
class VerdictLine:
    """What may be concluded about one result of a comparison."""

    title: Words
    """The two results: `Q8_0 against Q4_K_M`."""
    verdict: str
    """better, worse, same, inconclusive or mixed; empty without one."""
    words: Words


@dataclass(frozen=True)
class MetricBar:
    """One result of a comparison, by one metric."""

    name: Words
    value: float | None
    share: float
    """How long its bar is: the largest value has 1."""
    change: Words = ""
    """What it is against the first result, such as `51 % slower`; empty for the first."""
    verdict: str = ""
    is_best: bool = False


@dataclass(frozen=True)
class MetricBars:
    """All results of a comparison, by one metric."""

    title: Words
    unit: str
    wish: Words
    """Whether lower or higher is better."""
    bars: tuple[MetricBar, ...]


@dataclass(frozen=True)
class Column:
    title: Words
    unit: str = ""
    is_text: bool = False

    @property
    def heading(self) -> str:
        return with_unit(self.title, self.unit)


@dataclass(frozen=True)
class DataTable:
    """A table of numbers."""

    title: Words
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_brief: bool = False
    """Whether it is short enough for a post in a forum."""


@dataclass(frozen=True)
class Chart:
    title: Words
    figure: Figure
    size: str = ""
    """A class of the style sheet; empty for the usual height."""


@dataclass(frozen=True)
class UserText:
    """A person's own words, public only because they ticked them."""

    title: Words
    text: str


@dataclass(frozen=True)
class Snapshot:
    kind: str
    """run, comparison, explorer or ceiling."""
    title: str
    description: str
    """One sentence for readers who see only the link."""
    subtitle: Words = ""
    """One line: the hardware, the software and the date."""
    warnings: tuple[Words, ...] = ()
    """What to know before believing a number: what disturbed a run, what its samples have, what is not comparable."""
    verdicts: tuple[VerdictLine, ...] = ()
    metric_bars: tuple[MetricBars, ...] = ()
    tiles: tuple[Tile, ...] = ()
    bars: tuple[CeilingShare, ...] = ()
    facts: tuple[Fact, ...] = ()
    figures: tuple[DataTable, ...] = ()
    charts: tuple[Chart, ...] = ()
    remarks: tuple[Words, ...] = ()
    """How to read the numbers."""
    prose: tuple[UserText, ...] = ()

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = _adapter().dump_python(self)
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any], schema_version: int) -> "Snapshot":
        """Reads a stored snapshot. Raises Conflict for one that this version cannot read."""
        if schema_version not in READABLE_VERSIONS:
            raise Conflict(
                _(
                    "This share has version {version}, and this version of Roofmark reads version {supported}: create "
                    "the link again, or open it with the version that made it.",
                    version=schema_version,
                    supported=SCHEMA_VERSION,
                )
            )
        try:
            return _adapter().validate_python(values)
        except ValidationError as error:
            raise Conflict(_("This share is damaged and cannot be shown: create the link again.")) from error

    @property
    def digest(self) -> str:
        """A hash of all but the title: a preview with the same digest showed exactly what becomes public."""
        text = json.dumps(replace(self, title="").to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@cache
def _adapter() -> TypeAdapter[Snapshot]:
    return TypeAdapter(Snapshot)
