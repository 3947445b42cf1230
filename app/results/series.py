"""A series: what a person takes for one thing that is measured again and again.

It is machine x engine x model x quantization x settings, whatever version of the engine or driver is installed and
whenever it was measured: versions are marks on a series, not other series. A configuration is a series at one version.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmodel import Session

from app.core.arrays import Integers, np
from app.core.config_settings import IDENTITY_SETTINGS
from app.core.configuration import Snapshot, file_name, served_id
from app.db.configs import ConfigDescription, describe
from app.db.database import cached_query
from app.results.naming import distinct_titles


@dataclass(frozen=True)
class Series:
    """One series: its configurations differ only in their versions."""

    id: int
    """The lowest id of its configurations."""
    machine_id: int
    machine: str
    """The name of the machine."""
    snapshot: Snapshot
    """What all of its configurations share: without an engine version."""
    config_ids: tuple[int, ...]
    """Its configurations, in the order in which they were first measured."""


class SeriesIndex:
    """All series of a notebook."""

    def __init__(self, configs: Mapping[int, ConfigDescription]) -> None:
        self.configs = configs
        self.by_id = {series.id: series for series in _group(configs)}
        self.by_config = {config_id: series for series in self.by_id.values() for config_id in series.config_ids}

    def ids(self, config_ids: Integers) -> Integers:
        """Returns the series of each configuration of a column."""
        distinct, places = np.unique(config_ids, return_inverse=True)
        series_ids = [self.by_config[config_id].id for config_id in distinct.tolist()]
        return np.array(series_ids, dtype=np.int64)[places.ravel()]

    def version(self, config_id: int) -> str | None:
        """Returns the engine's version of a configuration; None: the server does not report it."""
        return self.configs[config_id].snapshot.engine_version

    def titles(self, series_ids: Iterable[int], engine_titles: Mapping[str, str]) -> dict[int, str]:
        """Returns a title for each series: model and quantization, the machine when there are several, and the settings
        in which equal titles differ."""
        described = {
            series_id: ConfigDescription(
                server=self.by_id[series_id].machine,
                snapshot=self.by_id[series_id].snapshot,
                machine=self.by_id[series_id].machine,
            )
            for series_id in series_ids
        }
        return distinct_titles(described, engine_titles)


def series_index(session: Session) -> SeriesIndex:
    """Returns all series of a notebook."""
    return _index(session)


@cached_query(maxsize=1)
def _index(session: Session) -> SeriesIndex:
    return SeriesIndex(describe(session))


def _group(configs: Mapping[int, ConfigDescription]) -> list[Series]:
    """Returns the series of some configurations, which are in the order in which they were first measured."""
    alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for config_id, config in configs.items():
        alike[config.machine_id, *_bare(config.snapshot)].append(config_id)
    groups = [group for members in alike.values() for group in _same_weights(members, configs)]
    return [
        Series(
            id=min(group),
            machine_id=configs[group[0]].machine_id,
            machine=configs[group[0]].machine,
            snapshot=replace(configs[group[-1]].snapshot, engine_version=None),
            config_ids=tuple(group),
        )
        for group in groups
    ]


def _bare(snapshot: Snapshot) -> tuple[Any, ...]:
    """Returns what all configurations of a series share, without what identifies the weights. A gateway's version is no
    part of it either."""
    settings = {key: value for key, value in snapshot.settings.items() if key not in IDENTITY_SETTINGS}
    if "gateway" in settings:
        settings["gateway"] = re.sub(r" \S*\d\S*$", "", str(settings["gateway"]))
    labels = tuple(sorted(snapshot.labels))
    return snapshot.engine, snapshot.model, snapshot.quantization, repr(sorted(settings.items())), labels


def _same_weights(config_ids: Sequence[int], configs: Mapping[int, ConfigDescription]) -> list[list[int]]:
    """Returns configurations that are alike but for their weights, grouped by them.

    What identifies weights counts only where it contradicts itself: one that is missing was not recorded.
    """
    weights = [_weights(configs[config_id].snapshot) for config_id in config_ids]
    columns = [column for column in zip(*weights, strict=True) if len(set(column) - {None}) > 1]
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, config_id in enumerate(config_ids):
        groups[tuple(column[place] for column in columns)].append(config_id)
    return list(groups.values())


def _weights(snapshot: Snapshot) -> tuple[Any, ...]:
    settings = snapshot.settings
    return served_id(snapshot), file_name(snapshot), settings.get("model_digest"), settings.get("model_bytes")
