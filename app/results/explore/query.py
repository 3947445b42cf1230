"""The request to the explorer: its own axes, series and source, and the RunFilter that every page has.

An address holds all of it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Literal

from app.core.config_settings import NOT_STATED
from app.core.i18n import N_, _, english
from app.db.tables import Config
from app.results.explore.observations import MeasuredPoint
from app.results.fields.configuration import SETTING_PREFIX
from app.results.fields.field import Field, FieldValue
from app.results.fields.registry import DECODE
from app.results.run_filter import RunFilter, is_searchable, value_problem

SOURCES = ("client", "server", "slope", "import")
MARKS = ("median", "latest", "best")
"""What a mark of several runs shows."""
PARTS = ("machine", "model", "quantization", "engine", "hardware", "engine_version", "prompt_tokens", "settings")
"""What no mark mixes unless `mix` names it."""


@dataclass(frozen=True)
class View:
    x: str
    y: str
    series: str | None = None
    source: str | None = None
    """The source of metrics; None: each metric from the source that is shown elsewhere."""
    where: RunFilter = field(default_factory=RunFilter)
    raw: bool = False
    """Whether to show each observation instead of one mark for several."""
    mark: str | None = None
    """One of MARKS; None: the median."""
    mix: str | None = None
    """The PARTS that marks and lines may mix, separated by commas."""
    every: str | None = None
    """The PARTS of which all values are shown, however many lines that makes, separated by commas."""
    at: str | None = None
    """Limits to this value of x, as `value_key` writes it."""
    among: str | None = None
    """Limits to this line: its series and the parts that split it."""

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
    def limits(self) -> list[str]:
        """Returns the values that filters and source are set to."""
        return [*self.where.active.values(), *([self.source] if self.source else [])]

    @property
    def unfiltered(self) -> "View":
        return replace(self.whole, where=RunFilter(), raw=self.raw)

    @property
    def whole(self) -> "View":
        """Returns the view of all data points, not of one."""
        return replace(self, raw=False, at=None, among=None)

    @property
    def mixed(self) -> frozenset[str]:
        return frozenset(filter(None, (self.mix or "").split(",")))

    @property
    def shown_apart(self) -> frozenset[str]:
        return frozenset(filter(None, (self.every or "").split(",")))

    def with_parts(self, name: Literal["mix", "every"], added: Collection[str] = ()) -> "View":
        """Returns the view with more parts in `mix` or `every`; without any when none are `added`."""
        parts = (self.mixed if name == "mix" else self.shown_apart) | set(added) if added else ()
        value = ",".join(part for part in PARTS if part in parts) or None
        return replace(self, mix=value) if name == "mix" else replace(self, every=value)


VIEW_PARAMETERS = tuple(attribute.name for attribute in fields(View) if attribute.name != "where")
"""Parameters of the view itself; all others are those of RunFilter."""


def value_key(value: FieldValue | None) -> str:
    """Returns the form of a value in an address: it identifies the value and is not how it is shown."""
    if value is None:
        return NOT_STATED
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}"
    return english(value) if isinstance(value, str) else f"{value:.12g}"


def line_key(line: Sequence[FieldValue | None]) -> str:
    """Returns the form of a line in an address: its series, if any, and the parts that split it."""
    series, *parts = line
    values = [*([] if series is None and parts else [series]), *parts]
    return " · ".join(map(value_key, values))


@dataclass(frozen=True)
class Preset:
    title: str
    y: str
    x: str
    series: str
    page: str = "explore"
    """The name of the page that shows it."""

    @property
    def view(self) -> View:
        return View(self.x, self.y, self.series)

    def within(self, view: View) -> View:
        """Returns the view of this preset with the filters of another one."""
        return replace(self.view, where=view.where, source=view.source, mark=view.mark)

    def has_data(
        self, available: Collection[MeasuredPoint], fields: Mapping[str, Field], configs: Collection[Config]
    ) -> bool:
        """Whether its y was measured, and at several values of x when x is something that a suite varies or a
        setting."""
        metric, of_workload = fields[self.y].metric, fields[self.x].of_workload
        workloads = [measured.workload for measured in available if measured.metric == metric]
        if self.x.startswith(SETTING_PREFIX):
            key = self.x.removeprefix(SETTING_PREFIX)
            return bool(workloads) and len({str(config.settings.get(key)) for config in configs} - {"None"}) > 1
        if of_workload is None:
            return bool(workloads)
        return len({of_workload(workload) for workload in workloads}) > 1


PRESETS = (
    Preset(N_("Decode against quantization"), DECODE, "quantization", "model"),
    Preset(N_("Decode against context"), DECODE, "context_tokens", "variant", page="context"),
    Preset(N_("Over time"), DECODE, "started_at", "variant"),
    Preset(N_("TTFT against prompt length"), "ttft_ms", "prompt_tokens", "variant"),
    Preset(N_("Throughput against concurrency"), "output_tokens_per_s", "concurrency", "variant"),
    Preset(N_("Decode per watt"), "tokens_per_s_per_watt", "quantization", "model"),
    Preset(N_("Decode against threads"), DECODE, f"{SETTING_PREFIX}threads", "variant"),
    Preset(N_("Prefill against batch"), "prefill_tokens_per_s", f"{SETTING_PREFIX}batch", "variant"),
    Preset(N_("Prefill against micro-batch"), "prefill_tokens_per_s", f"{SETTING_PREFIX}ubatch", "variant"),
)


def rank_presets(
    available: Collection[MeasuredPoint], fields: Mapping[str, Field], configs: Collection[Config]
) -> list[tuple[Preset, bool]]:
    """Returns the presets, those with data first, and whether each has data."""
    presets = [(preset, preset.has_data(available, fields, configs)) for preset in PRESETS]
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
    mark = values.get("mark")
    if mark is not None and mark not in MARKS:
        problems.append(_("A mark is one of {marks}; {mark!r} is not.", marks=", ".join(MARKS), mark=mark[:60]))
        mark = None
    run_filter, filter_problems = RunFilter.parse_leniently(parameters)
    view = View(
        x=axes.get("x", default.x),
        y=axes.get("y", default.y),
        series=axes.get("series", None if axes else default.series),
        source=source,
        where=run_filter,
        raw=values.get("raw") == "on",
        mark=None if mark == MARKS[0] else mark,
        mix=_parse_parts(values, "mix", problems),
        every=_parse_parts(values, "every", problems),
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


def _parse_parts(values: Mapping[str, str], name: str, problems: list[str]) -> str | None:
    """Returns the parts that a parameter names, each once and in order; adds a sentence when there is an unknown
    one."""
    parts = {part.strip() for part in values.get(name, "").split(",")} - {""}
    if unknown := parts - set(PARTS):
        problems.append(
            _(
                "{name} takes some of {parts}; {part!r} is none of them.",
                name=name,
                parts=", ".join(PARTS),
                part=min(unknown)[:60],
            )
        )
    return ",".join(part for part in PARTS if part in parts) or None
