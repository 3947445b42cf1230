"""The runs of a history as columns: as Python objects, tens of thousands of them would cost megabytes and pauses.

This module loads numpy, so only code that draws a history imports it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import isnan
from typing import Any, NamedTuple

from app.core.arrays import Array, Booleans, Floats, Integers, Places, np
from app.results.hardware import HardwareChange

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class HistoryPoint(NamedTuple):
    """One finished run at its suite's main point: only what charts and comparisons of many runs need."""

    public_id: str
    started_at: datetime
    config_id: int
    server_id: int
    suite_sha256: str
    labels: str
    """The run's own labels as JSON, which is parsed only when needed."""
    readings: tuple[float | None, ...]
    """Three readings for each requested metric: value, standard deviation and count of its samples."""

    def value(self, place: int) -> float | None:
        """Returns the value of the `place`-th metric, in its own unit."""
        return self.readings[3 * place]

    def deviation(self, place: int) -> float | None:
        """Returns the standard deviation of the `place`-th metric, in its own unit."""
        return self.readings[3 * place + 1]


class Spread(NamedTuple):
    """Value ± standard deviation along some runs, one element for each step."""

    places: Places
    """The index of a run in the middle of each step; for the first and the last step, at the end."""
    lows: list[float]
    highs: list[float]


class _TextCodes:
    """Stores texts of which most are equal: each distinct one once, and for each row its code."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def codes(self, texts: Sequence[str]) -> Integers:
        places = self._places
        return np.array([places.setdefault(text, len(places)) for text in texts], dtype=np.int32)

    @property
    def texts(self) -> list[str]:
        return list(self._places)


class HistoryTable:
    """Runs in order of time; places are indexes in this order."""

    def __init__(self, columns: Sequence[Array], prompts: Sequence[str], labels: Sequence[str]) -> None:
        self._columns = columns
        self._ids, self.at_us, self.config_ids, self.server_ids, self._prompts, self._labels, *self.readings = columns
        """`at_us`: microseconds since 1970. `readings`: as those of a HistoryPoint, NaN where one is unknown; apart,
        since the system gets back the memory of many small columns sooner than that of one large table."""
        self._prompt_texts, self._label_texts = prompts, labels

    @classmethod
    def of_rows(cls, blocks: Iterable[Sequence[Sequence[Any]]], readings: int) -> "HistoryTable":
        """Makes a table of rows in any order, block by block: the fields of a HistoryPoint and `readings` readings.

        Moments are in UTC: datetimes, or texts as SQLite stores them.
        """
        prompts, labels = _TextCodes(), _TextCodes()
        texts, numbers, floats = (_column(dtype) for dtype in ("S16", np.int32, float))
        makes = [texts, _microseconds, numbers, numbers, prompts.codes, labels.codes, *[floats] * readings]
        gathered = [bytearray() for _ in makes]  # grow where they are: arrays of each block would leave holes behind
        for block in blocks:
            for bytes_, make, column in zip(gathered, makes, zip(*block, strict=True), strict=True):
                bytes_ += make(column).tobytes()
        unordered = (np.frombuffer(gathered.pop(0), dtype=make(()).dtype) for make in makes)
        ids, at_us = next(unordered), next(unordered)
        order = np.lexsort((ids, at_us))
        columns = [ids[order], at_us[order], *(column[order] for column in unordered)]
        return cls(columns, prompts.texts, labels.texts)

    @classmethod
    def of(cls, points: Sequence[HistoryPoint]) -> "HistoryTable":
        """Makes a table of points that have readings of the same metrics."""
        rows = [(*point[:-1], *point.readings) for point in points]
        return cls.of_rows([rows] if rows else [], len(points[0].readings) if points else 0)

    def take(self, places: Places) -> "HistoryTable":
        """Returns a table of the rows at `places`, in that order."""
        return HistoryTable([column[places] for column in self._columns], self._prompt_texts, self._label_texts)

    # --- one by one ---

    def __len__(self) -> int:
        return len(self.at_us)

    def __getitem__(self, place: int) -> HistoryPoint:
        readings = [float(column[place]) for column in self.readings]
        return HistoryPoint(
            self.public_id(place),
            self.started_at(place),
            int(self.config_ids[place]),
            int(self.server_ids[place]),
            self._prompt_texts[int(self._prompts[place])],
            self.labels(place),
            tuple(None if isnan(value) else value for value in readings),
        )

    def __iter__(self) -> Iterator[HistoryPoint]:
        return (self[place] for place in range(len(self)))

    def public_id(self, place: int) -> str:
        """Returns the public id of the run at a place."""
        raw: bytes = self._ids[place]
        return raw.decode()

    def started_at(self, place: int) -> datetime:
        """Returns when the run at a place started, in UTC."""
        return _EPOCH + int(self.at_us[place]) * _MICROSECOND

    def labels(self, place: int) -> str:
        """Returns a run's own labels as JSON."""
        return self._label_texts[int(self._labels[place])]

    def prompt_code(self, place: int) -> int:
        """Returns a number that two runs of this table share when they had the same prompt."""
        return int(self._prompts[place])

    # --- columns ---

    @property
    def prompt_codes(self) -> Integers:
        """A number for each run: two runs have the same when they had the same prompt."""
        return self._prompts

    def public_ids(self, places: Sequence[int] | Places) -> list[str]:
        """Returns the public ids of the runs at these places."""
        return [raw.decode() for raw in self._ids[places].tolist()]

    def stamps(self, places: Sequence[int] | Places) -> list[str]:
        """Returns when the runs at these places started, in UTC to the second, such as `2026-11-20 12:00:00`."""
        seconds = (self.at_us[places] // 1_000_000).astype("datetime64[s]")
        return [moment.isoformat(" ") for moment in seconds.tolist()]

    def values(self, metric: int) -> Floats:
        """Returns the values of a metric; NaN for unknown ones."""
        return self.readings[3 * metric]

    def deviations(self, metric: int) -> Floats:
        """Returns the standard deviations of a metric; NaN for unknown ones."""
        return self.readings[3 * metric + 1]

    def is_known(self, metric: int) -> Booleans:
        """Returns which runs have a value of a metric."""
        return ~np.isnan(self.values(metric))

    @property
    def has_values(self) -> bool:
        """Whether any run has a value of any metric."""
        return any(not np.isnan(values).all() for values in self.readings[::3])

    @cached_property
    def used_configs(self) -> set[int]:
        """The ids of all configurations."""
        return set(np.unique(self.config_ids).tolist())

    def with_public_ids(self, public_ids: Iterable[str]) -> Places:
        """Returns the places of the runs with these public ids."""
        return np.flatnonzero(
            np.isin(self._ids, np.array([public_id.encode() for public_id in public_ids], dtype="S16"))
        )

    # --- together ---

    def segments(
        self,
        hardware: Mapping[int, Sequence[HardwareChange]],
        *,
        groups: Integers | None = None,
        by_labels: bool = False,
    ) -> list[Places]:
        """Returns the runs split by what no level or line may cross: configuration, prompt and hardware, and on request
        labels.

        `hardware` holds each server's changes in order of time. `groups` takes the place of the configurations: a
        number for each run, such as that of its series. Each segment is in order of time, and they are in the order of
        their first runs.
        """
        columns = [self.config_ids if groups is None else groups, self._prompts, self.hardware_epoch(hardware)]
        return _group_places([*columns, self._labels] if by_labels else columns)

    def hardware_epoch(self, hardware: Mapping[int, Sequence[HardwareChange]]) -> Integers:
        """Returns for each run how many of its server's hardware changes came before its start."""
        epochs = np.zeros(len(self), dtype=np.int64)
        for server_id, changes in hardware.items():
            of_server = np.flatnonzero(self.server_ids == server_id)
            epochs[of_server] = np.searchsorted(
                [microseconds(change.at) for change in changes], self.at_us[of_server], side="right"
            )
        return epochs

    def spread(self, metric: int, places: Places, limit: int) -> Spread | None:
        """Returns the spread along some runs in at most `limit` steps; None when the deviation of a run is unknown."""
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

    def steps(
        self, hardware: Mapping[int, Sequence[HardwareChange]], is_step: Callable[[int, int], bool]
    ) -> list[tuple[int, int]]:
        """Returns each two consecutive runs on a server that differ in hardware, or in their configurations where
        `is_step` returns True for them; in order of time."""
        order = np.argsort(self.server_ids, kind="stable")
        is_same = self.server_ids[order[:-1]] == self.server_ids[order[1:]]
        before, after = order[:-1][is_same], order[1:][is_same]
        pairs = np.stack([self.config_ids[before], self.config_ids[after]])
        kinds, of_kind = np.unique(pairs, axis=1, return_inverse=True)  # thousands of steps are of a few kinds
        is_kind_step = np.array([old != new and is_step(old, new) for old, new in kinds.T.tolist()], dtype=bool)
        epochs = self.hardware_epoch(hardware)
        places = np.flatnonzero(is_kind_step[of_kind.ravel()] | (epochs[before] != epochs[after]))
        places = places[np.argsort(after[places])]
        return list(zip(before[places].tolist(), after[places].tolist(), strict=True))


def _group_places(columns: Sequence[Integers]) -> list[Places]:
    """Returns the places at which all columns agree, each group in order, groups in the order of their first places."""
    if not len(columns[0]):
        return []
    order = np.lexsort(columns[::-1])  # stable: places of a group stay in order
    is_new = np.zeros(len(order), dtype=bool)
    for column in columns:
        sorted_ = column[order]
        is_new[1:] |= sorted_[1:] != sorted_[:-1]
    return sorted(np.split(order, np.flatnonzero(is_new)), key=lambda group: int(group[0]))


def merged(groups: Sequence[Places]) -> Places:
    """Returns the places of several groups, in order of time."""
    return np.sort(np.concatenate(groups))


def microseconds(moment: datetime) -> int:
    """Returns the microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def _column(dtype: Any) -> Callable[[Sequence[Any]], Array]:
    return lambda column: np.array(column, dtype=dtype)


def _microseconds(moments: Sequence[Any]) -> Integers:
    if moments and isinstance(moments[0], str):
        return np.array(moments, dtype="datetime64[us]").astype(np.int64)
    return np.array([microseconds(moment) for moment in moments], dtype=np.int64)
