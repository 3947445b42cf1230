"""What a configuration stands on: a model's bytes and the devices that hold it, or why that is unknown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.ceiling.decode import DecodeCeiling, Device, Portion, Split, decode
from app.ceiling.geometry import Geometry
from app.ceiling.traffic import Step
from app.ceiling.types import KV_BITS, UNKNOWN, KvTypes, kv_bits
from app.configuration import runs_elsewhere
from app.hardware.profile import MEASURED
from app.i18n import _
from app.models import Config
from app.samples import Point
from app.store.machines import MachineDevice, Stated
from app.store.models import Told
from app.units import TERA, number

TENSOR_SPLITS = ("tensor", "row")
TENSOR_BY_HABIT = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "tgi": "TGI"}
"""Engines, with their titles, that divide each layer over several cards unless told otherwise."""


@dataclass(frozen=True)
class Unknown:
    """Why there is no ceiling, in one sentence each, and what to do about it."""

    reason: str
    remedy: str
    about: str
    """machine, model or configuration: where the remedy is."""


@dataclass(frozen=True)
class Holder:
    """One device that holds the model or a part of it, and where its bandwidth comes from."""

    device: Device
    stated: Stated
    is_ram: bool
    llc_bytes: int | None
    memory_bytes: int | None


@dataclass(frozen=True)
class Foundation:
    told: Told
    """The model's geometry, with its weights, and who told it."""
    kv: KvTypes
    holders: tuple[Holder, ...]
    """Cards before memory; equal cards one by one."""
    split: Split
    layers_on_cards: int | None
    """Where the rest is in memory; None: all are on the same kind of device."""
    slots: int | None
    """So many requests the server works on at once; None where it does not tell."""
    assumptions: tuple[str, ...]

    @property
    def geometry(self) -> Geometry:
        return self.told.geometry

    def at_once(self, point: Point) -> int:
        return at_once(point, self.slots)

    def portions(self, step: Step) -> list[Portion]:
        """Which device reads how much of a step."""
        cards = [holder for holder in self.holders if not holder.is_ram]
        blocks = self.geometry.blocks
        if self.layers_on_cards is None or not blocks or self.geometry.weights is None:
            return _shared(self.holders, 1.0)
        head = self.geometry.weights.head.n_bytes  # the head follows the last layer, as a layer of its own
        on_cards = (step.n_bytes - head) * self.layers_on_cards / blocks
        rest = Portion(self.holders[-1].device, step.n_bytes - on_cards)
        return [*_shared(cards, on_cards), rest]

    def decode(self, step: Step) -> DecodeCeiling:
        return decode(step, self.portions(step), self.split)

    @property
    def device(self) -> Device | None:
        """What all holders together are like where one device stands for them: a single one, or equal ones."""
        first = self.holders[0].device
        if any(holder.device != first for holder in self.holders):
            return None
        many = len(self.holders) if self.split is Split.TENSOR else 1
        name = first.name if len(self.holders) == 1 else f"{len(self.holders)} × {first.name}"
        peak = first.peak_flops and first.peak_flops * many
        return Device(name, first.bandwidth_bytes_per_s * many, peak)

    def worth(self, step: Step) -> Device:
        """One device that takes as long for a step as all holders together, each reading its share of the bytes."""
        if len(self.holders) == 1:
            return self.holders[0].device
        names = " + ".join(dict.fromkeys(holder.device.name for holder in self.holders))
        peaks = [holder.device.peak_flops for holder in self.holders]
        bandwidth = self.decode(step).tokens_per_s * step.n_bytes / step.batch
        return Device(names, bandwidth, sum(peak or 0 for peak in peaks) if all(peaks) else None)

    def is_on_the_same_devices_as(self, other: "Foundation") -> bool:
        """Whatever is known of their bandwidth."""
        mine, theirs = ([(held.device.name, held.memory_bytes) for held in one.holders] for one in (self, other))
        return mine == theirs and self.split == other.split

    @property
    def is_measured(self) -> bool:
        return any(holder.stated.source == MEASURED for holder in self.holders)

    @property
    def llc_bytes(self) -> int | None:
        return sum(holder.llc_bytes or 0 for holder in self.holders) or None


def foundation(
    held: Sequence[MachineDevice], config: Config, told: Told | None, said: Sequence[str] = ()
) -> Foundation | Unknown:
    """`held`: the devices of the machine; `told`: the model's geometry; `said`: what must be known to judge both."""
    if host := runs_elsewhere(config.settings):
        return Unknown(
            _("The model runs at {host}, so nothing is known of the hardware that it runs on.", host=host),
            _("Measure a model that the server runs itself."),
            "configuration",
        )
    if told is None or told.geometry.weights is None:
        return Unknown(
            _(
                "How many bytes the model reads for a token is unknown, because its server names no "
                "model file that can be read here."
            ),
            _("Tell what the model is like: its config.json, a GGUF file, or its parameters and bits per weight."),
            "model",
        )
    chosen = _chosen(held, config, told.geometry)
    if isinstance(chosen, Unknown):
        return chosen
    owners, layers_on_cards, assumptions = chosen
    holders = []
    for owner in owners:
        if not owner.bandwidths:
            return _without_bandwidth(owner)
        counting = owner.bandwidths[0]
        device = Device(owner.name, counting.bytes_per_s, owner.peak_flops)
        holders.append(Holder(device, counting, owner.kind == "ram", owner.llc_bytes, owner.memory_bytes))
    kv, doubt = _kv_types(config)
    return Foundation(
        told=told,
        kv=kv,
        holders=tuple(holders),
        split=_split(config, layers_on_cards),
        layers_on_cards=layers_on_cards,
        slots=slots_of(config),
        assumptions=(*said, *dict.fromkeys(_figures(owners)), *assumptions, *doubt),
    )


def _without_bandwidth(owner: MachineDevice) -> Unknown:
    if owner.kind == "ram":
        return Unknown(_("The bandwidth of the machine's memory is unknown."), _("Measure it, or type it."), "machine")
    reason = _("The bandwidth of the machine's {device} is unknown.", device=owner.name)
    return Unknown(reason, _("Pick the device from the catalogue."), "machine")


def _figures(owners: Sequence[MachineDevice]) -> Iterator[str]:
    """Which figures were not known yet when the run was measured, and which of two peaks counts."""
    for owner in owners:
        stated = owner.bandwidths[0]
        if stated.is_later:
            is_measured, day = stated.source == MEASURED, f"{stated.at:%Y-%m-%d}" if stated.at else ""
            if is_measured and day:
                yield _("the bandwidth of {name} was measured on {day}, after this run", name=owner.name, day=day)
            elif is_measured:
                yield _("the bandwidth of {name} was measured after this run", name=owner.name)
            elif day:
                yield _("the bandwidth of {name} was stated on {day}, after this run", name=owner.name, day=day)
            else:
                yield _("the bandwidth of {name} was stated after this run", name=owner.name)
        if owner.kind == "ram" and owner.peak_flops:
            yield _(
                "the peak compute of the processor, {peak} TFLOP/s, was typed", peak=number(owner.peak_flops / TERA)
            )
        if owner.is_peak_later:
            yield _(
                "the peak compute of {name} was stated after this run", name=computing(owner.name, owner.kind == "ram")
            )
        slow, fast = owner.compute_flops_per_s, owner.fastest_flops_per_s
        if slow and fast and slow != fast:
            yield (
                _(
                    "computing on {name} is taken at its fastest usable path, {fast} TFLOP/s; FP16 with FP32 "
                    "accumulate reaches {slow}",
                    name=owner.name,
                    fast=number(fast / TERA),
                    slow=number(slow / TERA),
                )
            )


def computing(name: str, is_ram: bool) -> str:
    """What computes with the bytes of a device: cards do it themselves."""
    return _("the processor") if is_ram else name


def _chosen(
    held: Sequence[MachineDevice], config: Config, geometry: Geometry
) -> tuple[list[MachineDevice], int | None, list[str]] | Unknown:
    """The devices that hold the model, how many layers are on cards where some are not, and assumptions."""
    ram = [device for device in held if device.kind == "ram"]
    cards = [replace(device, count=1) for device in held if device.kind != "ram" for _ in range(device.count)]
    stated, on_cards = _whole(config, "cards"), _whole(config, "gpu_layers")
    if stated == 0 or on_cards == 0 or (stated is None and not cards):
        return ram, None, []
    if stated is not None and stated > len(cards):
        return Unknown(
            _(
                "The configuration uses {stated} cards, and the machine is known to have {cards}.",
                stated=stated,
                cards=len(cards),
            ),
            _("Add its cards, or correct the number of cards that the server uses."),
            "machine",
        )
    cards.sort(key=lambda card: card.bandwidth_bytes_per_s or 0, reverse=True)
    used = cards[: 1 if config.settings.get("split_mode") == "none" else stated]
    said = []
    if stated is None:
        said.append(_("the number of cards is not stated, so all of the machine's are taken"))
    if on_cards is not None and geometry.blocks and on_cards < geometry.blocks:
        said.append(
            _(
                "{on_cards} of {blocks} layers are on cards, the others and the head in memory",
                on_cards=on_cards,
                blocks=geometry.blocks,
            )
        )
        return [*used, *ram], on_cards, said
    if len(used) > 1 and config.settings.get("split_mode") is None:
        title = TENSOR_BY_HABIT.get(config.engine)
        how = (
            _("tensor parallel is taken, the habit of {title}", title=title)
            if title
            else _("a split by layers is taken")
        )
        said.append(_("the split mode is not stated, so {how}", how=how))
    return used, None, said


def _split(config: Config, layers_on_cards: int | None) -> Split:
    stated = config.settings.get("split_mode") or ("tensor" if config.engine in TENSOR_BY_HABIT else "layer")
    return Split.TENSOR if stated in TENSOR_SPLITS and layers_on_cards is None else Split.LAYER


def _shared(holders: Sequence[Holder], whole: float) -> list[Portion]:
    """By the size of their memories, as engines do; in equal parts where one of them is unknown."""
    sizes = [holder.memory_bytes or 0 for holder in holders]
    if not all(sizes):
        sizes = [1] * len(holders)
    return [Portion(holder.device, whole * size / sum(sizes)) for holder, size in zip(holders, sizes, strict=True)]


def _kv_types(config: Config) -> tuple[KvTypes, list[str]]:
    """And what is to be said of types that are not stated or of which the size is not known."""
    stated = [config.settings.get(key) for key in ("kv_type_k", "kv_type_v")]
    names = ["f16" if each is None else str(each).strip().lower() for each in stated]
    doubts = [_("the type of the KV cache is not stated, so f16 is counted")] if None in stated else []
    for name in dict.fromkeys(names):
        bits = kv_bits(name)
        if bits is None:
            doubts.append(
                _("the size of a KV cache of type {name} is unknown, so it is left out of the bytes", name=name)
            )
        elif name not in KV_BITS:
            doubts.append(
                _(
                    "a KV cache of type {name} counts {bits:g} bits a value, its scales are left out",
                    name=name,
                    bits=bits,
                )
            )
    return KvTypes(*(UNKNOWN if kv_bits(name) is None else name for name in names)), doubts


def slots_of(config: Config) -> int | None:
    return _whole(config, "parallel") or None


def at_once(point: Point, slots: int | None) -> int:
    """How many of a point's streams are decoded together: those beyond the server's slots wait for their turn."""
    return min(point.concurrency, slots or point.concurrency)


def _whole(config: Config, key: str) -> int | None:
    value = config.settings.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
