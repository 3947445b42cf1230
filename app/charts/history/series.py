"""Which series a history has: what stands in each, what it is called, and what it looks like."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.charts.base import MAX_SERIES
from app.core.i18n import _
from app.core.units import plural
from app.db.configs import ConfigDescription
from app.results.fields.series import series_context, series_name, series_text
from app.results.hardware import HardwareChange

if TYPE_CHECKING:
    from app.results.history.table import HistoryTable, Places

CONFIGURATION = "configuration"
"""What series are made by unless a person says otherwise; else a key of `fields.series.series_titles`."""


@dataclass(frozen=True)
class Series:
    """One line of the chart, or all older ones together in the background."""

    index: int | None
    """None: drawn in the background."""
    key: str
    """The fingerprint of its configuration, or the words of the field that it is made by."""
    title: str
    segments: Sequence["Places"]
    """Each a line of its own: where the runs of one configuration with one prompt on one hardware are."""

    @property
    def mode(self) -> str:
        """Plotly's mode: the series in the background has no line."""
        return "markers" if self.index is None else "lines+markers"


def series_of(
    points: "HistoryTable",
    configs: Mapping[int, ConfigDescription],
    titles: Mapping[int, str],
    by: str,
    engine_titles: Mapping[str, str],
    hardware: Mapping[int, Sequence[HardwareChange]],
) -> list[Series]:
    """The series in the order of their newest runs; beyond MAX_SERIES, all others together are the last one."""
    from app.results.history.table import merged  # loads numpy: not at start

    grouped: dict[str, list[Places]] = {}
    for segment in points.segments(hardware, by_labels=by == "label"):
        grouped.setdefault(_key(points, int(segment[0]), configs, by, engine_titles), []).append(segment)
    newest = {key: max(points.at_us[segment[-1]] for segment in group) for key, group in grouped.items()}
    ages = {key: int(min(points.config_ids[segment[0]] for segment in group)) for key, group in grouped.items()}
    newest_first = sorted(grouped, key=newest.__getitem__, reverse=True)
    distinct, background = newest_first[:MAX_SERIES], newest_first[MAX_SERIES:]
    places = _places(sorted(grouped, key=lambda key: (ages[key], key)), distinct)
    drawn_series = []
    for key in distinct:
        name, title = key, series_name(by, key)
        if by == CONFIGURATION:
            name, title = configs[ages[key]].fingerprint, titles[ages[key]]
        drawn_series.append(Series(places[key], name, title, grouped[key]))
    if background:
        title = (
            plural(len(background), "older configuration")
            if by == CONFIGURATION
            else _("{others} others", others=len(background))
        )
        drawn_series.append(
            Series(None, "", title, [merged([segment for key in background for segment in grouped[key]])])
        )
    return drawn_series


def _key(
    points: "HistoryTable",
    place: int,
    configs: Mapping[int, ConfigDescription],
    by: str,
    engine_titles: Mapping[str, str],
) -> str:
    """What series a run belongs to; all runs of a segment belong to the same."""
    config_id = int(points.config_ids[place])
    if by == CONFIGURATION:
        return str(config_id)
    labels = json.loads(points.labels(place)) if by == "label" else ()
    return series_text(by, series_context(configs[config_id], engine_titles, labels))


def _places(oldest_first: Sequence[str], distinct: Collection[str]) -> dict[str, int]:
    """Which of the looks each series has: by its age among all, so that it keeps it when others come."""
    places: dict[str, int] = {}
    for age, key in enumerate(oldest_first):
        if key in distinct:
            free = [place % MAX_SERIES for place in range(age, age + MAX_SERIES)]
            places[key] = next(place for place in free if place not in places.values())
    return places
