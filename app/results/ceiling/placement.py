"""The placement of a configuration's model: its bytes on the devices that hold them, or why that is unknown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app import engines
from app.ceiling.bytes_per_step import Step, step
from app.ceiling.decode import DecodeCeiling, Device, Portion, Split, decode
from app.ceiling.efficiency import PublishedGroup, decode_group, device_class, model_kind, prefill_group
from app.ceiling.geometry import Geometry
from app.ceiling.layout import Layout, Memory
from app.ceiling.number_formats import KV_BITS, UNKNOWN, KvTypes, kv_bits
from app.ceiling.offload import Offload
from app.core.config_settings import remote_host
from app.core.i18n import _, as_sentence, joined
from app.core.samples import Workload
from app.core.units import TERA, format_number
from app.db.machines import BandwidthValue, MachineDevice, capacity_of
from app.db.models import KnownGeometry
from app.db.tables import Config
from app.hardware.catalogue import Catalogue
from app.hardware.profile import MEASURED
from app.results.ceiling.cards import Cards, Unknown, cards_of, engine_of, non_negative_int, ratios_of


@dataclass(frozen=True)
class DeviceShare:
    """A device that holds the model or a part of it, and the source of its bandwidth."""

    device: Device
    stated: BandwidthValue
    is_ram: bool
    llc_bytes: int | None
    memory_bytes: int | None


@dataclass(frozen=True)
class Placement:
    """The devices that hold a model, and how a step is read from them."""

    known_geometry: KnownGeometry
    """The model's geometry with its weights, and its source."""
    kv: KvTypes
    device_shares: tuple[DeviceShare, ...]
    """Cards before memory; equal cards one by one."""
    layout: Layout
    slots: int | None
    """The number of requests that the server works on at once; None when it does not report it."""
    assumptions: tuple[str, ...]

    @property
    def geometry(self) -> Geometry:
        """The model's geometry."""
        return self.known_geometry.geometry

    @property
    def split(self) -> Split:
        """The way in which several cards share the model."""
        return self.layout.split

    def at_once(self, point: Workload) -> int:
        """The number of a point's streams that are decoded together."""
        return at_once(point, self.slots)

    def portions(self, step: Step) -> list[Portion]:
        """Returns how much of a step each device reads."""
        portions = self.layout.portions(self.geometry, step)
        return self._on_cards_alone().portions(self.geometry, step) or [] if portions is None else portions

    def decode(self, step: Step) -> DecodeCeiling:
        """Returns the decode ceiling of a step. When the memory's bandwidth is unknown it is that of the cards alone,
        which is no lower."""
        ceiling = self.layout.decode(self.geometry, step)
        if ceiling is not None:
            return ceiling
        doubt = _("the bandwidth of system memory is unknown, so the part that lies there is counted as on GPUs")
        ceiling = decode(step, self.portions(step), self.split)
        sentences = (*self.layout.sentences(self.geometry, step), doubt)
        return DecodeCeiling(
            ceiling.tokens_per_s, ceiling.expected_tokens_per_s, ceiling.words, (*sentences, *ceiling.assumptions)
        )

    def _on_cards_alone(self) -> Layout:
        cards = tuple(Memory(card.device) for card in self.layout.cards)
        return Layout(cards, None, Offload(), self.layout.split, self.layout.shares, self.layout.stages)

    def ram_time_share(self, step: Step) -> float:
        """Returns the share of a step's reading time that system memory takes besides cards; 0 when all is in one
        place."""
        portions = self.portions(step)
        if not self.layout.cards or len(portions) == len(self.layout.cards):
            return 0.0
        ram = portions[-1]
        ram_s = ram.share / sum(portion.share for portion in portions) * step.n_bytes / ram.device.bandwidth_bytes_per_s
        return ram_s * self.decode(step).tokens_per_s / step.batch

    @property
    def is_partly_in_ram(self) -> bool:
        """Whether cards and system memory both hold a part of the model."""
        return len({device_share.is_ram for device_share in self.device_shares}) > 1

    @property
    def device(self) -> Device | None:
        """A device with the figures of all of them together: of a single device, or equal ones; None for unlike
        devices."""
        first = self.device_shares[0].device
        if any(device_share.device != first for device_share in self.device_shares):
            return None
        many = len(self.device_shares) // self.layout.stages if self.split is Split.TENSOR else 1
        name = first.name if len(self.device_shares) == 1 else f"{len(self.device_shares)} × {first.name}"
        peak = first.peak_flops and first.peak_flops * many
        return Device(name, first.bandwidth_bytes_per_s * many, peak)

    def equivalent_device(self, step: Step) -> Device:
        """Returns one device that takes as long for a step as all of them together, each reading its share of the
        bytes."""
        if len(self.device_shares) == 1:
            return self.device_shares[0].device
        names = " + ".join(dict.fromkeys(device_share.device.name for device_share in self.device_shares))
        peaks = [device_share.device.peak_flops for device_share in self.device_shares]
        bandwidth = self.decode(step).tokens_per_s * step.n_bytes / step.batch
        return Device(names, bandwidth, sum(peak or 0 for peak in peaks) if all(peaks) else None)

    def is_on_the_same_devices_as(self, other: "Placement") -> bool:
        """Whether both models are on the same devices with the same split, whatever their bandwidths."""
        devices, other_devices = (
            [(share.device.name, share.memory_bytes) for share in placement.device_shares]
            for placement in (self, other)
        )
        same_split = (self.split, self.layout.shares) == (other.split, other.layout.shares)
        same_offload = not self.is_partly_in_ram or self.layout.offload == other.layout.offload
        return devices == other_devices and same_split and same_offload

    @property
    def is_measured(self) -> bool:
        """Whether the bandwidth of some device was measured."""
        return any(device_share.stated.source == MEASURED for device_share in self.device_shares)

    @property
    def llc_bytes(self) -> int | None:
        """The last-level caches of all devices together, in bytes; None when none is known."""
        return sum(device_share.llc_bytes or 0 for device_share in self.device_shares) or None


def resolve_placement(
    devices: Sequence[MachineDevice],
    config: Config,
    known_geometry: KnownGeometry | None,
    remarks: Sequence[str] = (),
    gpu_share: float | None = None,
) -> Placement | Unknown:
    """Works out which of a machine's `devices` hold the configuration's model, or why there can be no ceiling.

    `remarks` are needed to judge the devices and the model. `gpu_share` is the share of the model in the memory of
    cards, 0 to 1, that the server reported during a run; a setting that a person stated outranks it.
    """
    if (unknown := _without_weights(config, known_geometry)) is not None:
        return unknown
    assert known_geometry is not None
    geometry, settings = known_geometry.geometry, engines.with_flags(config.settings)
    assert geometry.weights is not None
    if gpu_share is not None and gpu_share < 1:
        settings.setdefault("gpu_share", round(100 * gpu_share))
    kv, doubts = _kv_types(settings)
    empty_step = step(geometry, 0, kv)
    assert empty_step is not None
    engine = engine_of(config.engine)
    cards = cards_of(devices, settings, engine, geometry.weights.total.n_bytes)
    if isinstance(cards, Unknown):
        return cards
    if without_bandwidth := next((card for card in cards.used if not card.bandwidths), None):
        return _without_bandwidth(without_bandwidth)
    ram = next((device for device in devices if device.kind == "ram"), None)
    layout = _layout(cards, ram, Offload.of(settings))
    if engine.caches_experts and geometry.experts_total and cards.used:
        layout = replace(layout, cards=tuple(Memory(card.device) for card in layout.cards), shares=layout.card_shares())
        doubts.append(
            _("{title} keeps the experts that are used most on GPUs, so all are counted there", title=engine.title)
        )
    overflow = layout.overflow(geometry, empty_step)
    needs_ram = not cards.used or layout.placed(geometry).n_bytes(empty_step) > 0 or overflow is not None
    if needs_ram and layout.ram is None:
        return _without_bandwidth(ram, overflow)
    owners = [*cards.used, *([ram] if ram and needs_ram else [])]
    return Placement(
        known_geometry=known_geometry,
        kv=kv,
        device_shares=tuple(map(_device_share, owners)),
        layout=layout,
        slots=slots_of(config),
        assumptions=(
            *remarks,
            *dict.fromkeys(_figures(owners)),
            *cards.assumptions,
            *doubts,
            *_not_understood(settings),
        ),
    )


def _without_weights(config: Config, known_geometry: KnownGeometry | None) -> Unknown | None:
    """Returns why the model's bytes or their place are unknown; None when both are known."""
    if host := remote_host(config.settings):
        return Unknown(
            _("The model runs at {host}, so its hardware is unknown.", host=host),
            _("Measure a model that the server runs itself."),
            "configuration",
        )
    if known_geometry is not None and known_geometry.geometry.weights is None and known_geometry.geometry.assumptions:
        return Unknown(
            _(
                "The bytes the model reads per token are unknown: {why}.",
                why=known_geometry.geometry.assumptions[0],
            ),
            _("Add the model's details: its config.json, a GGUF file, or its parameters and bits per weight."),
            "model",
        )
    if known_geometry is None or known_geometry.geometry.weights is None:
        return Unknown(
            _(
                "The bytes the model reads per token are unknown, because its server names no model file that "
                "Roofmark can read."
            ),
            _("Add the model's details: its config.json, a GGUF file, or its parameters and bits per weight."),
            "model",
        )
    return None


def _layout(cards: Cards, ram: MachineDevice | None, offload: Offload) -> Layout:
    def memory(device: MachineDevice, capacity_bytes: int | None) -> Memory:
        return Memory(_device_share(device).device, capacity_bytes)

    return Layout(
        cards=tuple(memory(card, capacity_of(card)) for card in cards.used),
        ram=memory(ram, ram.memory_bytes) if ram and ram.bandwidths else None,
        offload=offload,
        split=cards.split,
        shares=cards.shares,
        stages=cards.stages,
    )


def _device_share(owner: MachineDevice) -> DeviceShare:
    stated = owner.bandwidths[0]
    device = Device(owner.name, stated.bytes_per_s, owner.peak_flops)
    return DeviceShare(device, stated, owner.kind == "ram", owner.llc_bytes, owner.memory_bytes)


def _not_understood(settings: dict[str, object]) -> Iterator[str]:
    """Returns remarks on typed flags that may change what is read, and on shares that are no numbers."""
    flags = settings.get("flags")
    if isinstance(flags, str) and (unknown := engines.parse_flags(flags).not_understood):
        yield _("not understood, so the ceiling ignores it: {flags}", flags=", ".join(unknown))
    if (shares := settings.get("tensor_split")) and not ratios_of(settings):
        yield _("not understood, so the ceiling ignores it: {flags}", flags=f"tensor_split {shares}")


def _without_bandwidth(owner: MachineDevice | None, overflow: str | None = None) -> Unknown:
    """Returns why there is no ceiling without the bandwidth. `overflow` says why memory is needed although no setting
    puts anything there."""
    if owner is None or owner.kind == "ram":
        reason = _("The bandwidth of the machine's memory is unknown.")
        return Unknown(
            joined(as_sentence(overflow), reason) if overflow else reason,
            _("Measure it, or enter it."),
            "machine",
            is_measurable=True,
        )
    reason = _("The bandwidth of the machine's {device} is unknown.", device=owner.name)
    return Unknown(reason, _("Pick the device from the catalogue."), "machine")


def _figures(owners: Sequence[MachineDevice]) -> Iterator[str]:
    """Returns which figures were unknown when the run was measured, and which of two peaks counts."""
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
                "the peak compute of the processor, {peak} TFLOP/s, was typed",
                peak=format_number(owner.peak_flops / TERA),
            )
        if owner.is_peak_later:
            yield _(
                "the peak compute of {name} was stated after this run", name=computing(owner.name, owner.kind == "ram")
            )
        slow, fast = owner.compute_flops_per_s, owner.fastest_flops_per_s
        if slow and fast and slow != fast:
            yield (
                _(
                    "compute of {name} is that of its fastest usable path, {fast} TFLOP/s; FP16 with FP32 accumulate "
                    "reaches {slow}",
                    name=owner.name,
                    fast=format_number(fast / TERA),
                    slow=format_number(slow / TERA),
                )
            )


def computing(name: str, is_ram: bool) -> str:
    """Names what computes with the bytes of a device: cards do so themselves, for memory it is the processor."""
    return _("the processor") if is_ram else name


def _kv_types(settings: Mapping[str, object]) -> tuple[KvTypes, list[str]]:
    """Returns the types of the KV cache, and remarks on types that are not stated or whose size is unknown."""
    stated = [settings.get(key) for key in ("kv_type_k", "kv_type_v")]
    names = ["f16" if name is None else str(name).strip().lower() for name in stated]
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
    """Returns the number of requests that the server works on at once, from the configuration's `parallel`; None when
    that is not stated."""
    return non_negative_int(engines.with_flags(config.settings), "parallel") or None


def at_once(point: Workload, slots: int | None) -> int:
    """Returns how many of a point's streams are decoded together; those beyond the server's slots wait."""
    return min(point.concurrency, slots or point.concurrency)


# --- published results to compare with -------------------------------------------------------------------------------


def decode_peers(placement: Placement, catalogue: Catalogue) -> PublishedGroup | None:
    """Returns published decode results of similar models on the same class of device; None when there are too few."""
    return decode_group(class_of_devices(placement, catalogue), model_kind(placement.geometry))


def prefill_peers(placement: Placement, catalogue: Catalogue) -> PublishedGroup | None:
    """Returns published prefill results of similar models on the same class of device; None when there are too few."""
    return prefill_group(class_of_devices(placement, catalogue), model_kind(placement.geometry))


def class_of_devices(placement: Placement, catalogue: Catalogue) -> str | None:
    """Returns the class of the devices; None for unlike devices, such as a GPU and system memory, for which nothing is
    published."""
    classes = {
        _class_of(device_share.device.name, device_share.memory_bytes, device_share.is_ram, catalogue)
        for device_share in placement.device_shares
    }
    return classes.pop() if len(classes) == 1 else None


def _class_of(name: str, memory_bytes: int | None, is_ram: bool, catalogue: Catalogue) -> str | None:
    if is_ram:
        return device_class(name, "", "ram", "")
    device = catalogue.find(name, memory_bytes).device
    return device_class(device.name, device.vendor, device.kind, device.memory_kind) if device else None
