"""The lines of a history: what each of them joins, its name and its look.

A look is a colour, a dash and a marker. Series have the colour of their model and the dash of their quantization; of
one model alone, quantizations have the colours too. What shares both, since other settings differ, takes the next free
marker. Looks go by age, so that a line keeps its look when others are added.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple, TypeVar

from app.charts.base import MAX_SERIES, LegendEntry
from app.core.arrays import Places
from app.core.i18n import _
from app.core.units import plural
from app.db.configs import ConfigDescription
from app.results.fields.run import series_context, series_name, series_text
from app.results.hardware import HardwareChange
from app.results.history.table import HistoryTable, merged
from app.results.series import SeriesIndex

SERIES = "series"
"""What lines are made by unless a person chooses otherwise: a model in a quantization with its settings."""
CONFIGURATION = "configuration"
"""A line for each configuration, so for each version too. Else a key of `fields.run.series_titles`."""
Key = TypeVar("Key", str, int)
MAX_LINES = MAX_SERIES**2
"""The most lines with a look of their own."""


class Look(NamedTuple):
    """What tells a line apart: indexes below MAX_SERIES."""

    colour: int
    dash: int
    marker: int


@dataclass(frozen=True)
class LineEntry(LegendEntry):
    """An entry of a legend that shows and hides its line."""

    shape: tuple[int, int] | None = None
    """The indexes of its dash and of its marker; None in the background."""
    key: str = ""
    """The `meta.key` of its traces."""
    group: str = ""
    """The title that entries beside each other share: a model."""


@dataclass(frozen=True)
class Line:
    """One line of the chart, or all older ones together in the background."""

    look: Look | None
    """None: drawn in the background."""
    key: str
    """The id of its series, the fingerprint of its configuration, or the text of the field that it is made by."""
    title: str
    segments: Sequence[Places]
    """Each a line of its own: the places of runs with one prompt on one hardware."""
    group: str = ""
    """The model, under which the legend lists it."""

    @property
    def mode(self) -> str:
        """Plotly's mode: what is in the background has no line."""
        return "markers" if self.look is None else "lines+markers"

    @property
    def meta(self) -> dict[str, object]:
        """What traces say of it: `series` is the colour, `look` the dash and the marker, `key` what a legend hides."""
        if self.look is None:
            return {"series": None, "key": self.key}
        return {"series": self.look.colour, "look": self.look[1:], "key": self.key}

    def legend_entry(self, link: Callable[[str], str] | None) -> LineEntry:
        """Returns the entry of the legend; `link` gives the address of a line alone."""
        if self.look is None:
            return LineEntry(None, self.title, mode=self.mode, key=self.key)
        title = self.title.removeprefix(self.group).strip() or self.title
        leads = link(self.key) if link else None
        return LineEntry(self.look.colour, title, leads, self.mode, self.look[1:], self.key, self.group)


def lines_of(
    points: HistoryTable,
    configs: Mapping[int, ConfigDescription],
    titles: Mapping[int, str],
    by: str,
    engine_titles: Mapping[str, str],
    hardware: Mapping[int, Sequence[HardwareChange]],
    index: SeriesIndex | None,
) -> list[Line]:
    """Returns the lines; beyond MAX_LINES, the oldest together are the last one. `index` is needed for SERIES."""
    if by == SERIES and index is not None:
        return _series_lines(points, index, engine_titles, hardware)
    grouped: dict[str, list[Places]] = {}
    for segment in points.segments(hardware, by_labels=by == "label"):
        grouped.setdefault(_key(points, int(segment[0]), configs, by, engine_titles), []).append(segment)
    newest_first = _newest_first(points, grouped)
    ages = {key: int(min(points.config_ids[segment[0]] for segment in group)) for key, group in grouped.items()}
    looks = _by_age(sorted(grouped, key=lambda key: (ages[key], key)), newest_first[:MAX_LINES])
    drawn = []
    for key in newest_first[:MAX_LINES]:
        name, title = key, series_name(by, key)
        if by == CONFIGURATION:
            name, title = configs[ages[key]].fingerprint, titles[ages[key]]
        drawn.append(Line(looks[key], name, title, grouped[key]))
    return [*drawn, *_background([grouped[key] for key in newest_first[MAX_LINES:]], by)]


def _series_lines(
    points: HistoryTable,
    index: SeriesIndex,
    engine_titles: Mapping[str, str],
    hardware: Mapping[int, Sequence[HardwareChange]],
) -> list[Line]:
    """Returns the lines of series, those of a model beside each other."""
    series_ids = index.ids(points.config_ids)
    grouped: dict[int, list[Places]] = {}
    for segment in points.segments(hardware, groups=series_ids):
        grouped.setdefault(int(series_ids[segment[0]]), []).append(segment)
    titles = index.titles(grouped, engine_titles)
    newest_first = _newest_first(points, grouped)
    snapshots = {series_id: index.by_id[series_id].snapshot for series_id in sorted(newest_first[:MAX_LINES])}
    models = list(dict.fromkeys(snapshot.model for snapshot in snapshots.values()))
    quantizations = list(dict.fromkeys(snapshot.quantization for snapshot in snapshots.values()))
    preferred = {
        series_id: (
            (models.index(snapshot.model) if len(models) > 1 else quantizations.index(snapshot.quantization))
            % MAX_SERIES,
            quantizations.index(snapshot.quantization) % MAX_SERIES,
        )
        for series_id, snapshot in snapshots.items()
    }
    looks = _distinct(preferred)
    drawn = [
        Line(looks[series_id], str(series_id), titles[series_id], grouped[series_id], snapshots[series_id].model)
        for series_id in sorted(snapshots, key=lambda key: (models.index(snapshots[key].model), looks[key].dash, key))
    ]
    return [*drawn, *_background([grouped[key] for key in newest_first[MAX_LINES:]], SERIES)]


def _distinct(preferred: Mapping[int, tuple[int, int]]) -> dict[int, Look]:
    """Returns a look of its own for each of at most MAX_LINES lines: the marker of its dash, or else the next one; and
    when all are used, the next dash."""
    looks: dict[int, Look] = {}
    for key, (colour, dash) in preferred.items():
        steps = product(range(MAX_SERIES), range(MAX_SERIES))
        candidates = (
            Look(colour, (dash + by_dash) % MAX_SERIES, (dash + by_marker) % MAX_SERIES) for by_dash, by_marker in steps
        )
        looks[key] = next(look for look in candidates if look not in looks.values())
    return looks


def _by_age(oldest_first: Sequence[str], distinct: Collection[str]) -> dict[str, Look]:
    """Returns looks that differ in colour, dash and marker as long as there are enough of them."""
    shapes = [(place % MAX_SERIES, (place + place // MAX_SERIES) % MAX_SERIES) for place in range(MAX_LINES)]
    in_order = [Look(colour, shape, shape) for colour, shape in shapes]
    looks: dict[str, Look] = {}
    for age, key in enumerate(oldest_first):
        if key in distinct:
            free = (in_order[place % MAX_LINES] for place in range(age, age + MAX_LINES))
            looks[key] = next(look for look in free if look not in looks.values())
    return looks


def _newest_first(points: HistoryTable, grouped: Mapping[Key, Iterable[Places]]) -> list[Key]:
    newest = {key: max(int(points.at_us[segment[-1]]) for segment in group) for key, group in grouped.items()}
    return sorted(grouped, key=newest.__getitem__, reverse=True)


def _background(groups: Sequence[Sequence[Places]], by: str) -> list[Line]:
    if not groups:
        return []
    title = (
        plural(len(groups), "older configuration")
        if by in (SERIES, CONFIGURATION)
        else _("{others} others", others=len(groups))
    )
    return [Line(None, "others", title, [merged([segment for group in groups for segment in group])])]


def _key(
    points: HistoryTable,
    place: int,
    configs: Mapping[int, ConfigDescription],
    by: str,
    engine_titles: Mapping[str, str],
) -> str:
    """Returns the key of the line that a run belongs to; all runs of a segment belong to the same."""
    config_id = int(points.config_ids[place])
    if by in (SERIES, CONFIGURATION):
        return str(config_id)
    labels = json.loads(points.labels(place)) if by == "label" else ()
    return series_text(by, series_context(configs[config_id], engine_titles, labels))
