"""The decode ceiling: output tokens per second that memory bandwidth allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.ceiling.traffic import Step
from app.errors import BadInput
from app.i18n import _
from app.units import GIGA, TERA, bandwidth, number, size

USUAL_SHARE = (0.60, 0.85)
"""Where most good results stand below the ceiling."""


@dataclass(frozen=True, slots=True)
class Device:
    """A memory with something that computes beside it: a card, or a processor with its RAM."""

    name: str
    bandwidth_bytes_per_s: float
    peak_flops: float | None = None
    """Dense operations per second on the fastest usable path; None: unknown."""

    def __post_init__(self) -> None:
        if not 0 < self.bandwidth_bytes_per_s < 1e18:
            raise BadInput(
                _(
                    "A bandwidth of {gigabytes_per_s:g} GB/s makes no sense.",
                    gigabytes_per_s=self.bandwidth_bytes_per_s / GIGA,
                )
            )
        if self.peak_flops is not None and not 0 < self.peak_flops < 1e21:
            raise BadInput(_("{peak_flops:g} TFLOP/s make no sense.", peak_flops=self.peak_flops / TERA))

    @classmethod
    def of(cls, name: str, gigabytes_per_s: float, teraflops: float | None = None) -> "Device":
        return cls(name, gigabytes_per_s * GIGA, None if teraflops is None else teraflops * TERA)

    @property
    def critical_intensity(self) -> float | None:
        """Tokens at once above which computing takes longer than reading 16 bit weights; FLOP per byte."""
        return None if self.peak_flops is None else self.peak_flops / self.bandwidth_bytes_per_s


class Split(StrEnum):
    LAYER = "layer"
    """Layers one after the other on several devices, or on a card and the processor: their times add."""
    TENSOR = "tensor"
    """Each layer divided over all devices: the slowest share decides."""


@dataclass(frozen=True, slots=True)
class Portion:
    """A device and its share of the bytes of a step; shares are relative to each other."""

    device: Device
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class DecodeCeiling:
    tokens_per_s: float
    expected_tokens_per_s: float
    """With several sequences on a model with routed experts: what to expect, no bound. Otherwise the same."""
    words: str
    assumptions: tuple[str, ...] = ()


def decode(step: Step, portions: Sequence[Portion], split: Split = Split.LAYER) -> DecodeCeiling:
    """All sequences of the batch together. Raises BadInput when the portions make no sense."""
    whole = sum(portion.share for portion in portions)
    if not portions or whole <= 0 or any(portion.share < 0 for portion in portions):
        raise BadInput(_("The shares of the devices must be numbers above zero."))

    def seconds(n_bytes: int) -> float:
        times = [n_bytes * one.share / whole / one.device.bandwidth_bytes_per_s for one in portions]
        return max(times) if split is Split.TENSOR else sum(times)

    if not step.n_bytes:
        raise BadInput(_("A model that reads no bytes has no ceiling."))
    ceiling = step.batch / seconds(step.n_bytes)
    expected = step.batch / seconds(step.expected_bytes)
    assumptions = []
    if len(portions) > 1 and split is Split.TENSOR:
        assumptions.append(
            _("tensor parallel: the slowest device sets the speed, and traffic between devices is not counted")
        )
    elif len(portions) > 1:
        assumptions.append(_("split by layers: the devices work one after the other, so their times add"))
    if expected < ceiling:
        assumptions.append(
            _(
                "batch of {batch}: the bound assumes that all sequences use the same experts; with random routing "
                "they read {expected_bytes}, which gives {expected} tok/s",
                batch=step.batch,
                expected_bytes=size(step.expected_bytes),
                expected=number(expected),
            )
        )
    return DecodeCeiling(ceiling, expected, _words(step, portions, whole, split, ceiling), tuple(assumptions))


def decode_on(step: Step, device: Device) -> DecodeCeiling:
    return decode(step, [Portion(device)])


@dataclass(frozen=True, slots=True)
class Drafting:
    """Speculative decoding: of `drafted` tokens `accepted` are right on average; one pass checks them all."""

    drafted: int
    accepted: float

    def __post_init__(self) -> None:
        if self.drafted < 1 or not 0 <= self.accepted <= self.drafted:
            raise BadInput(
                _("Accepted tokens must be between none and the drafted ones, of which there is at least one.")
            )


def speculative(step: Step, draft: Step, device: Device, drafting: Drafting) -> DecodeCeiling:
    """`step` is the model's with one sequence, `draft` its draft model's.

    The strict bound reads one token's experts even for several tokens.
    """
    drafted, accepted = drafting.drafted, drafting.accepted
    n_bytes = step.n_bytes + drafted * draft.n_bytes
    ceiling = (1 + accepted) * device.bandwidth_bytes_per_s / n_bytes
    words = (
        f"{number(ceiling)} tok/s = (1 + {accepted:g}) x {bandwidth(device.bandwidth_bytes_per_s)} / "
        f"({size(step.n_bytes)} + {drafted} x {size(draft.n_bytes)})"
    )
    return DecodeCeiling(
        ceiling,
        ceiling,
        words,
        (_("{accepted:g} of {drafted} drafted tokens are accepted", accepted=accepted, drafted=drafted),),
    )


def with_drafts(ceiling: DecodeCeiling, drafted: float, accepted: float) -> DecodeCeiling:
    """Drafted by means unknown, as by the server of a run: what the draft reads is left out, so this stays a bound.

    `drafted` and `accepted` tokens with each reading of the weights, on average.
    """
    times, arithmetic = 1 + accepted, ceiling.words.partition(" = ")[2]
    said = _(
        "speculative decoding: on average {accepted} of {drafted} drafted tokens are accepted per pass over the "
        "weights; reads of the draft model are not counted",
        accepted=number(accepted),
        drafted=number(drafted),
    )
    return DecodeCeiling(
        tokens_per_s=times * ceiling.tokens_per_s,
        expected_tokens_per_s=times * ceiling.expected_tokens_per_s,
        words=f"{number(times * ceiling.tokens_per_s)} tok/s = (1 + {number(accepted)}) x {arithmetic}",
        assumptions=(*ceiling.assumptions, said),
    )


def usual_range(ceiling_tokens_per_s: float) -> tuple[float, float]:
    low, high = USUAL_SHARE
    return ceiling_tokens_per_s * low, ceiling_tokens_per_s * high


def _words(step: Step, portions: Sequence[Portion], whole: float, split: Split, ceiling: float) -> str:
    times = f"{step.batch} x " if step.batch > 1 else ""
    widths = [bandwidth(portion.device.bandwidth_bytes_per_s) for portion in portions]
    if len(portions) == 1:
        return f"{number(ceiling)} tok/s = {times}{widths[0]} / {size(step.n_bytes)}"
    reads = [size(round(step.n_bytes * portion.share / whole)) for portion in portions]
    parts = [f"{read} / {width}" for read, width in zip(reads, widths, strict=True)]
    how = f"max({', '.join(parts)})" if split is Split.TENSOR else f"({' + '.join(parts)})"
    return f"{number(ceiling)} tok/s = {step.batch} / {how}"
