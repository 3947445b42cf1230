"""Whether a series of runs shifts between levels, drifts, or only wanders: models of it beside each other.

Three kinds of series look alike: one that jumps to another level, one that slides along a line, and one whose noise is
autocorrelated, so that neighbours stand on one side of the mean together. Each model has steps, a line, both or
neither, and noise of the form AR(1), and is fitted by exact maximum likelihood over a grid of the noise's coefficient
(as in Robbins, Gallagher and Lund, JASA 2016). The best one has the largest likelihood after a price for each step and
for the line, as by the Bayesian information criterion, but dearer: the price was set by simulation, so that AR(1) noise
with a coefficient of 0.7 shows a shift in fewer than 5 of 100 series (tests/compare/test_levels.py).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from app.core.arrays import Floats, np

COEFFICIENTS = tuple(0.1 * step for step in range(10))
"""The coefficients to try for the autocorrelation of neighbouring runs."""
PRICE, PRICE_SHORT = 15.5, 30.0
"""The price of a step in a long series, and by how much, divided by the number of runs, it is lower in a short one."""
_FIRST_STEP = 2
"""The number of columns before the steps: the mean and the line."""


class Levels(NamedTuple):
    """The best model of a series."""

    cuts: tuple[int, ...]
    """The steps: indexes of the first runs of new levels."""
    slope: float
    """The slope of the line from the first to the last moment; 0 without a line."""
    slope_error: float
    """The standard error of the slope."""
    autocorrelation: float
    """The autocorrelation of the remaining noise."""


def choose(levels: Floats, times: Floats, cuts: Sequence[int], variance: float) -> Levels:
    """Returns the best model of `levels`, with steps at some of `cuts` or none, and a line over `times` or none.

    `variance` is the least variance of the noise: what the repetitions within the runs allow.
    """
    models = _Models(levels, times, cuts, variance)
    fits = [fit for has_line in (False, True) for fit in models.path(has_line)]
    best = max(fits, key=_score)
    slope, error = models.slope(best)
    return Levels(tuple(cuts[step] for step in best.steps), slope, error, COEFFICIENTS[best.coefficient])


def relative_times(times: Floats) -> Floats:
    """Returns the times scaled to a mean of 0 and a distance of 1 from the first to the last."""
    span = float(times[-1] - times[0])
    return (times - times.mean()) / span if span > 0 else np.zeros(len(times))


class _Fit(NamedTuple):
    score: float
    """Twice the logarithm of the likelihood, minus the prices."""
    steps: tuple[int, ...]
    """Indexes among the cuts."""
    has_line: bool
    coefficient: int
    """The index among COEFFICIENTS."""


class _Models:
    """All models of one series: their sums of squares and products are parts of the same few matrices."""

    def __init__(self, levels: Floats, times: Floats, cuts: Sequence[int], variance: float) -> None:
        self._count, self._variance = len(levels), variance
        self._has_time = bool(times[-1] > times[0])
        is_after = np.arange(len(levels))[:, None] >= np.array(cuts, dtype=int)
        mean = np.ones(len(levels))
        columns = np.column_stack([mean, relative_times(times), is_after, levels - levels.mean()])
        first, last = (np.outer(columns[end], columns[end]) for end in (0, -1))
        squares, lagged = columns.T @ columns, columns[1:].T @ columns[:-1]
        phi = np.array(COEFFICIENTS)[:, None, None]
        # of the series without its autocorrelation: the first value by sqrt(1 - phi²), each other less phi times the
        # one before it
        self._products = squares - phi * (lagged + lagged.T) + phi**2 * (squares - first - last)
        self._steps = tuple(range(len(cuts)))

    def path(self, has_line: bool) -> list[_Fit]:
        """Returns the models with all steps, then without the step that matters least, and so on."""
        if has_line and not self._has_time:
            return []
        fits = [self._fit(self._steps, has_line)]
        while steps := fits[-1].steps:
            fewer = (self._fit(steps[:place] + steps[place + 1 :], has_line) for place in range(len(steps)))
            fits.append(max(fewer, key=_score))
        return fits

    def _fit(self, steps: tuple[int, ...], has_line: bool) -> _Fit:
        square, product = self._normal_equations(steps, has_line)
        parameters = np.asarray((_inverse(square) @ product[..., None])[..., 0], dtype=float)
        rest = self._rest(product, parameters)
        variance = np.maximum(rest / self._count, self._variance)
        likelihoods = np.log1p(-np.square(COEFFICIENTS)) - self._count * np.log(variance) - rest / variance
        best = int(np.argmax(likelihoods))
        price = PRICE - PRICE_SHORT / self._count
        paid = price * len(steps) + (price - math.log(self._count)) * has_line  # a line has no place to be chosen
        return _Fit(float(likelihoods[best]) - paid, steps, has_line, best)

    def slope(self, fit: _Fit) -> tuple[float, float]:
        """Returns the slope and its standard error."""
        if not fit.has_line:
            return 0.0, 0.0
        square, product = self._normal_equations(fit.steps, has_line=True)
        inverse = _inverse(square[fit.coefficient])
        parameters = inverse @ product[fit.coefficient]
        freedom = max(1, self._count - len(parameters))
        rest = self._rest(product, parameters)[fit.coefficient]
        variance = max(float(rest) / freedom, self._variance)
        return float(parameters[1]), math.sqrt(variance * float(inverse[1, 1]))

    def _normal_equations(self, steps: tuple[int, ...], has_line: bool) -> tuple[Floats, Floats]:
        columns = [0, *([1] if has_line else []), *(_FIRST_STEP + step for step in steps)]
        return self._products[:, columns][:, :, columns], self._products[:, columns, -1]

    def _rest(self, product: Floats, parameters: Floats) -> Floats:
        """Returns the sum of the squares that a model does not explain."""
        rest: Floats = np.maximum(self._products[:, -1, -1] - (product * parameters).sum(axis=-1), 0.0)
        return rest


def _inverse(square: Floats) -> Floats:
    """Returns the pseudoinverse: in a short series a line may be a sum of steps, and the equations have many
    solutions."""
    return np.asarray(np.linalg.pinv(square, rcond=1e-10, hermitian=True), dtype=float)


def _score(fit: _Fit) -> float:
    return fit.score
