"""Where the time of a token goes, and what would make it faster: fewer bytes, or another device.

t = bytes / effective bandwidth + cost of a layer x layers. Two runs on one machine, with two models or two
quantizations, give both unknowns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.ceiling.bytes_per_step import Step, step
from app.ceiling.decode import DecodeCeiling, Device, decode_on
from app.ceiling.geometry import Geometry
from app.ceiling.layout import Layout
from app.ceiling.number_formats import KV_BITS, USUAL_BITS, KvTypes, bits_of_label
from app.ceiling.prediction import Case, MeasuredCase, predict
from app.core.i18n import _, joined
from app.core.units import GIGA, format_bytes, format_number

MIN_DIFFERENCE = 0.05
LADDER = ("F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K")
STEP_DOWN = 0.92
"""The next quantization must have at most this share of the bytes to be suggested."""
MIN_GAIN = 1.03
"""A change that is predicted to gain less is none that a person would make."""


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
        arithmetic = f"{format_bytes(n_bytes)} / {format_number(bandwidth / GIGA)} GB/s"
        return TimeShare(key, n_bytes / bandwidth * 1000, joined(what, arithmetic, by=": "))

    shares = [reading("weights", step.weight_bytes, _("weights"))]
    if step.kv_bytes:
        shares.append(reading("kv", step.batch * step.kv_bytes, _("KV cache")))
    if step.state_bytes:
        shares.append(reading("state", 2 * step.batch * step.state_bytes, _("recurrent state, read and written")))
    if fitted is not None and layers and fitted.layer_s > 0:
        words = _(
            "fixed cost: {layers} layers × {layer_us} µs, from two runs",
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
    model: str = ""
    quantization: str = ""
    """The label of its weights; empty when it is unknown."""
    device_key: str = ""
    """What tells devices with different kernels apart; empty: the devices of the machine."""

    def decode(self) -> tuple[Step, DecodeCeiling] | None:
        """Returns a decode step and its ceiling on the run's devices; None where one of them is unknown."""
        decode_step = step(self.geometry, self.context, self.kv)
        if decode_step is None:
            return None
        if self.layout is None:
            return decode_step, decode_on(decode_step, self.device)
        ceiling = self.layout.decode(self.geometry, decode_step)
        return None if ceiling is None else (decode_step, ceiling)


def case_of(run: MeasuredRun, decode_step: Step, ceiling: DecodeCeiling) -> Case:
    """Returns a step of a run as a prediction needs it; several devices count as one that takes as long."""
    return Case(
        n_bytes=decode_step.n_bytes,
        layers=run.geometry.blocks or 0,
        bandwidth_bytes_per_s=ceiling.tokens_per_s * decode_step.n_bytes,
        model=run.model,
        quantization=run.quantization,
        device=run.device_key,
    )


@dataclass(frozen=True, slots=True)
class Advice:
    """One change, with the ceiling and the interval of decode speeds that it would allow, in tok/s."""

    change: str
    ceiling_tokens_per_s: float
    predicted_tokens_per_s: float
    low_tokens_per_s: float
    high_tokens_per_s: float
    """The two ends of the interval that holds nine of ten results; never above the ceiling."""
    evidence: int
    """The number of configurations that it was predicted from."""
    words: str


@dataclass(frozen=True, slots=True)
class OtherLayout:
    """The same model on other devices, or placed on more of them."""

    title: str
    device: Device
    layout: Layout | None = None
    device_key: str = ""


def advise(run: MeasuredRun, others: Iterable[OtherLayout] = (), evidence: Sequence[MeasuredCase] = ()) -> list[Advice]:
    """Predicts the run's decode with the next smaller quantization, a smaller KV cache, or on `others`.

    `evidence` holds what else was measured on the same devices. Changes that would hardly make it faster are left out.
    Empty where the weights are unknown.
    """
    weights, own = run.geometry.weights, run.decode()
    if weights is None or own is None:
        return []
    own_case = MeasuredCase(case_of(run, *own), run.tokens_per_s / run.tokens_per_step)
    changes: list[tuple[str, MeasuredRun]] = []
    if (smaller := next_quantization(run.quantization, weights.bits_per_weight)) is not None:
        scaled = weights.scaled(smaller.bits_ratio)
        words = _("{label} weights", label=smaller.label)
        changes.append(
            (words, replace(run, geometry=replace(run.geometry, weights=scaled), quantization=smaller.label))
        )
    if run.geometry.attention and min(run.kv.bits) > KV_BITS["q8_0"]:
        changes.append((_("q8_0 KV cache"), replace(run, kv=KvTypes("q8_0", "q8_0"))))
    changes += [
        (other.title, replace(run, device=other.device, layout=other.layout, device_key=other.device_key))
        for other in others
    ]
    all_advice = [_predict(name, run, changed, [own_case, *evidence]) for name, changed in changes]
    return [
        advice
        for advice in all_advice
        if advice is not None and advice.predicted_tokens_per_s >= MIN_GAIN * run.tokens_per_s
    ]


@dataclass(frozen=True, slots=True)
class SmallerQuantization:
    label: str
    bits_ratio: float
    """Its bits per weight over the present ones, both as usual for their labels where the present label is known."""


def next_quantization(label: str, bits_per_weight: float) -> SmallerQuantization | None:
    """Returns the largest usual quantization below the present one; None below the last one.

    The label decides where it states its bits, since a real file may hold more than its label says: a Q4_K_M file with
    large look-up tables is not to become Q6_K. Otherwise the file's bits per weight do.
    """
    bits = bits_of_label(label) or bits_per_weight
    smaller = next((label for label in LADDER if USUAL_BITS[label] < STEP_DOWN * bits), None)
    return None if smaller is None else SmallerQuantization(smaller, USUAL_BITS[smaller] / bits)


def _predict(name: str, run: MeasuredRun, changed: MeasuredRun, evidence: Sequence[MeasuredCase]) -> Advice | None:
    decoded = changed.decode()
    if decoded is None:
        return None
    decode_step, ceiling = decoded
    prediction = predict(case_of(changed, decode_step, ceiling), evidence)
    if prediction is None:
        return None
    low, middle, high = (
        run.tokens_per_step * min(speed, ceiling.tokens_per_s)
        for speed in (prediction.low, prediction.steps_per_s, prediction.high)
    )
    words = _(
        "{name}: {low} to {high} tok/s instead of {now}",
        name=name,
        low=format_number(low),
        high=format_number(high),
        now=format_number(run.tokens_per_s),
    )
    words = joined(words, _("; ceiling {words}", words=ceiling.words), by="")
    if run.tokens_per_step != 1:
        drafted = _(
            ", and {times} times that with drafted tokens accepted as in the run",
            times=format_number(run.tokens_per_step),
        )
        words = joined(words, drafted, by="")
    return Advice(name, run.tokens_per_step * ceiling.tokens_per_s, middle, low, high, prediction.evidence, words)
