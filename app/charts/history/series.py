"""Which series a history has: what stands in each, what it is called, and what it looks like."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from app.charts.base import MAX_SERIES
from app.configuration import setting_title
from app.store.config_fields import FIELDS, field
from app.store.configs import Described
from app.store.history import HardwareChange, HistoryPoint, stretches
from app.units import plural

CONFIGURATION = "configuration"
"""What series are made by unless a person says otherwise; else a key of `config_fields.fields_of`."""


@dataclass(frozen=True)
class Series:
    index: int | None
    """None: drawn in the background."""
    key: str
    """The fingerprint of its configuration, or the words of the field that it is made by."""
    title: str
    stretches: Sequence[Sequence[HistoryPoint]]
    """Each a line of its own: runs of one configuration with one prompt on one hardware."""

    @property
    def mode(self) -> str:
        """Points of everything else make no line."""
        return "markers" if self.index is None else "lines+markers"


def series_of(
    points: Sequence[HistoryPoint],
    configs: Mapping[int, Described],
    titles: Mapping[int, str],
    by: str,
    engine_titles: Mapping[str, str],
    hardware: Mapping[int, Sequence[HardwareChange]],
) -> list[Series]:
    """Those with the newest runs first, each distinct; all others are together the last one."""
    key_of = _keys(configs, by, engine_titles)
    grouped: dict[str, list[HistoryPoint]] = {}
    for point in points:
        grouped.setdefault(key_of(point), []).append(point)
    newest_first = sorted(grouped, key=lambda key: grouped[key][-1].started_at, reverse=True)
    distinct, others = newest_first[:MAX_SERIES], set(newest_first[MAX_SERIES:])
    ages = {key: min(point.config_id for point in grouped[key]) for key in grouped}
    places = _places(sorted(grouped, key=lambda key: (ages[key], key)), distinct)
    found = []
    for key in distinct:
        config_id = grouped[key][0].config_id
        name, title = key, _title(by, key)
        if by == CONFIGURATION:
            name, title = configs[config_id].snapshot.fingerprint, titles[config_id]
        found.append(Series(places[key], name, title, stretches(grouped[key], hardware)))
    if others:
        title = plural(len(others), "older configuration") if by == CONFIGURATION else f"{len(others)} others"
        found.append(Series(None, "", title, [[point for point in points if key_of(point) in others]]))
    return found


def _keys(configs: Mapping[int, Described], by: str, engine_titles: Mapping[str, str]) -> Callable[[HistoryPoint], str]:
    if by == CONFIGURATION:
        return lambda point: str(point.config_id)

    @cache
    def value(config_id: int, labels: str) -> str:
        return field(configs[config_id], by, engine_titles, json.loads(labels))

    return lambda point: value(point.config_id, point.labels if by == "label" else "[]")


def _title(by: str, value: str) -> str:
    """A number says nothing without the name of its setting."""
    return value if by in FIELDS else f"{setting_title(by)} {value}"


def _places(oldest_first: Sequence[str], distinct: Collection[str]) -> dict[str, int]:
    """Which of the looks each series has: by its age among all, so that it keeps it when others come."""
    places: dict[str, int] = {}
    for age, key in enumerate(oldest_first):
        if key in distinct:
            free = [place % MAX_SERIES for place in range(age, age + MAX_SERIES)]
            places[key] = next(place for place in free if place not in places.values())
    return places
