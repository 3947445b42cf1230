"""Predicts a decode speed from speeds that were measured on the same hardware, with an interval.

The time of a step is taken as

    seconds = (bytes / (share x bandwidth) + cost of a layer x layers) x deviation

where the share of the bandwidth that is reached and the fixed cost of a layer are unknown, as in the fit of two runs
(app.ceiling.advice). Both have a wide prior, and their posterior is computed on a grid. What the two do not explain is
a deviation on logarithms with three parts: one that all runs of a quantization share (its kernel), one that all runs of
a model share (its architecture), and one of each run. So a speed is predicted better from runs of the same quantization
or model than from others, and the interval says by how much. On another device the kernels differ too: a fourth part.

The deviations are those of published results (tests/ceiling/test_prediction.py): predicting each from two others of its
device, at least nine of ten lie inside their interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from app.core.arrays import Array, Floats, np

INSIDE = 0.9
"""The share of results that lie inside their interval."""
QUANTIZATION_DEVIATION, MODEL_DEVIATION, RUN_DEVIATION = 0.14, 0.1, 0.03
DEVICE_DEVIATION = 0.12
USUAL_SHARE, SHARE_DEVIATION = 0.8, 0.2
"""The median of the prior of the share of the bandwidth, and its deviation on logarithms."""
USUAL_LAYER_S, LAYER_DEVIATION = 20e-6, 1.0
MOST_EVIDENCE = 16
_SHARES = (0.2, 1.05)
_LAYER_SECONDS = (1e-6, 300e-6)
_GRID = 40
_Z = NormalDist().inv_cdf((1 + INSIDE) / 2)


@dataclass(frozen=True, slots=True)
class Case:
    """A decode step of a model on a device."""

    n_bytes: int
    """The bytes that the step reads."""
    layers: int
    bandwidth_bytes_per_s: float
    model: str
    quantization: str
    device: str = ""

    @property
    def takes_time(self) -> bool:
        """Whether a time can be reckoned for it at all: some bytes over a bandwidth that is stated."""
        return 0 < self.n_bytes < math.inf and 0 < self.bandwidth_bytes_per_s < math.inf and self.layers >= 0


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    case: Case
    steps_per_s: float

    @property
    def is_usable(self) -> bool:
        return self.case.takes_time and 0 < self.steps_per_s < math.inf


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted speed in steps per second: tokens per second where each step gives one token."""

    steps_per_s: float
    low: float
    high: float
    """The two ends of the interval that holds INSIDE of the results."""
    evidence: int
    """The number of measured speeds it rests on."""

    def contains(self, steps_per_s: float) -> bool:
        return self.low <= steps_per_s <= self.high


def predict(target: Case, evidence: Sequence[MeasuredCase]) -> Prediction | None:
    """Predicts the speed of `target` from measured ones; None without any that took a time, and for a step that takes
    none.

    Of many, those that have most in common with the target count.
    """
    usable = [measured for measured in evidence if measured.is_usable]
    if not usable or not target.takes_time:
        return None
    nearest = sorted(usable, key=lambda measured: -_covariance(measured.case, target, is_same=False))[:MOST_EVIDENCE]
    cases = [measured.case for measured in nearest]
    shares, layer_s, prior = _grid()

    def log_seconds(case: Case) -> Floats:
        seconds: Floats = np.log(case.n_bytes / (shares * case.bandwidth_bytes_per_s) + layer_s * case.layers)
        return seconds

    residuals = np.array([-math.log(measured.steps_per_s) - log_seconds(measured.case) for measured in nearest])
    covariances = np.array(
        [
            [_covariance(first, second, is_same=row == column) for column, second in enumerate(cases)]
            for row, first in enumerate(cases)
        ]
    )
    with_target = np.array([_covariance(target, case, is_same=False) for case in cases])
    weights_of_evidence = np.linalg.solve(covariances, residuals)
    log_likelihood = prior - 0.5 * (residuals * weights_of_evidence).sum(axis=0)
    posterior = np.exp(log_likelihood - log_likelihood.max())
    posterior /= posterior.sum()
    predicted = -(log_seconds(target) + with_target @ weights_of_evidence)
    log_speed = float(posterior @ predicted)
    of_target = _covariance(target, target, is_same=True)
    unexplained = of_target - float(with_target @ np.linalg.solve(covariances, with_target))
    error = math.sqrt(float(posterior @ (predicted - log_speed) ** 2) + max(0.0, unexplained))
    low, middle, high = (math.exp(log_speed + z * error) for z in (-_Z, 0, _Z))
    return Prediction(middle, low, high, len(nearest))


def _covariance(first: Case, second: Case, *, is_same: bool) -> float:
    """Returns the covariance of the deviations of two runs; `is_same`: of a run with itself."""
    on_same_device = first.device == second.device
    return (
        QUANTIZATION_DEVIATION**2 * (first.quantization == second.quantization)
        + MODEL_DEVIATION**2 * (first.model == second.model)
        + DEVICE_DEVIATION**2 * on_same_device
        + RUN_DEVIATION**2 * is_same
    )


def _grid() -> tuple[Floats, Floats, Array]:
    """Returns the shares, the costs of a layer, and the logarithm of the prior of each pair."""
    log_shares, log_layers = (
        np.linspace(math.log(least), math.log(most), _GRID) for least, most in (_SHARES, _LAYER_SECONDS)
    )
    shares, layers = (axis.ravel() for axis in np.meshgrid(log_shares, log_layers))
    prior = -0.5 * (
        ((shares - math.log(USUAL_SHARE)) / SHARE_DEVIATION) ** 2
        + ((layers - math.log(USUAL_LAYER_S)) / LAYER_DEVIATION) ** 2
    )
    return np.exp(shares), np.exp(layers), prior
