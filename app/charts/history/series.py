"""Which series a history has: what stands in each, what it is called, and what it looks like."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.charts.base import MAX_SERIES
from app.configuration import setting_title
from app.i18n import _
from app.store.config_fields import FIELDS, field
from app.store.configs import Described
from app.store.hardware import HardwareChange
from app.store.history import HistoryPoint, stretches
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
    grouped: dict[str, list[list[HistoryPoint]]] = {}
    for part in _by_labels(points) if by == "label" else [points]:
        for stretch in stretches(part, hardware):
            grouped.setdefault(key_of(stretch[0]), []).append(stretch)
    newest = {key: max(stretch[-1].started_at for stretch in group) for key, group in grouped.items()}
    ages = {key: min(stretch[0].config_id for stretch in group) for key, group in grouped.items()}
    newest_first = sorted(grouped, key=newest.__getitem__, reverse=True)
    distinct, others = newest_first[:MAX_SERIES], newest_first[MAX_SERIES:]
    places = _places(sorted(grouped, key=lambda key: (ages[key], key)), distinct)
    found = []
    for key in distinct:
        name, title = key, _title(by, key)
        if by == CONFIGURATION:
            name, title = configs[ages[key]].snapshot.fingerprint, titles[ages[key]]
        found.append(Series(places[key], name, title, grouped[key]))
    if others:
        title = (
            plural(len(others), "older configuration")
            if by == CONFIGURATION
            else _("{others} others", others=len(others))
        )
        rest = [point for key in others for stretch in grouped[key] for point in stretch]
        found.append(Series(None, "", title, [sorted(rest, key=lambda point: point.started_at)]))
    return found


def _by_labels(points: Sequence[HistoryPoint]) -> Iterable[list[HistoryPoint]]:
    """Runs that have the same labels of their own."""
    found: dict[str, list[HistoryPoint]] = {}
    for point in points:
        found.setdefault(point.labels, []).append(point)
    return found.values()


def _keys(configs: Mapping[int, Described], by: str, engine_titles: Mapping[str, str]) -> Callable[[HistoryPoint], str]:
    """What series a run belongs to; all runs of a stretch belong to the same."""
    if by == CONFIGURATION:
        return lambda point: str(point.config_id)
    labels = json.loads if by == "label" else lambda _: ()
    return lambda point: field(configs[point.config_id], by, engine_titles, labels(point.labels))


def _title(by: str, value: str) -> str:
    """A number says nothing without the name of its setting."""
    return _(value) if by in FIELDS else f"{_(setting_title(by))} {_(value)}"


def _places(oldest_first: Sequence[str], distinct: Collection[str]) -> dict[str, int]:
    """Which of the looks each series has: by its age among all, so that it keeps it when others come."""
    places: dict[str, int] = {}
    for age, key in enumerate(oldest_first):
        if key in distinct:
            free = [place % MAX_SERIES for place in range(age, age + MAX_SERIES)]
            places[key] = next(place for place in free if place not in places.values())
    return places
