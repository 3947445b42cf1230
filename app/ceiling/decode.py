"""The decode ceiling, output tokens per second that memory bandwidth allows, and its curve against context."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.ceiling.bytes_per_step import F16, Step, step
from app.ceiling.geometry import Geometry
from app.ceiling.number_formats import KvTypes
from app.core.errors import BadInput
from app.core.i18n import _
from app.core.units import GIGA, TERA, format_bandwidth, format_bytes, format_number

USUAL_SHARE = (0.60, 0.85)
"""The range of most good results, as shares of the ceiling."""


@dataclass(frozen=True, slots=True)
class Device:
    """A memory and what computes with it: a card, or a processor with its RAM."""

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
        """Makes a device from GB/s and TFLOP/s, as people state them."""
        return cls(name, gigabytes_per_s * GIGA, None if teraflops is None else teraflops * TERA)

    @property
    def critical_intensity(self) -> float | None:
        """The ridge of the roofline (Williams et al. 2009) in FLOP per byte: the number of simultaneous tokens above
        which computing takes longer than reading 16-bit weights."""
        return None if self.peak_flops is None else self.peak_flops / self.bandwidth_bytes_per_s


class Split(StrEnum):
    """How several devices share a model."""

    LAYER = "layer"
    """Layers one after the other on several devices, or on a card and the processor: their times are added."""
    TENSOR = "tensor"
    """Each layer divided over all devices: the slowest share decides."""


RAM_STAGE = -1
"""The stage of system memory: its bytes are read before or after those of the cards, by the processor."""


@dataclass(frozen=True, slots=True)
class Portion:
    """A device and its share of the bytes of a step; shares are relative to each other."""

    device: Device
    share: float = 1.0
    stage: int | None = None
    """Portions of one stage are read at the same time, stages one after the other; None: in the way of the split."""

    @property
    def is_in_ram(self) -> bool:
        """Whether these bytes lie in system memory beside cards."""
        return self.stage == RAM_STAGE


@dataclass(frozen=True, slots=True)
class DecodeCeiling:
    """Output tok/s of all sequences together that memory bandwidth allows, with the arithmetic in `words`."""

    tokens_per_s: float
    expected_tokens_per_s: float
    """The expectation, not a bound, for several sequences on a model with routed experts. Otherwise the same."""
    words: str
    assumptions: tuple[str, ...] = ()


def decode(
    step: Step, portions: Sequence[Portion], split: Split = Split.LAYER, expected: Sequence[Portion] | None = None
) -> DecodeCeiling:
    """Computes the decode ceiling: batch x bandwidth / bytes of the step, over devices that each read their portion.

    The speed is that of all sequences of the batch together (docs/ceilings.md, What counts). `expected`: the portions
    of `step.expected`, when experts are on other devices than the other weights. Raises BadInput when the portions make
    no sense.
    """
    if (
        not portions
        or sum(portion.share for portion in portions) <= 0
        or any(portion.share < 0 for portion in portions)
    ):
        raise BadInput(_("The shares of the devices must be numbers above zero."))
    if not step.n_bytes:
        raise BadInput(_("A model that reads no bytes has no ceiling."))
    reading = [portion for portion in portions if portion.share]
    tokens_per_s = step.batch / seconds(step.n_bytes, reading, split)
    expected_tokens_per_s = step.batch / seconds(step.expected_bytes, expected or reading, split)
    assumptions = []
    stages = _stages(reading, split)
    if any(len(stage) > 1 for stage in stages):
        assumptions.append(
            _("tensor parallel: the slowest device sets the speed, and traffic between devices is not counted")
        )
    is_partly_in_ram = len(stages) > 1 and any(portion.is_in_ram for portion in reading)
    if is_partly_in_ram:
        assumptions.append(_("GPUs and system memory are read one after the other, so their times add"))
    if len(stages) - is_partly_in_ram > 1:
        assumptions.append(_("split by layers: the devices work one after the other, so their times add"))
    if expected_tokens_per_s < tokens_per_s:
        assumptions.append(
            _(
                "batch of {batch}: the bound assumes that all sequences use the same experts; with random routing "
                "they read {expected_bytes}, which gives {expected} tok/s",
                batch=step.batch,
                expected_bytes=format_bytes(step.expected_bytes),
                expected=format_number(expected_tokens_per_s),
            )
        )
    return DecodeCeiling(
        tokens_per_s, expected_tokens_per_s, _words(step, reading, stages, tokens_per_s), tuple(assumptions)
    )


def seconds(n_bytes: int, portions: Sequence[Portion], split: Split) -> float:
    """Returns the seconds to read `n_bytes`: the times of stages are added, and within a stage the slowest portion
    decides."""
    total_share = sum(portion.share for portion in portions)
    return sum(
        max(n_bytes * portion.share / total_share / portion.device.bandwidth_bytes_per_s for portion in stage)
        for stage in _stages(portions, split)
    )


def _stages(portions: Sequence[Portion], split: Split) -> list[list[Portion]]:
    stages: dict[tuple[str, int], list[Portion]] = {}
    for place, portion in enumerate(portions):
        if portion.stage is not None:
            key = ("stage", portion.stage)
        else:
            key = ("tensor", 0) if split is Split.TENSOR else ("layer", place)
        stages.setdefault(key, []).append(portion)
    return list(stages.values())


def decode_on(step: Step, device: Device) -> DecodeCeiling:
    """Computes the decode ceiling of a step on a single device."""
    return decode(step, [Portion(device)])


@dataclass(frozen=True, slots=True)
class Drafting:
    """Speculative decoding: of `drafted` tokens `accepted` are right on average; one pass checks them all."""

    drafted: int
    accepted: float

    def __post_init__(self) -> None:
        if self.drafted < 1 or not 0 <= self.accepted <= self.drafted:
            raise BadInput(
                _("The accepted tokens must be between 0 and the drafted tokens, of which there is at least one.")
            )


def speculative(step: Step, draft: Step, device: Device, drafting: Drafting) -> DecodeCeiling:
    """The ceiling with a draft model (Leviathan et al. 2023): (1 + accepted) x bandwidth / (step + drafted x draft).

    `step` is the model's with one sequence, `draft` that of its draft model. The strict bound reads one token's experts
    even for several tokens.
    """
    drafted, accepted = drafting.drafted, drafting.accepted
    n_bytes = step.n_bytes + drafted * draft.n_bytes
    ceiling = (1 + accepted) * device.bandwidth_bytes_per_s / n_bytes
    words = (
        f"{format_number(ceiling)} tok/s = (1 + {accepted:g}) x {format_bandwidth(device.bandwidth_bytes_per_s)} / "
        f"({format_bytes(step.n_bytes)} + {drafted} x {format_bytes(draft.n_bytes)})"
    )
    return DecodeCeiling(
        ceiling,
        ceiling,
        words,
        (_("{accepted:g} of {drafted} drafted tokens are accepted", accepted=accepted, drafted=drafted),),
    )


def with_drafts(ceiling: DecodeCeiling, drafted: float, accepted: float) -> DecodeCeiling:
    """A ceiling with drafted tokens whose source is unknown: bytes of the draft are left out, so it stays a bound.

    `drafted` and `accepted` tokens with each reading of the weights, on average.
    """
    times, arithmetic = 1 + accepted, ceiling.words.partition(" = ")[2]
    sentence = _(
        "speculative decoding: on average {accepted} of {drafted} drafted tokens are accepted per pass over the "
        "weights; reads of the draft model are not counted",
        accepted=format_number(accepted),
        drafted=format_number(drafted),
    )
    return DecodeCeiling(
        tokens_per_s=times * ceiling.tokens_per_s,
        expected_tokens_per_s=times * ceiling.expected_tokens_per_s,
        words=f"{format_number(times * ceiling.tokens_per_s)} tok/s = (1 + {format_number(accepted)}) x {arithmetic}",
        assumptions=(*ceiling.assumptions, sentence),
    )


def usual_range(ceiling_tokens_per_s: float) -> tuple[float, float]:
    """Returns the range in tok/s of most good results: 60 to 85 % of a decode ceiling."""
    low, high = USUAL_SHARE
    return ceiling_tokens_per_s * low, ceiling_tokens_per_s * high


def _words(step: Step, portions: Sequence[Portion], stages: Sequence[Sequence[Portion]], ceiling: float) -> str:
    times = f"{step.batch} x " if step.batch > 1 else ""
    if len(portions) == 1:
        width = format_bandwidth(portions[0].device.bandwidth_bytes_per_s)
        return f"{format_number(ceiling)} tok/s = {times}{width} / {format_bytes(step.n_bytes)}"
    total_share = sum(portion.share for portion in portions)

    def read(portion: Portion) -> str:
        n_bytes = round(step.n_bytes * portion.share / total_share)
        return f"{format_bytes(n_bytes)} / {format_bandwidth(portion.device.bandwidth_bytes_per_s)}"

    parts = [f"max({', '.join(map(read, stage))})" if len(stage) > 1 else read(stage[0]) for stage in stages]
    how = parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"
    return f"{format_number(ceiling)} tok/s = {step.batch} / {how}"


# --- against context -------------------------------------------------------------------------------------------------

CONTEXTS = (0, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The decode ceiling with this many tokens in the cache, and the range of most good results, in tok/s."""

    context: int
    ceiling_tokens_per_s: float
    low_tokens_per_s: float
    high_tokens_per_s: float
    """The two ends of the range of most good results."""
    kv_share: float
    """The share of the step's bytes that is KV cache, 0 to 1."""


def against_context(
    geometry: Geometry,
    allowed: Callable[[Step], DecodeCeiling | None],
    kv: KvTypes = F16,
    contexts: Iterable[int] = CONTEXTS,
    batch: int = 1,
) -> list[CurvePoint]:
    """Computes the decode ceiling for each of `contexts`; empty where the weights are unknown.

    `allowed`: what the devices allow for a step; contexts for which that is unknown are left out.
    """
    points = []
    for context in contexts:
        if (decode_step := step(geometry, context, kv, batch)) is None:
            return []
        if (ceiling := allowed(decode_step)) is None:
            continue
        kv_share = batch * (decode_step.kv_bytes or 0) / decode_step.n_bytes
        points.append(CurvePoint(context, ceiling.tokens_per_s, *usual_range(ceiling.tokens_per_s), kv_share))
    return points


def contexts_up_to(longest: int, pieces: int = 32) -> list[int]:
    """Returns context lengths from none to `longest`, closer together at the beginning, where a curve bends most."""
    return sorted({round(longest * (piece / pieces) ** 2) for piece in range(pieces + 1)})
