"""Where the level of a series of runs shifts, and whether it drifts.

Places to look at come from binary segmentation (Scott and Knott, Biometrics 1974; Vostrikova, Doklady 1981) over seeded
intervals (Kovács and others, Biometrika 2023), which find a shift beside others that would hide it: each interval is
split at every place, and the means on the two sides are compared with Student's t, the likelihood ratio for one shift
(Worsley, JASA 1979). Its noise is the spread of the very runs on both sides, so whatever a server does between runs
counts; it is never less than the repetitions within the runs allow. A split counts when a series without a shift would
show one as clear in fewer than one of 100 cases: Bonferroni over all splits that are looked at, with t brought to the
normal scale by Wallace's approximation (Annals of Mathematical Statistics 1959). This takes noise for independent:
which of the places are shifts, `levels` decides, since a slow drift and autocorrelated noise leave such places, too.

A run that stands off alone is no level: where it is further than `LONE` times the noise of neighbours from the middle
of itself and its two neighbours, that middle is taken for it (Tukey's running median of three). At either end, the two
nearest runs are its neighbours: the newest run alone is no shift until others agree with it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

from app.core.arrays import ArrayLike, Floats, Places, np
from app.results.history.levels import choose, relative_times
from app.stats.student import t_quantile
from app.stats.verdict import SAME_WITHIN

FALSE_ALARMS = 0.01
"""The share of series without a shift that may give an alarm; the actual share is lower, since neighbouring splits
agree."""
MIN_RUNS = 3
"""The minimum number of runs of a level."""
MIN_CHANGE = math.log1p(SAME_WITHIN)
LONGEST = 256
"""The most runs of an interval: levels are known well enough with this many, and the work grows no faster than the
series."""
LONE = 4.0
MOST_CUTS = 24
"""The most places at which a series may shift; of more, the clearest are used."""
MIN_DRIFT_Z = 3.0
"""The clarity in independent noise below which a line is not significant in any noise."""
_LEAST = 1e-7
"""The smallest noise: less than this is what rounding leaves of equal numbers."""


@dataclass(frozen=True)
class ChangePoint:
    """A place where the level of a series shifts."""

    index: int
    """The index of the first run at the new level."""
    ratio: float
    """The new level over the old one: 0.9 is 10 % less."""
    low: float
    high: float
    """The two ends of the 95 % interval of the ratio."""
    chance: float
    """The chance that independent runs without a shift show one as clear anywhere; at most FALSE_ALARMS."""

    @property
    def change(self) -> float:
        """The relative change: -0.1 is 10 % less."""
        return self.ratio - 1


@dataclass(frozen=True)
class Drift:
    """A slow change along a line on logarithms."""

    ratio: float
    """The last run over the first, on the line."""
    low: float
    high: float
    """The two ends of the 95 % interval of the ratio."""
    start: float
    """The start of the line: the mean of the logarithms at the first run."""

    @property
    def change(self) -> float:
        """The relative change over the whole series."""
        return self.ratio - 1


class Development(NamedTuple):
    """The shifts and the drift of a series."""

    points: list[ChangePoint]
    drift: Drift | None
    """The drift over the whole series; the shifts are those that are left without it."""


class _Splits(NamedTuple):
    """Splits: runs `start` to before `cut` against `cut` to before `end`; one element for each split."""

    start: Places
    cut: Places
    end: Places

    @classmethod
    def of(cls, starts: Sequence[int] | Places, length: int) -> "_Splits":
        """Returns every split of intervals of one length whose sides are levels."""
        start, offset = np.atleast_2d(starts).T, np.arange(MIN_RUNS, length - MIN_RUNS + 1)
        return cls(*(axis.ravel() for axis in np.broadcast_arrays(start, start + offset, start + length)))


class _Compared(NamedTuple):
    difference: Floats
    """The difference of the means of the logarithms, after minus before."""
    error: Floats
    """The standard error of the difference."""
    z: Floats
    """The standard normal quantile that is as unlikely as the t; 0 for a change below MIN_CHANGE."""


def change_points(
    means: ArrayLike, deviations: ArrayLike | Sequence[float | None], counts: ArrayLike
) -> list[ChangePoint]:
    """Returns the change points that `development` finds, for runs at even distances."""
    return development(means, deviations, counts).points


def development(
    means: ArrayLike,
    deviations: ArrayLike | Sequence[float | None],
    counts: ArrayLike,
    times: ArrayLike | None = None,
) -> Development:
    """Finds the shifts and the drift of a series of runs in order of time.

    `means` and `deviations` are mean and sample standard deviation of the logarithms of the repetitions, `counts` the
    number of repetitions.

    `times` are when they started, in any unit. With unknown deviations (None or not a number), the noise is the spread
    between the runs. Fewer than two levels of MIN_RUNS give nothing.
    """
    logs = np.array(means, dtype=float)
    count = len(logs)
    if count < 2 * MIN_RUNS:
        return Development([], None)
    logs = _without_lone_runs(logs)
    within = _variances(deviations, counts)
    at = np.arange(count, dtype=float) if times is None else np.array(times, dtype=float)
    series, splits = _Series(logs - logs.mean(), within), _splits(count)
    clear = NormalDist().inv_cdf(1 - FALSE_ALARMS / 2 / len(splits.cut))
    bounds = _settled(series, [0, *_cuts(series.compare(splits).z, splits, clear), count], clear)
    if len(bounds) == 2 and _line_z(logs, at) < MIN_DRIFT_Z:
        return Development([], None)
    best = choose(logs, at, _clearest(series, bounds), max(float(within.mean()), _LEAST**2))
    drift = None
    if abs(best.slope) >= MIN_CHANGE:
        line = best.slope * relative_times(at)
        half = t_quantile(count - 2 - len(best.cuts)) * best.slope_error
        drift = Drift(
            ratio=math.exp(best.slope),
            low=math.exp(best.slope - half),
            high=math.exp(best.slope + half),
            start=float((logs - line).mean() + line[0]),
        )
        series = _Series(logs - line - (logs - line).mean(), within)
    bounds = _settled(series, [0, *best.cuts, count], clear)
    widening = math.sqrt((1 + best.autocorrelation) / (1 - best.autocorrelation))
    points = [
        _point(series, _Splits(*(np.array([bound]) for bound in around)), len(splits.cut), widening)
        for around in zip(bounds, bounds[1:], bounds[2:], strict=False)
    ]
    return Development(points, drift)


def _line_z(logs: Floats, times: Floats) -> float:
    """Returns how clear a line is in independent noise, on the normal scale."""
    line, around = relative_times(times), logs - logs.mean()
    squares = float(line @ line)
    if squares == 0:
        return 0.0
    explained = float(line @ around) ** 2 / squares
    freedom = len(logs) - 2
    rest = max(float(around @ around) - explained, len(logs) * _LEAST**2)
    return (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(explained / rest))


def _clearest(series: "_Series", bounds: list[int]) -> list[int]:
    """Returns at most MOST_CUTS of the cuts, in order."""
    cuts = np.array(bounds[1:-1], dtype=int)
    if len(cuts) > MOST_CUTS:
        z = series.compare(_Splits(np.array(bounds[:-2]), cuts, np.array(bounds[2:]))).z
        cuts = np.sort(cuts[np.argsort(z)[-MOST_CUTS:]])
    return [int(cut) for cut in cuts]


class _Series:
    """Cumulative sums of a series, so that the sums of any interval are differences."""

    def __init__(self, levels: Floats, variances: Floats) -> None:
        self._sum, self._square, self._within = (
            np.concatenate(([0.0], np.cumsum(column))) for column in (levels, levels * levels, variances)
        )

    def compare(self, splits: _Splits) -> _Compared:
        start, cut, end = splits
        before, after = cut - start, end - cut
        sum_before, sum_after = self._sum[cut] - self._sum[start], self._sum[end] - self._sum[cut]
        mean_before, mean_after = sum_before / before, sum_after / after
        squares = self._square[end] - self._square[start] - sum_before * mean_before - sum_after * mean_after
        freedom = before + after - 2
        within = (self._within[end] - self._within[start]) / (before + after)
        variance = np.maximum(np.maximum(squares / freedom, within), _LEAST**2)
        difference = mean_after - mean_before
        error = np.sqrt(variance * (1 / before + 1 / after))
        z = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p((difference / error) ** 2 / freedom))
        return _Compared(difference, error, np.where(np.abs(difference) < MIN_CHANGE, 0.0, z))


def _without_lone_runs(levels: Floats) -> Floats:
    earlier = np.concatenate((levels[2:3], levels[:-1]))
    later = np.concatenate((levels[1:], levels[-3:-2]))
    middle = np.maximum(np.minimum(earlier, later), np.minimum(np.maximum(earlier, later), levels))
    noise = math.sqrt(np.mean(np.diff(levels) ** 2) / 2)  # von Neumann's: a shift hardly touches it
    return np.where(np.abs(levels - middle) > LONE * noise, middle, levels)


def _variances(deviations: ArrayLike | Sequence[float | None], counts: ArrayLike) -> Floats:
    """Returns the variance of each run's mean; an unknown one is taken as the others' are."""
    variances = np.array(deviations, dtype=float) ** 2 / np.array(counts, dtype=float).clip(1)
    is_known = np.isfinite(variances)
    usual = variances[is_known].mean() if is_known.any() else 0.0
    return np.where(is_known, variances, usual)


def _splits(count: int) -> _Splits:
    """Returns all splits to test: intervals halve in length each time, and each begins in the middle of the one
    before."""
    parts = []
    length = min(count, LONGEST)
    while length >= 2 * MIN_RUNS:
        parts.append(_Splits.of(np.append(np.arange(0, count - length, length // 2), count - length), length))
        length = length // 2 if length == 2 * MIN_RUNS else max(length // 2, 2 * MIN_RUNS)
    return _Splits(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _cuts(z: Floats, splits: _Splits, clear: float) -> list[int]:
    """Returns the clearest split, then the clearest of those whose interval it does not cut, and so on."""
    cuts = []
    while z[best := int(np.argmax(z))] >= clear:
        cut = int(splits.cut[best])
        cuts.append(cut)
        z = np.where((splits.start < cut) & (cut < splits.end), 0.0, z)
    return sorted(cuts)


def _settled(series: _Series, bounds: list[int], clear: float) -> list[int]:
    """Returns each cut moved to the clearest place between its neighbours, without those that are not clear there."""
    place = 1
    while place < len(bounds) - 1:
        splits = _Splits.of([bounds[place - 1]], bounds[place + 1] - bounds[place - 1])
        z = series.compare(splits).z
        if len(z) and z.max() >= clear:
            bounds[place] = int(splits.cut[np.argmax(z)])
            place += 1
        else:
            del bounds[place]
            place = max(1, place - 1)
    return bounds


def _point(series: _Series, split: _Splits, looked_at: int, widening: float) -> ChangePoint:
    """Returns the change point at a cut; `widening` is the factor by which autocorrelation increases the error."""
    difference, error, z = (float(column[0]) for column in series.compare(split))
    half = t_quantile(int(split.end[0] - split.start[0]) - 2) * error * widening
    return ChangePoint(
        index=int(split.cut[0]),
        ratio=math.exp(difference),
        low=math.exp(difference - half),
        high=math.exp(difference + half),
        chance=min(1.0, looked_at * math.erfc(z / math.sqrt(2))),
    )
