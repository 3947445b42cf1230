"""What would it take: the same run with fewer bytes, or on another device."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.ceiling.bytes_per_step import Step, step
from app.ceiling.decode import DecodeCeiling, Device, decode_on
from app.ceiling.fit import Fit
from app.ceiling.geometry import Geometry
from app.ceiling.layout import Layout
from app.ceiling.number_formats import KV_BITS, USUAL_BITS, KvTypes
from app.core.i18n import _
from app.core.units import format_number

LADDER = ("F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K")
STEP_DOWN = 0.92
"""The next quantization must save at least this much to be one."""
LEAST_GAIN = 0.55
"""Published gains of F16 to Q4_K_M are 1.9 to 2.6 times, with 3.2 times fewer bytes: at least 3.2 ^ 0.55."""


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What was measured."""

    geometry: Geometry
    device: Device
    kv: KvTypes
    context: int
    """Mean context during decode: prompt + half of the output."""
    tokens_per_s: float
    tokens_per_step: float = 1.0
    """More than one with speculative decoding."""
    layout: Layout | None = None
    """Where the model lies; None: on the device alone."""

    def decode(self, decode_step: Step) -> DecodeCeiling | None:
        return (
            decode_on(decode_step, self.device)
            if self.layout is None
            else self.layout.decode(self.geometry, decode_step)
        )


@dataclass(frozen=True, slots=True)
class Advice:
    change: str
    ceiling_tokens_per_s: float
    low_tokens_per_s: float
    high_tokens_per_s: float
    """Low and high: from the least gain seen in published results to the run's own share of the roof."""
    words: str


def mean_context(prompt_tokens: int, output_tokens: int) -> int:
    """Tokens in the cache during a decode, on average."""
    return prompt_tokens + output_tokens // 2


def advise(run: MeasuredRun, devices: Iterable[Device] = (), fitted: Fit | None = None) -> list[Advice]:
    """`others`: devices to compare with. Empty where the weights are unknown."""
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
    """The largest usual quantization that is clearly smaller; None below the last."""
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
    words += _("; ceiling {words}", words=ceiling_then.words)
    if run.tokens_per_step != 1:
        words += _(
            ", and {times} times that with drafted tokens accepted as in the run",
            times=format_number(run.tokens_per_step),
        )
    return Advice(name, run.tokens_per_step * ceiling_then.tokens_per_s, low, high, words)
