"""The request to the explorer: its own axes, series and source, and the RunFilter that every page has.

An address holds all of it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime

from app.core.config_settings import NOT_STATED
from app.core.i18n import N_, _, english
from app.results.explore.observations import MeasuredPoint
from app.results.fields.field import Field, FieldValue
from app.results.fields.registry import DECODE
from app.results.run_filter import RunFilter, is_searchable, value_problem

SOURCES = ("client", "server", "slope", "import")


@dataclass(frozen=True)
class View:
    x: str
    y: str
    series: str | None = None
    source: str | None = None
    """The source of metrics; None: each metric from the source that is shown elsewhere."""
    where: RunFilter = field(default_factory=RunFilter)
    raw: bool = False
    """Whether to show each observation instead of medians."""
    at: str | None = None
    """Limits to this value of x, as `value_key` writes it."""
    among: str | None = None
    """Limits to this series."""

    @property
    def query(self) -> dict[str, str]:
        """Returns the view as parameters of an address; `parse_view` reads them."""
        values = {name: getattr(self, name) for name in VIEW_PARAMETERS}
        own = {name: "on" if value is True else str(value) for name, value in values.items() if value}
        return own | self.where.active

    @property
    def is_filtered(self) -> bool:
        return bool(self.where.active or self.at or self.among)

    @property
    def unfiltered(self) -> "View":
        return View(self.x, self.y, self.series, self.source, raw=self.raw)

    @property
    def whole(self) -> "View":
        """Returns the view of all data points, not of one."""
        return replace(self, raw=False, at=None, among=None)


VIEW_PARAMETERS = tuple(attribute.name for attribute in fields(View) if attribute.name != "where")
"""Parameters of the view itself; all others are those of RunFilter."""


def value_key(value: FieldValue | None) -> str:
    """Returns the form of a value in an address: it identifies the value and is not how it is shown."""
    if value is None:
        return NOT_STATED
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}"
    return english(value) if isinstance(value, str) else f"{value:.12g}"


@dataclass(frozen=True)
class Preset:
    title: str
    y: str
    x: str
    series: str

    @property
    def view(self) -> View:
        return View(self.x, self.y, self.series)

    def has_data(self, available: Collection[MeasuredPoint], fields: Mapping[str, Field]) -> bool:
        """Whether its y was measured, and at several values of x when x is something that a suite varies."""
        metric, of_workload = fields[self.y].metric, fields[self.x].of_workload
        workloads = [measured.workload for measured in available if measured.metric == metric]
        if of_workload is None:
            return bool(workloads)
        return len({of_workload(workload) for workload in workloads}) > 1


PRESETS = (
    Preset(N_("Decode against quantization"), DECODE, "quantization", "model"),
    Preset(N_("TTFT against prompt length"), "ttft_ms", "prompt_tokens", "variant"),
    Preset(N_("Decode against context"), DECODE, "context_tokens", "variant"),
    Preset(N_("Throughput against concurrency"), "output_tokens_per_s", "concurrency", "variant"),
    Preset(N_("Decode per watt"), "tokens_per_s_per_watt", "quantization", "model"),
)


def rank_presets(available: Collection[MeasuredPoint], fields: Mapping[str, Field]) -> list[tuple[Preset, bool]]:
    """Returns the presets, those with data first, and whether each has data."""
    presets = [(preset, preset.has_data(available, fields)) for preset in PRESETS]
    return sorted(presets, key=lambda pair: not pair[1])


def parse_view(parameters: Mapping[str, str], fields: Mapping[str, Field], default: View) -> tuple[View, list[str]]:
    """Parses the view; whatever makes no sense is left out and gives one sentence each. `default` has the missing
    axes."""
    filled = {name: parameters[name] for name in VIEW_PARAMETERS if parameters.get(name, "").strip()}
    values = {name: text for name, text in filled.items() if is_searchable(text)}
    problems = [value_problem(name) for name in filled if name not in values]
    axes = _parse_axes(values, fields, problems)
    source = values.get("source")
    if source is not None and source not in SOURCES:
        problems.append(
            _("A source is one of {sources}; {source!r} is not.", sources=", ".join(SOURCES), source=source[:60])
        )
        source = None
    run_filter, filter_problems = RunFilter.parse_leniently(parameters)
    view = View(
        x=axes.get("x", default.x),
        y=axes.get("y", default.y),
        series=axes.get("series", None if axes else default.series),
        source=source,
        where=run_filter,
        raw=values.get("raw") == "on",
        at=values.get("at"),
        among=values.get("among"),
    )
    return view, problems + filter_problems


def _parse_axes(values: Mapping[str, str], fields: Mapping[str, Field], problems: list[str]) -> dict[str, str]:
    """Returns the field keys for x, y and series, as far as they make sense; adds a sentence for each that does not."""
    axes = {}
    for axis in ("x", "y", "series"):
        key = values.get(axis)
        if key is None:
            continue
        if key not in fields:
            problems.append(_("There is no field called {name!r} for {axis}.", name=key[:60], axis=axis))
        elif axis == "series" and not fields[key].is_discrete:
            problems.append(_("{field} differs from run to run, so it makes no series.", field=fields[key].title))
        else:
            axes[axis] = key
    return axes
