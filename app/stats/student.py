"""Student's t distribution: two-sided p-values and quantiles for any degrees of freedom, also fractional ones; and
Welch's degrees of freedom.

The tail is the regularized incomplete beta function I_x(df / 2, 1 / 2) at x = df / (df + t^2) (Abramowitz and Stegun
26.7.1), evaluated by its continued fraction (ibid. 26.5.8) with Lentz's method.
"""

import math
from collections.abc import Sequence
from functools import cache

CONFIDENCE = 0.95
_TINY = 1e-300
_PRECISION = 1e-12


def two_sided_p(t: float, degrees_of_freedom: float) -> float:
    """The chance that |T| is at least |t|. `degrees_of_freedom` > 0; inf gives the normal distribution.

    >>> round(two_sided_p(2.776, 4), 4)
    0.05
    """
    if math.isinf(t):
        return 0.0
    if math.isinf(degrees_of_freedom):
        return math.erfc(abs(t) / math.sqrt(2))
    x = degrees_of_freedom / (degrees_of_freedom + t * t)
    return _regularized_beta(x, degrees_of_freedom / 2, 0.5)


@cache
def t_quantile(degrees_of_freedom: float, alpha: float = 1 - CONFIDENCE) -> float:
    """The t whose two-sided p-value is `alpha`, 0 < alpha < 1; found by bisection.

    >>> round(t_quantile(4), 3), round(t_quantile(9.5, 0.01), 3)
    (2.776, 3.207)
    """
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees_of_freedom) > alpha:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, degrees_of_freedom) > alpha else (low, middle)
    return high


def welch_freedom(variances: Sequence[float], freedoms: Sequence[float]) -> float:
    """Degrees of freedom of a sum of independent variance estimates, of which at least one is positive.

    `freedoms` are those of each estimate. Welch (Biometrika 1947) and Satterthwaite (Biometrics Bulletin 1946).

    >>> round(welch_freedom([1 / 3, 4 / 3], [2, 2]), 2)
    2.94
    """
    total = sum(variances)
    return 1 / sum((variance / total) ** 2 / freedom for variance, freedom in zip(variances, freedoms, strict=True))


def _regularized_beta(x: float, a: float, b: float) -> float:
    """Returns I_x(a, b) for 0 <= x <= 1."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side only
        return 1 - _regularized_beta(1 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) / (a * _fraction(x, a, b))


def _fraction(x: float, a: float, b: float) -> float:
    """Returns 1 + d1 / (1 + d2 / (1 + ...)) by the modified Lentz method."""
    value = numerator_ratio = 1.0
    denominator_ratio = 0.0
    for step in range(1, 1000):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator_ratio = 1 / (1 + term * denominator_ratio or _TINY)
        numerator_ratio = 1 + term / numerator_ratio or _TINY
        value *= numerator_ratio * denominator_ratio
        if abs(numerator_ratio * denominator_ratio - 1) < _PRECISION:
            break
    return value
