"""How much the speed of a series scatters where nothing is known to have changed: between runs, and between the two
sides of places like an engine update.

Runs next to each other in time are more alike than others: a warm afternoon, a busy week. Then the scatter within one
version says too little about the difference between two. So all other updates of the machine, and the two halves of
long stretches with one version, show how large such differences are; where they are larger than the runs alone
explain, errors are widened. The median of them decides, so that neither a wrong run nor a real change counts much.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from app.core.arrays import Integers, Places, np
from app.metrics.base import Metric
from app.results.history.table import HistoryTable
from app.results.series import SeriesIndex
from app.stats.runs import RunMedian, RunScatter, median_variance, run_median, run_scatter

MAX_RUNS = 10
"""The most runs of a series on either side of an update: what is further away says little about it."""
MAX_HISTORY_RUNS = 200
"""The newest runs of each machine and prompt from which their scatter is estimated."""
ASSUMED_PLACES = 4.0
"""The number of places without excess scatter that is assumed besides those that were seen."""
MIN_FOR_LONE_RUN = 5
LONE = 5.0
"""A run that is further from its neighbours than this many times their usual distance stands off alone."""
LEAST_LONE = 0.05
"""The least relative distance of a run that stands off alone."""
NORMAL_MEDIAN = 0.6745
"""The median of the absolute value of a standard normal variable."""

Scope = tuple[int, int]
"""A machine and a code of a prompt: what shares its scatter."""


class Block(NamedTuple):
    """Consecutive runs of a series with one version, or on one hardware."""

    version: str
    places: Places


def version_blocks(points: HistoryTable, places: Places, index: SeriesIndex) -> list[Block]:
    """Returns the runs of a segment split where the version changes; those of an unknown version are left out."""
    config_ids = points.config_ids[places]
    starts = [0, *(np.flatnonzero(config_ids[1:] != config_ids[:-1]) + 1).tolist(), len(places)]
    blocks: list[Block] = []
    for start, end in pairwise(starts):
        version = index.version(int(config_ids[start]))
        if version is None:
            continue
        if blocks and blocks[-1].version == version:
            blocks[-1] = Block(version, np.concatenate([blocks[-1].places, places[start:end]]))
        else:
            blocks.append(Block(version, places[start:end]))
    return blocks


def hardware_blocks(places: Places, epochs: Integers) -> list[Block]:
    """Returns the runs of a configuration split where the hardware changes; the number of changes before a run is the
    version."""
    of_runs = epochs[places]
    starts = np.flatnonzero(of_runs[1:] != of_runs[:-1]) + 1
    return [Block(str(int(epochs[part[0]])), part) for part in np.split(places, starts)]


def run_medians(points: HistoryTable, places: Places, metric: int) -> Iterator[RunMedian]:
    """Returns the medians of the runs at some places that have a value of the `metric`-th metric."""
    columns = (column[places].tolist() for column in points.readings[3 * metric : 3 * metric + 3])
    for value, deviation, count in zip(*columns, strict=True):
        if value > 0:
            repetitions = 1 if math.isnan(count) else max(1, int(count))
            yield run_median(value, None if math.isnan(deviation) else deviation, None, None, repetitions)


class Difference(NamedTuple):
    """The difference of the median logarithms of two groups of runs, after minus before."""

    log_ratio: float
    error: float
    cautious_z: float
    """The difference over its error, when the one run that speaks most for it is left out; 0 where nothing is left."""

    @property
    def z(self) -> float:
        return self.log_ratio / self.error if self.error > 0 else 0.0


def difference(old: Sequence[RunMedian], new: Sequence[RunMedian], scatter: RunScatter) -> Difference:
    """Returns the difference of two groups of at least one run each."""
    log_ratio, error = _difference(old, new, scatter)
    direction = math.copysign(1, log_ratio)

    def along(run: RunMedian) -> float:
        return direction * run.log_value

    cautious = [
        _cautious_z(_without(old, min(old, key=along)), new, scatter, direction),
        _cautious_z(old, _without(new, max(new, key=along)), scatter, direction),
    ]
    return Difference(log_ratio, error, direction * min(cautious))


def _without(runs: Sequence[RunMedian], left_out: RunMedian) -> list[RunMedian]:
    return [run for run in runs if run is not left_out]


def _cautious_z(old: Sequence[RunMedian], new: Sequence[RunMedian], scatter: RunScatter, direction: float) -> float:
    if not old or not new:
        return 0.0
    log_ratio, error = _difference(old, new, scatter)
    return max(0.0, direction * log_ratio) / error if error > 0 else 0.0


def _difference(old: Sequence[RunMedian], new: Sequence[RunMedian], scatter: RunScatter) -> tuple[float, float]:
    log_ratio = median(run.log_value for run in new) - median(run.log_value for run in old)
    variance = sum(
        fmean(scatter.variance_of_median(run) for run in side) * median_variance(len(side)) for side in (old, new)
    )
    return log_ratio, math.sqrt(variance)


class Scatters:
    """How much runs of one configuration differ, by machine, prompt and metric; each is computed when first asked
    for."""

    def __init__(
        self, points: HistoryTable, metrics: Sequence[Metric], index: SeriesIndex, segments: Iterable[Sequence[Block]]
    ) -> None:
        self._points, self._metrics, self._index = points, metrics, index
        self._segments: dict[Scope, list[Sequence[Block]]] = defaultdict(list)
        for blocks in segments:
            if blocks:
                self._segments[self.scope(blocks[0])].append(blocks)
        self._computed: dict[tuple[Scope, int], RunScatter] = {}

    def scope(self, block: Block) -> Scope:
        """Returns the machine and the prompt of a block."""
        first = int(block.places[0])
        return self._index.by_config[int(self._points.config_ids[first])].machine_id, self._points.prompt_code(first)

    def of(self, scope: Scope, place: int) -> RunScatter:
        """Returns the scatter of the `place`-th metric."""
        if (scope, place) not in self._computed:
            groups, runs = [], 0
            segments = sorted(self._segments[scope], key=lambda blocks: -int(blocks[-1].places[-1]))
            for group in (group for blocks in segments for group in self._groups(blocks, place)):
                if runs < MAX_HISTORY_RUNS:
                    groups.append(group)
                    runs += len(group)
            self._computed[scope, place] = run_scatter(groups, self._metrics[place].assumed_run_deviation)
        return self._computed[scope, place]

    def halves(self, scope: Scope, place: int) -> list[float]:
        """Returns the differences over their errors of both halves of each long stretch with one version."""
        scatter = self.of(scope, place)
        z_values = []
        for blocks in self._segments[scope]:
            for block in _newest(blocks):
                runs = list(run_medians(self._points, block.places[-2 * MAX_RUNS :], place))
                if len(runs) >= 4:
                    middle = len(runs) // 2
                    z_values.append(difference(runs[:middle], runs[middle:], scatter).z)
        return z_values

    def _groups(self, blocks: Sequence[Block], place: int) -> Iterator[list[RunMedian]]:
        """Returns the newest runs of each block of a segment, the newest first, without runs that stand off alone."""
        newest = _newest(blocks)
        groups = [list(run_medians(self._points, block.places[-MAX_RUNS:], place)) for block in newest]
        is_lone = iter(_lone([run.log_value for group in groups for run in group]))
        return reversed([[run for run in group if not next(is_lone)] for group in groups])


def _newest(blocks: Sequence[Block]) -> Sequence[Block]:
    """Returns the newest blocks of a segment, with about MAX_HISTORY_RUNS runs."""
    runs = 0
    for number, block in enumerate(reversed(blocks), start=1):
        runs += min(MAX_RUNS, len(block.places))
        if runs >= MAX_HISTORY_RUNS:
            return blocks[-number:]
    return blocks


def _lone(logs: Sequence[float]) -> list[bool]:
    """Returns which runs of a series are far from the median of themselves and their neighbours: something unseen
    disturbed them, and they say nothing about the scatter of the others."""
    if len(logs) < MIN_FOR_LONE_RUN:
        return [False] * len(logs)
    middles = [median(logs[max(0, min(place - 2, len(logs) - 5)) :][:5]) for place in range(len(logs))]
    usual = median(abs(later - earlier) for earlier, later in pairwise(logs)) / NORMAL_MEDIAN / math.sqrt(2)
    return [abs(value - middle) > max(LONE * usual, LEAST_LONE) for value, middle in zip(logs, middles, strict=True)]


def widening(z_values: Sequence[float]) -> tuple[float, float]:
    """Returns the factor that errors are widened by, at least 1, and the degrees of freedom it rests on; `z_values` are
    differences over their errors where nothing is known to have changed."""
    if not z_values:
        return 1.0, math.inf
    scale = median(abs(z) for z in z_values) / NORMAL_MEDIAN
    square = (ASSUMED_PLACES + len(z_values) * scale**2) / (ASSUMED_PLACES + len(z_values))
    return max(1.0, math.sqrt(square)), ASSUMED_PLACES + len(z_values)
