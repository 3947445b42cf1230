"""What the explorer is asked for. All of it stands in the address."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime

from app.core.i18n import N_, _, english
from app.results.explore.field import Field, Value
from app.results.explore.observations import Played
from app.results.explore.registry import DECODE
from app.results.run_filter import LONGEST, RunFilter

SOURCES = ("client", "server", "slope", "import")
UNKNOWN = N_("not stated")
"""The series of what has no value for it."""


@dataclass(frozen=True)
class View:
    x: str
    y: str
    series: str | None = None
    source: str | None = None
    """None: of each metric the source that is shown elsewhere."""
    where: RunFilter = field(default_factory=RunFilter)
    raw: bool = False
    """Each observation by itself instead of medians."""
    at: str | None = None
    """Only what has this value of x, as `key` writes it."""
    among: str | None = None
    """Only this series."""

    @property
    def query(self) -> dict[str, str]:
        """As parameters of an address; `parse` reads them."""
        stated = {name: getattr(self, name) for name in OWN}
        return {name: "on" if value is True else str(value) for name, value in stated.items() if value} | (
            self.where.active
        )

    @property
    def is_filtered(self) -> bool:
        return bool(self.where.active or self.at or self.among)

    @property
    def unfiltered(self) -> "View":
        return View(self.x, self.y, self.series, self.source, raw=self.raw)

    @property
    def whole(self) -> "View":
        """All points, not the runs of one."""
        return replace(self, raw=False, at=None, among=None)


OWN = tuple(each.name for each in fields(View) if each.name != "where")
"""Parameters of its own; the others are those of RunFilter."""


def key(value: Value | None) -> str:
    """A value in an address: what it is, not how it is shown."""
    if value is None:
        return UNKNOWN
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

    def has_data(self, available: Collection[Played], known: Mapping[str, Field]) -> bool:
        """Whether its y was measured, and at several values of x where x is something that a suite varies."""
        x, y = known[self.x], known[self.y]
        points = [each.point for each in available if each.metric == y.metric]
        return len({x.of_point(point) for point in points}) > 1 if x.of_point else bool(points)


PRESETS = (
    Preset(N_("Decode against quantization"), DECODE, "quantization", "model"),
    Preset(N_("TTFT against prompt length"), "ttft_ms", "prompt_tokens", "variant"),
    Preset(N_("Decode against context"), DECODE, "context_tokens", "variant"),
    Preset(N_("Throughput against concurrency"), "output_tokens_per_s", "concurrency", "variant"),
    Preset(N_("Decode per watt"), "tokens_per_s_per_watt", "quantization", "model"),
)


def offered(available: Collection[Played], known: Mapping[str, Field]) -> list[tuple[Preset, bool]]:
    """The presets, those with data first, and whether each has any."""
    found = [(preset, preset.has_data(available, known)) for preset in PRESETS]
    return sorted(found, key=lambda pair: not pair[1])


def parse(given: Mapping[str, str], known: Mapping[str, Field], usual: View) -> tuple[View, list[str]]:
    """The view without what makes no sense, one sentence for each of that; `usual` stands in for what is not given."""
    stated = {name: given[name] for name in OWN if given.get(name, "").strip()}
    sound = {name: value for name, value in stated.items() if len(value) <= LONGEST and "\0" not in value}
    problems = [
        _("The value of {name} is none that can be looked for.", name=name) for name in stated if name not in sound
    ]
    chosen = {axis: sound[axis] for axis in ("x", "y", "series") if axis in sound}
    for axis, name in list(chosen.items()):
        if name not in known:
            problems.append(_("There is no field called {name!r} for {axis}.", name=name[:60], axis=axis))
            del chosen[axis]
        elif axis == "series" and not known[name].is_discrete:
            problems.append(_("{field} differs from run to run, so it makes no series.", field=known[name].title))
            del chosen[axis]
    view = replace(usual, series=None) if chosen else usual
    source = sound.get("source")
    if source is not None and source not in SOURCES:
        problems.append(
            _("A source is one of {known}; {source!r} is not.", known=", ".join(SOURCES), source=source[:60])
        )
        source = None
    where, more_problems = RunFilter.parse_leniently(given)
    asked = View(
        x=chosen.get("x", view.x),
        y=chosen.get("y", view.y),
        series=chosen.get("series", view.series),
        source=source,
        where=where,
        raw=sound.get("raw") == "on",
        at=sound.get("at"),
        among=sound.get("among"),
    )
    return asked, problems + more_problems
