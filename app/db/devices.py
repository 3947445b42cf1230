"""Devices to compute with: the catalogue with the devices that a person added or corrected before the built-in ones,
and the machines' own devices."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmodel import Session, select

from app.ceiling import decode
from app.ceiling.layout import Layout, Memory
from app.ceiling.offload import Offload
from app.core.errors import BadInput, NotFound
from app.core.i18n import _, enumerated, joined
from app.db import machines
from app.db.database import cached_query
from app.db.machines import MachineDevice
from app.db.tables import Device, Machine
from app.hardware import catalogue
from app.hardware.catalogue import Catalogue
from app.hardware.profile import CATALOGUE

MOST_NAMED = 6
"""The most devices named in a sentence."""


@dataclass(frozen=True)
class KnownDevice:
    """A device to compute with, and the source of its figures."""

    device: decode.Device
    source: str
    """The source of its bandwidth, in words."""
    memory_bytes: int | None
    is_ram: bool = False
    ram: decode.Device | None = None
    """The system memory of the device's machine, when its bandwidth is known."""
    compute_flops_per_s: float | None = None
    """Dense FP16 with FP32 accumulate; the peak of `device` is that of its fastest path."""
    machine_id: int | None = None
    """The machine that it is in; None for a device of the catalogue."""
    shared_bytes: int | None = None
    """The memory that a machine states for a GPU which shares the system's memory: it may use more, so that no ceiling
    rests on it."""

    def layout(self, ram: decode.Device | None = None, offload: Offload | None = None) -> Layout:
        """Returns the layout of a model on the device; `ram` is typed system memory that replaces the machine's."""
        if self.is_ram:
            return Layout((), Memory(self.device))
        system_memory = ram or self.ram
        return Layout(
            (Memory(self.device, self.memory_bytes),),
            Memory(system_memory) if system_memory else None,
            offload or Offload(),
        )

    @property
    def name(self) -> str:
        """The name that finds it."""
        return self.device.name


@dataclass(frozen=True)
class KnownDevices:
    """All devices that can be named: `RTX 3090 on tower` is a machine's own, `RTX 3090` is the catalogue's first."""

    local: Sequence[KnownDevice]
    catalogue: Catalogue

    @property
    def names(self) -> list[str]:
        """All names, those of machines' own devices first."""
        return [device.name for device in self.local] + [device.name for device in self.catalogue.devices]

    def find(self, name: str) -> KnownDevice:
        """Returns the device that a name means. Raises BadInput with what the name may mean."""
        folded = name.strip().casefold()
        if known_device := next(
            (known_device for known_device in self.local if known_device.name.casefold() == folded), None
        ):
            return known_device
        match = self.catalogue.find(name)
        if device := match.device or next((d for d in self.catalogue.devices if d.name.casefold() == folded), None):
            return _of_catalogue(device)
        local = (
            [known_device for known_device in self.local if known_device.name.casefold().startswith(f"{folded}{LOCAL}")]
            if folded
            else []
        )
        if len(local) == 1 and not match.candidates:
            return local[0]
        candidates = [*(known_device.name for known_device in local), *(device.name for device in match.candidates)]
        if len(candidates) > 1:
            raise BadInput(
                _(
                    "{name!r} matches several devices: {devices}.",
                    name=name[:60],
                    devices=", ".join(candidates[:MOST_NAMED]),
                )
            )
        suggestions = candidates or [device.name for device in self.catalogue.similar(name)]
        sentence = _("Neither the catalogue nor a machine has a device {name!r}.", name=name[:60])
        raise BadInput(
            joined(sentence, _("Did you mean {close}?", close=enumerated(suggestions, "or")) if suggestions else "")
        )


def known_devices(session: Session) -> KnownDevices:
    """Returns the catalogue with a person's own devices, and the devices of all machines."""
    local = [device for machine in machines.list_machines(session) for device in devices_of(session, machine)]
    return KnownDevices(local, load_catalogue(session))


def devices_of(session: Session, machine: Machine) -> list[KnownDevice]:
    """Returns the devices of one machine that can be named; empty for an archived one."""
    machine_devices = [] if machine.archived_at else machines.devices(session, machine)
    devices = [_of_machine(device, machine) for device in machine_devices if device.bandwidths]
    ram = next((known_device.device for known_device in devices if known_device.is_ram), None)
    return [device if device.is_ram else replace(device, ram=ram) for device in devices]


LOCAL = " on "
"""The text between a device and its machine."""


def local_name(device: str, machine: str) -> str:
    """Returns the name of a machine's own device: `RTX 3090 on tower`."""
    return f"{device}{LOCAL}{machine}"


def device_name(local: str) -> str:
    """Returns the device of such a name without its machine."""
    return local.partition(LOCAL)[0]


def _of_catalogue(device: catalogue.CatalogueDevice) -> KnownDevice:
    computing_device = decode.Device(device.name, device.bandwidth_bytes_per_s, device.peak_flops)
    source = joined(machines.source_words(CATALOGUE), device.source_words, by=": ")
    is_ram = device.kind == "ram"
    return KnownDevice(
        computing_device, source, device.memory_bytes, is_ram, compute_flops_per_s=device.compute_flops_per_s
    )


def _of_machine(device: MachineDevice, machine: Machine) -> KnownDevice:
    """Returns one of a machine's devices when it has several equal ones."""
    stated = device.bandwidths[0]
    computing_device = decode.Device(local_name(device.name, machine.name), stated.bytes_per_s, device.peak_flops)
    is_ram = device.kind == "ram"
    memory_bytes = device.memory_bytes if is_ram else machines.capacity_of(device)
    return KnownDevice(
        computing_device,
        stated.words,
        memory_bytes,
        is_ram,
        compute_flops_per_s=device.compute_flops_per_s,
        machine_id=machine.id,
        shared_bytes=device.memory_bytes if memory_bytes is None else None,
    )


@cached_query(maxsize=1)
def load_catalogue(session: Session) -> Catalogue:
    """Returns the built-in catalogue with the devices that a person added or corrected."""
    return catalogue.built_in().with_own(_known(device) for device in list_devices(session))


def list_devices(session: Session) -> Sequence[Device]:
    """Returns a person's own devices by name."""
    return session.exec(select(Device).order_by(Device.name)).all()


def save_device(session: Session, name: str, **fields: Any) -> Device:
    """Adds a device, or replaces the figures of the one of this name."""
    row = session.exec(select(Device).where(Device.name == name)).first() or Device(name=name, **fields)
    for key, value in fields.items():
        setattr(row, key, value)
    session.add(row)
    session.flush()
    return row


def remove_device(session: Session, name: str) -> None:
    """Removes a person's own device; the built-in one of its name, if there is one, comes back. Raises NotFound."""
    row = session.exec(select(Device).where(Device.name == name)).first()
    if row is None:
        raise NotFound(_("You have no device called {name!r}: it may have been removed already.", name=name))
    session.delete(row)


def _known(device: Device) -> catalogue.CatalogueDevice:
    builtin = next(
        (
            catalogue_device
            for catalogue_device in catalogue.built_in().devices
            if catalogue_device.name.casefold() == device.name.casefold()
        ),
        None,
    )
    return catalogue.CatalogueDevice(
        name=device.name,
        vendor=builtin.vendor if builtin else "",
        memory_kind=builtin.memory_kind if builtin else "",
        kind=device.kind,
        bandwidth_bytes_per_s=device.bandwidth_bytes_per_s,
        source=device.source or _("your own figure"),
        memory_bytes=device.memory_bytes,
        compute_flops_per_s=device.compute_flops_per_s,
        fastest_flops_per_s=device.fastest_flops_per_s,
        aliases=builtin.aliases if builtin else (),
    )
