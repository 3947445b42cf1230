"""The runs of a history as columns: as Python objects, tens of thousands of them would cost megabytes and pauses.

It loads numpy: whoever does not draw a history does without.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from app.store.hardware import HardwareChange

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Places = np.ndarray[Any, np.dtype[np.intp]]
Codes = np.ndarray[Any, np.dtype[np.int64]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class HistoryPoint(NamedTuple):
    """One done run at its suite's main point: only what charts and comparisons of many runs need."""

    public_id: str
    started_at: datetime
    config_id: int
    server_id: int
    suite_sha256: str
    labels: str
    """Its own, as JSON: parsed only by whoever needs them."""
    readings: tuple[float | None, ...]
    """Of each metric that was asked for three: value, standard deviation and count of its samples."""

    def value(self, place: int) -> float | None:
        """Of the `place`-th metric; in its own unit, as its deviation is."""
        return self.readings[3 * place]

    def deviation(self, place: int) -> float | None:
        return self.readings[3 * place + 1]


class Spread(NamedTuple):
    """Value ± standard deviation along some runs, one element for each step."""

    places: Places
    """A run in the middle of each step; of the first and the last step, at the end."""
    lows: list[float]
    highs: list[float]


class _Words:
    """Texts of which most are equal: each once, and for each row which one it is."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def codes(self, texts: Iterable[str]) -> list[int]:
        known = self.known
        return [known.setdefault(text, len(known)) for text in texts]


class Points:
    """Runs in order of time; places are those in this order."""

    def __init__(self, columns: Mapping[str, np.ndarray[Any, Any]], prompts: Sequence[str], labels: Sequence[str]):
        self._columns = columns
        self._prompts = prompts
        self._labels = labels

    @classmethod
    def of_rows(cls, blocks: Iterable[Sequence[Sequence[Any]]], readings: int) -> "Points":
        """Of rows in whatever order, block by block: the fields of a HistoryPoint and so many readings, flat.

        Moments are in UTC: datetimes, or texts as SQLite stores them.
        """
        prompts, labels = _Words(), _Words()
        parts: list[list[np.ndarray[Any, Any]]] = []
        for block in blocks:
            ids, moments, configs, servers, prompt, label, *read = zip(*block, strict=True)
            parts.append(
                [
                    np.array(ids, dtype="S16"),
                    _microseconds(moments),
                    np.array(configs),
                    np.array(servers),
                    np.array(prompts.codes(prompt), dtype=np.int32),
                    np.array(labels.codes(label), dtype=np.int32),
                    np.array(read, dtype=float).reshape(readings, len(block)),
                ]
            )
        if not parts:
            empty = np.zeros(0, dtype=np.int64)
            parts = [[empty.astype("S16"), *[empty] * 5, np.zeros((readings, 0))]]
        columns = [np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)]
        order = np.argsort(columns[1], kind="stable")
        names = ("public_ids", "at_us", "config_ids", "server_ids", "prompts", "labels", "readings")
        in_order = {name: column[..., order] for name, column in zip(names, columns, strict=True)}
        return cls(in_order, list(prompts.known), list(labels.known))

    @classmethod
    def of(cls, points: Sequence[HistoryPoint]) -> "Points":
        """Of points that have readings of the same metrics."""
        rows = [(*point[:-1], *point.readings) for point in points]
        return cls.of_rows([rows] if rows else [], len(points[0].readings) if points else 0)

    # --- one by one ---

    def __len__(self) -> int:
        return len(self.at_us)

    def __getitem__(self, place: int) -> HistoryPoint:
        return HistoryPoint(
            self.public_id(place),
            self.started_at(place),
            int(self.config_ids[place]),
            int(self.server_ids[place]),
            self._prompts[int(self._columns["prompts"][place])],
            self.labels_of(place),
            tuple(None if value != value else value for value in self.readings[:, place].tolist()),  # NaN is unknown
        )

    def __iter__(self) -> Iterator[HistoryPoint]:
        return (self[place] for place in range(len(self)))

    def public_id(self, place: int) -> str:
        found: bytes = self._columns["public_ids"][place]
        return found.decode()

    def started_at(self, place: int) -> datetime:
        return _EPOCH + int(self.at_us[place]) * _MICROSECOND

    def labels_of(self, place: int) -> str:
        """As JSON."""
        return self._labels[int(self._columns["labels"][place])]

    # --- columns ---

    def public_ids(self, places: Sequence[int] | Places) -> list[str]:
        return [each.decode() for each in self._columns["public_ids"][places].tolist()]

    def stamps(self, places: Sequence[int] | Places) -> list[str]:
        """When they started, in UTC to the second: `2026-11-20 12:00:00`."""
        seconds = (self.at_us[places] // 1_000_000).astype("datetime64[s]")
        return [each.isoformat(" ") for each in seconds.tolist()]

    @property
    def at_us(self) -> Codes:
        """Microseconds since 1970."""
        return self._columns["at_us"]

    @property
    def config_ids(self) -> Codes:
        return self._columns["config_ids"]

    @property
    def server_ids(self) -> Codes:
        return self._columns["server_ids"]

    @property
    def readings(self) -> Numbers:
        """One row for each of the readings of a HistoryPoint, NaN where it is unknown."""
        return self._columns["readings"]

    def values(self, metric: int) -> Numbers:
        return self.readings[3 * metric, :]

    def deviations(self, metric: int) -> Numbers:
        return self.readings[3 * metric + 1, :]

    def is_known(self, metric: int) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        return ~np.isnan(self.values(metric))

    @property
    def has_values(self) -> bool:
        return bool((~np.isnan(self.readings[::3])).any())

    @cached_property
    def used_configs(self) -> set[int]:
        return set(np.unique(self.config_ids).tolist())

    def with_public_ids(self, public_ids: Iterable[str]) -> Places:
        wanted = np.array([each.encode() for each in public_ids], dtype="S16")
        return np.flatnonzero(np.isin(self._columns["public_ids"], wanted))

    # --- together ---

    def stretches(self, hardware: Mapping[int, Sequence[HardwareChange]], *, by_labels: bool = False) -> list[Places]:
        """Apart by what no level or line may cross: configuration, prompt and hardware, and labels if that is wanted.

        `hardware` by server, its changes in order of time. Each stretch is in order of time, and they are in the order
        of their first runs.
        """
        apart = [self.config_ids, self._columns["prompts"], self.spells(hardware)]
        if by_labels:
            apart.append(self._columns["labels"])
        return together(apart)

    def spells(self, hardware: Mapping[int, Sequence[HardwareChange]]) -> Codes:
        """For each run, how many of its server's changes had come when it started."""
        found = np.zeros(len(self), dtype=np.int64)
        for server_id, changes in hardware.items():
            here = np.flatnonzero(self.server_ids == server_id)
            found[here] = np.searchsorted([microseconds(each.at) for each in changes], self.at_us[here], side="right")
        return found

    def spread(self, metric: int, places: Places, limit: int) -> Spread | None:
        """In at most so many steps, each of neighbours; None unless every run says how far its samples spread."""
        value, deviation = self.values(metric)[places], self.deviations(metric)[places]
        if np.isnan(deviation).any():
            return None
        count = len(places)
        steps = min(count, limit)
        bounds = np.arange(steps + 1) * count // steps
        middles = (bounds[:-1] + bounds[1:]) // 2
        middles[0], middles[-1] = 0, count - 1
        lows = np.minimum.reduceat(value - deviation, bounds[:-1]).clip(0)
        highs = np.maximum.reduceat(value + deviation, bounds[:-1])
        return Spread(places[middles], lows.tolist(), highs.tolist())

    def config_steps(self) -> set[tuple[int, int]]:
        """From which configuration to which other one a server went between two of its runs."""
        before, after = self._neighbours
        old, new = self.config_ids[before], self.config_ids[after]
        is_step = old != new
        return set(zip(old[is_step].tolist(), new[is_step].tolist(), strict=True))

    def steps(
        self, hardware: Mapping[int, Sequence[HardwareChange]], config_steps: Collection[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Two neighbouring runs of a server that differ in hardware, or by one of these steps of its configuration; in
        order of time."""
        before, after = self._neighbours
        wide = int(self.config_ids.max(initial=0)) + 1
        wanted = [old * wide + new for old, new in config_steps]
        spells = self.spells(hardware)
        is_step = np.isin(self.config_ids[before] * wide + self.config_ids[after], wanted)
        is_step |= spells[before] != spells[after]
        order = np.argsort(after[is_step])
        return list(zip(before[is_step][order].tolist(), after[is_step][order].tolist(), strict=True))

    @cached_property
    def _neighbours(self) -> tuple[Places, Places]:
        """The places of each two runs that follow one another on a server."""
        order = np.argsort(self.server_ids, kind="stable")
        is_same = self.server_ids[order[:-1]] == self.server_ids[order[1:]]
        return order[:-1][is_same], order[1:][is_same]


def together(apart: Sequence[Codes]) -> list[Places]:
    """The places at which all columns agree, each group in order, groups in the order of their first places."""
    if not len(apart[0]):
        return []
    order = np.lexsort(apart[::-1])  # stable: places of a group stay in order
    is_new = np.zeros(len(order), dtype=bool)
    for column in apart:
        sorted_ = column[order]
        is_new[1:] |= sorted_[1:] != sorted_[:-1]
    return sorted(np.split(order, np.flatnonzero(is_new)), key=lambda group: int(group[0]))


def merged(groups: Sequence[Places]) -> Places:
    """In order of time."""
    return np.sort(np.concatenate(groups))


def microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _microseconds(moments: Sequence[datetime | str]) -> Codes:
    if isinstance(moments[0], str):
        return np.array(moments, dtype="datetime64[us]").astype(np.int64)
    return np.array([microseconds(each) for each in moments if isinstance(each, datetime)], dtype=np.int64)
