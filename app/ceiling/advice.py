"""Where the time of a token goes, and what would make it faster: fewer bytes, or another device.

t = bytes / effective bandwidth + cost of a layer x layers. Two runs on one machine, with two models or two
quantizations, give both unknowns.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.ceiling.bytes_per_step import Step, step
from app.ceiling.decode import DecodeCeiling, Device, decode_on
from app.ceiling.geometry import Geometry
from app.ceiling.layout import Layout
from app.ceiling.number_formats import KV_BITS, USUAL_BITS, KvTypes
from app.core.i18n import _, joined
from app.core.units import GIGA, format_number

MIN_DIFFERENCE = 0.05
LADDER = ("F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K")
STEP_DOWN = 0.92
"""The next quantization must have at most this share of the bytes to be suggested."""
LEAST_GAIN = 0.55
"""Published gains of F16 to Q4_K_M are 1.9 to 2.6 times, with 3.2 times fewer bytes: at least 3.2 ^ 0.55."""


# --- where the time of a token goes ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Observation:
    """One run: the bytes that a token read, the layers it went through, and the measured speed."""

    n_bytes: int
    layers: int
    tokens_per_s: float

    @property
    def seconds(self) -> float:
        """Seconds of one token."""
        return 1 / self.tokens_per_s


@dataclass(frozen=True, slots=True)
class Fit:
    """The two unknowns of a token's time: the bandwidth that is reached, and the fixed cost of a layer."""

    bandwidth_bytes_per_s: float
    """The effective bandwidth."""
    layer_s: float
    """The fixed cost of a layer, whatever it reads."""
    notes: tuple[str, ...] = ()

    def tokens_per_s(self, n_bytes: int, layers: int) -> float:
        """Predicts tok/s for a number of bytes and layers: 1 / (bytes / bandwidth + layers x cost of a layer)."""
        return 1 / (n_bytes / self.bandwidth_bytes_per_s + self.layer_s * layers)


def fit(first: Observation, second: Observation, device: Device) -> Fit | str:
    """Solves t = bytes / bandwidth + layers x cost for two runs; returns a sentence when they do not determine the
    unknowns."""
    determinant = first.n_bytes * second.layers - second.n_bytes * first.layers
    if abs(determinant) < MIN_DIFFERENCE * max(first.n_bytes, second.n_bytes) * max(first.layers, second.layers):
        return _("the two runs read nearly the same bytes for each layer, so their costs cannot be told apart")
    per_byte = (first.seconds * second.layers - second.seconds * first.layers) / determinant
    layer_s = (first.n_bytes * second.seconds - second.n_bytes * first.seconds) / determinant
    if per_byte <= 0:
        return _("the run that read more bytes was not slower, so the bytes do not explain the difference")
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
    """One part of the milliseconds of a step."""

    key: str
    """The key: weights, kv, state, layers or loss."""
    ms: float
    words: str


def waterfall(
    step: Step, device: Device, tokens_per_s: float, layers: int | None, fitted: Fit | None
) -> list[TimeShare]:
    """Divides the milliseconds of one step, which gives each sequence a token: they add up to 1000 x batch /
    tokens_per_s.

    What remains is the last share; it is below zero when the run was faster than its ceiling.
    """
    bandwidth = device.bandwidth_bytes_per_s

    def reading(key: str, n_bytes: int, what: str) -> TimeShare:
        arithmetic = f"{format_number(n_bytes / GIGA)} GB / {format_number(bandwidth / GIGA)} GB/s"
        return TimeShare(key, n_bytes / bandwidth * 1000, joined(what, arithmetic, by=": "))

    shares = [reading("weights", step.weight_bytes, _("weights"))]
    if step.kv_bytes:
        shares.append(reading("kv", step.batch * step.kv_bytes, _("KV cache")))
    if step.state_bytes:
        shares.append(reading("state", 2 * step.batch * step.state_bytes, _("recurrent state, read and written")))
    if fitted is not None and layers and fitted.layer_s > 0:
        words = _(
            "fixed cost: {layers} layers x {layer_us} µs, from two runs",
            layers=layers,
            layer_us=format_number(fitted.layer_s * 1e6),
        )
        shares.append(TimeShare("layers", layers * fitted.layer_s * 1000, words))
    loss = 1000 * step.batch / tokens_per_s - sum(share.ms for share in shares)
    return [*shares, TimeShare("loss", loss, _("remaining loss: bandwidth not reached, computing, sampling"))]


# --- what would make it faster ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A measured decode speed, with the model and the devices that it was measured on."""

    geometry: Geometry
    device: Device
    kv: KvTypes
    context: int
    """The mean context during decode: prompt + half of the output."""
    tokens_per_s: float
    tokens_per_step: float = 1.0
    """The tokens of each step; more than one with speculative decoding."""
    layout: Layout | None = None
    """The placement of the model; None: on the device alone."""

    def decode(self, decode_step: Step) -> DecodeCeiling | None:
        """The decode ceiling of a step on the run's devices; None where it is unknown."""
        return (
            decode_on(decode_step, self.device)
            if self.layout is None
            else self.layout.decode(self.geometry, decode_step)
        )


@dataclass(frozen=True, slots=True)
class Advice:
    """One change, with the ceiling and the range of decode speeds that it would allow, in tok/s."""

    change: str
    ceiling_tokens_per_s: float
    low_tokens_per_s: float
    high_tokens_per_s: float
    """The two ends: from the least gain seen in published results to the run's own share of the ceiling."""
    words: str


def advise(run: MeasuredRun, devices: Iterable[Device] = (), fitted: Fit | None = None) -> list[Advice]:
    """Predicts the run's decode with fewer bits, a smaller KV cache, or one of `devices`. Empty where the weights are
    unknown.
    """
    changes: list[tuple[str, MeasuredRun]] = []
    weights = run.geometry.weights
    if weights is None:
        return []
    if (label := next_quantization(weights.bits_per_weight)) is not None:
        smaller = replace(run.geometry, weights=weights.scaled(USUAL_BITS[label] / weights.bits_per_weight))
        changes.append((_("{label} weights", label=label), replace(run, geometry=smaller)))
    if run.geometry.attention and min(run.kv.bits) > KV_BITS["q8_0"]:
        changes.append((_("q8_0 KV cache"), replace(run, kv=KvTypes("q8_0", "q8_0"))))
    changes += [(device.name, replace(run, device=device, layout=None)) for device in devices]
    return [advice for name, changed in changes if (advice := _predict(name, run, changed, fitted)) is not None]


def next_quantization(bits_per_weight: float) -> str | None:
    """Returns the largest usual quantization that is clearly smaller; None below the last one."""
    return next((label for label in LADDER if USUAL_BITS[label] < STEP_DOWN * bits_per_weight), None)


def _predict(name: str, run: MeasuredRun, changed: MeasuredRun, fitted: Fit | None) -> Advice | None:
    current_step, changed_step = (step(variant.geometry, variant.context, variant.kv) for variant in (run, changed))
    if current_step is None or changed_step is None:
        return None
    ceiling_now, ceiling_then = run.decode(current_step), changed.decode(changed_step)
    if ceiling_now is None or ceiling_then is None:
        return None
    ratio = ceiling_then.tokens_per_s / ceiling_now.tokens_per_s
    guesses = [run.tokens_per_s * ratio, run.tokens_per_s * ratio**LEAST_GAIN]
    if fitted is not None and run.geometry.blocks and changed.device == run.device:
        guesses.append(run.tokens_per_step * fitted.tokens_per_s(changed_step.n_bytes, run.geometry.blocks))
    low, high = min(guesses), max(guesses)
    words = _(
        "{name}: {low} to {high} tok/s instead of {now}",
        name=name,
        low=format_number(low),
        high=format_number(high),
        now=format_number(run.tokens_per_s),
    )
    words = joined(words, _("; ceiling {words}", words=ceiling_then.words), by="")
    if run.tokens_per_step != 1:
        drafted = _(
            ", and {times} times that with drafted tokens accepted as in the run",
            times=format_number(run.tokens_per_step),
        )
        words = joined(words, drafted, by="")
    return Advice(name, run.tokens_per_step * ceiling_then.tokens_per_s, low, high, words)
