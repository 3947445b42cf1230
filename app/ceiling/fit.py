"""Where a token's time goes: t = bytes / effective bandwidth + cost of a layer x layers.

Two runs on one machine, with two models or two quantizations, tell both unknowns.
"""

from dataclasses import dataclass

from app.ceiling.bytes_per_step import Step
from app.ceiling.decode import Device
from app.core.i18n import _, separator
from app.core.units import GIGA, format_number

MIN_DIFFERENCE = 0.05


@dataclass(frozen=True, slots=True)
class Observation:
    """One run: what a token read, how many layers it went through, how fast it was."""

    n_bytes: int
    layers: int
    tokens_per_s: float

    @property
    def seconds(self) -> float:
        return 1 / self.tokens_per_s


@dataclass(frozen=True, slots=True)
class Fit:
    bandwidth_bytes_per_s: float
    """Effective one."""
    layer_s: float
    """Fixed cost of a layer, whatever it reads."""
    notes: tuple[str, ...] = ()

    def tokens_per_s(self, n_bytes: int, layers: int) -> float:
        return 1 / (n_bytes / self.bandwidth_bytes_per_s + self.layer_s * layers)


def fit(first: Observation, second: Observation, device: Device) -> Fit | str:
    """Why there is no fit, where the two runs do not tell the unknowns apart."""
    determinant = first.n_bytes * second.layers - second.n_bytes * first.layers
    if abs(determinant) < MIN_DIFFERENCE * max(first.n_bytes, second.n_bytes) * max(first.layers, second.layers):
        return _("the two runs read nearly the same bytes for each layer, so their costs cannot be told apart")
    per_byte = (first.seconds * second.layers - second.seconds * first.layers) / determinant
    layer_s = (first.n_bytes * second.seconds - second.n_bytes * first.seconds) / determinant
    if per_byte <= 0:
        return _("the run that read more was not slower, so the two runs do not differ by their bytes")
    notes = []
    bandwidth = 1 / per_byte
    if bandwidth > device.bandwidth_bytes_per_s:
        notes.append(
            _(
                "the fit gives {bandwidth} GB/s, more than the device's {allowed}: the "
                "smaller quantization is limited by computing",
                bandwidth=format_number(bandwidth / GIGA),
                allowed=format_number(device.bandwidth_bytes_per_s / GIGA),
            )
        )
    if layer_s < 0:
        notes.append(_("the fit gives a negative cost per layer: the two runs differ in something else"))
    return Fit(bandwidth, layer_s, tuple(notes))


@dataclass(frozen=True, slots=True)
class TimeShare:
    key: str
    """weights, kv, state, layers, loss"""
    ms: float
    words: str


def waterfall(
    step: Step, device: Device, tokens_per_s: float, layers: int | None, fitted: Fit | None
) -> list[TimeShare]:
    """The milliseconds of one step, which gives each sequence a token; they add up to 1000 x batch / tokens_per_s.

    What remains is the last share; it is below zero when the run was faster than its ceiling.
    """
    bandwidth = device.bandwidth_bytes_per_s

    def reading(key: str, n_bytes: int, what: str) -> TimeShare:
        words = f"{what}{separator(': ')}{format_number(n_bytes / GIGA)} GB / {format_number(bandwidth / GIGA)} GB/s"
        return TimeShare(key, n_bytes / bandwidth * 1000, words)

    shares = [reading("weights", step.weight_bytes, _("weights"))]
    if step.kv_bytes:
        shares.append(reading("kv", step.batch * step.kv_bytes, _("KV cache")))
    if step.state_bytes:
        shares.append(reading("state", 2 * step.batch * step.state_bytes, _("recurrent state, read and written")))
    if fitted is not None and layers and fitted.layer_s > 0:
        words = _(
            "fixed cost: {layers} layers x {each} µs, from two runs",
            layers=layers,
            each=format_number(fitted.layer_s * 1e6),
        )
        shares.append(TimeShare("layers", layers * fitted.layer_s * 1000, words))
    loss = 1000 * step.batch / tokens_per_s - sum(share.ms for share in shares)
    return [*shares, TimeShare("loss", loss, _("remaining loss: bandwidth not reached, computing, sampling"))]
