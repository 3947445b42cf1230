"""What the explorer is asked for. All of it stands in the address."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, time

from app.charts.explore.field import Field, Value
from app.charts.explore.fields import DECODE
from app.i18n import _, marked
from app.store.explore import Played, Where

SOURCES = ("client", "server", "slope", "import")
UNKNOWN = marked("not stated")
"""The series of what has no value for it."""
LONGEST = 600
"""Characters of a value in the address."""


@dataclass(frozen=True)
class View:
    x: str
    y: str
    series: str | None = None
    source: str | None = None
    """None: of each metric the source that is shown elsewhere."""
    machine: str | None = None
    model: str | None = None
    suite: str | None = None
    engine: str | None = None
    label: str | None = None
    since: date | None = None
    until: date | None = None
    """The last day, UTC."""
    raw: bool = False
    """Each observation by itself instead of medians."""
    at: str | None = None
    """Only what has this value of x, as `key` writes it."""
    among: str | None = None
    """Only this series."""

    @property
    def query(self) -> dict[str, str]:
        """As parameters of an address; `parse` reads them."""
        stated = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: "on" if value is True else str(value) for name, value in stated.items() if value}

    @property
    def is_filtered(self) -> bool:
        return any(getattr(self, name) for name in (*FILTERS, "since", "until", "at", "among"))

    @property
    def unfiltered(self) -> "View":
        return View(self.x, self.y, self.series, self.source, raw=self.raw)

    @property
    def whole(self) -> "View":
        """All points, not the runs of one."""
        return replace(self, raw=False, at=None, among=None)

    @property
    def where(self) -> Where:
        return Where(
            self.machine,
            self.model,
            self.suite,
            self.engine,
            self.label,
            since=datetime.combine(self.since, time.min, UTC) if self.since else None,
            until=datetime.combine(self.until, time.max, UTC) if self.until else None,
        )


FILTERS = ("machine", "model", "suite", "engine", "label")


def key(value: Value | None) -> str:
    """A value in an address: what it is, not how it is shown."""
    if value is None:
        return UNKNOWN
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}"
    return value if isinstance(value, str) else f"{value:.12g}"


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
    Preset(marked("Decode against quantization"), DECODE, "quantization", "model"),
    Preset(marked("TTFT against prompt length"), "ttft_ms", "prompt_tokens", "variant"),
    Preset(marked("Decode against context"), DECODE, "context_tokens", "variant"),
    Preset(marked("Throughput against concurrency"), "output_tokens_per_s", "concurrency", "variant"),
    Preset(marked("Decode per watt"), "tokens_per_s_per_watt", "quantization", "model"),
)


def offered(available: Collection[Played], known: Mapping[str, Field]) -> list[tuple[Preset, bool]]:
    """The presets, those with data first, and whether each has any."""
    found = [(preset, preset.has_data(available, known)) for preset in PRESETS]
    return sorted(found, key=lambda pair: not pair[1])


def parse(given: Mapping[str, str], known: Mapping[str, Field], usual: View) -> tuple[View, list[str]]:
    """The view without what makes no sense, one sentence for each of that; `usual` stands in for what is not given."""
    stated = {each.name: given[each.name] for each in fields(View) if given.get(each.name, "").strip()}
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
    since, until, said = _days(sound)
    asked = View(
        x=chosen.get("x", view.x),
        y=chosen.get("y", view.y),
        series=chosen.get("series", view.series),
        source=source,
        since=since,
        until=until,
        raw=sound.get("raw") == "on",
        **{name: sound.get(name) for name in (*FILTERS, "at", "among")},
    )
    return asked, problems + said


def _days(sound: Mapping[str, str]) -> tuple[date | None, date | None, list[str]]:
    days: list[date | None] = []
    problems = []
    for name in ("since", "until"):
        try:
            days.append(date.fromisoformat(sound[name]) if name in sound else None)
        except ValueError:
            problems.append(_("A day is written as in 2026-11-29; {text!r} is not.", text=sound[name][:60]))
            days.append(None)
    since, until = days
    if since and until and since > until:
        return None, None, [*problems, _("The first day is after the last one.")]
    return since, until, problems
