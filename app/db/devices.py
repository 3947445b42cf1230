"""Devices to compute with: the catalogue as it is here, with those that a person added or corrected before the
built-in ones, and the machines' own devices."""

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
from app.db.machines import MachineDevice
from app.db.query_cache import cached_query
from app.db.tables import Device, Machine
from app.hardware import catalogue
from app.hardware.catalogue import Catalogue
from app.hardware.profile import CATALOGUE

MOST_NAMED = 6
"""Devices in a sentence."""


@dataclass(frozen=True)
class KnownDevice:
    device: decode.Device
    source: str
    """Where its bandwidth comes from, in words."""
    memory_bytes: int | None
    is_ram: bool = False
    ram: decode.Device | None = None
    """The system memory of the machine whose own it is, where its bandwidth is known."""
    compute_flops_per_s: float | None = None
    """Dense FP16 with FP32 accumulate; the peak of `device` is that of its fastest path."""

    def layout(self, ram: decode.Device | None = None, offload: Offload | None = None) -> Layout:
        """A model on it; `ram`: typed system memory, in the place of the machine's."""
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
        return self.device.name


@dataclass(frozen=True)
class KnownDevices:
    """All that a name may mean: `RTX 3090 on tower` is a machine's own, `RTX 3090` first of all the catalogue's."""

    local: Sequence[KnownDevice]
    catalogue: Catalogue

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.local] + [device.name for device in self.catalogue.devices]

    def find(self, name: str) -> KnownDevice:
        """Raises BadInput with what the name may mean."""
        wanted = name.strip().casefold()
        if found := next((each for each in self.local if each.name.casefold() == wanted), None):
            return found
        match = self.catalogue.find(name)
        if device := match.device or next((d for d in self.catalogue.devices if d.name.casefold() == wanted), None):
            return _of_catalogue(device)
        local = [each for each in self.local if each.name.casefold().startswith(f"{wanted}{LOCAL}")] if wanted else []
        if len(local) == 1 and not match.candidates:
            return local[0]
        fitting = [*(each.name for each in local), *(device.name for device in match.candidates)]
        if len(fitting) > 1:
            raise BadInput(
                _(
                    "{name!r} may be several devices: {fitting}.",
                    name=name[:60],
                    fitting=", ".join(fitting[:MOST_NAMED]),
                )
            )
        close = fitting or [device.name for device in self.catalogue.similar(name)]
        said = _("Neither the catalogue nor a machine has a device {name!r}.", name=name[:60])
        raise BadInput(joined(said, _("Did you mean {close}?", close=enumerated(close, "or")) if close else ""))


def known_devices(session: Session) -> KnownDevices:
    local = [device for machine in machines.list_machines(session) for device in devices_of(session, machine)]
    return KnownDevices(local, load_catalogue(session))


def devices_of(session: Session, machine: Machine) -> list[KnownDevice]:
    """Those of one machine that may be named; none of an archived one."""
    held = [] if machine.archived_at else machines.devices(session, machine)
    own = [_of_machine(device, machine.name) for device in held if device.bandwidths]
    ram = next((known_device.device for known_device in own if known_device.is_ram), None)
    return [device if device.is_ram else replace(device, ram=ram) for device in own]


LOCAL = " on "
"""Between a device and the machine whose own it is."""


def local_name(device: str, machine: str) -> str:
    return f"{device}{LOCAL}{machine}"


def _of_catalogue(device: catalogue.CatalogueDevice) -> KnownDevice:
    here = decode.Device(device.name, device.bandwidth_bytes_per_s, device.peak_flops)
    source = f"{machines.source_words(CATALOGUE)}: {device.source}"
    is_ram = device.kind == "ram"
    return KnownDevice(here, source, device.memory_bytes, is_ram, compute_flops_per_s=device.compute_flops_per_s)


def _of_machine(device: MachineDevice, machine: str) -> KnownDevice:
    """One of them, where there are several equal ones."""
    stated = device.bandwidths[0]
    here = decode.Device(local_name(device.name, machine), stated.bytes_per_s, device.peak_flops)
    is_ram = device.kind == "ram"
    memory_bytes = device.memory_bytes if is_ram else machines.capacity_of(device)
    return KnownDevice(here, stated.words, memory_bytes, is_ram, compute_flops_per_s=device.compute_flops_per_s)


@cached_query(maxsize=1)
def load_catalogue(session: Session) -> Catalogue:
    return catalogue.built_in().with_own(_known(device) for device in list_devices(session))


def list_devices(session: Session) -> Sequence[Device]:
    """A person's own, by name."""
    return session.exec(select(Device).order_by(Device.name)).all()


def save_device(session: Session, name: str, **fields: Any) -> Device:
    """Adds a device, or replaces the figures of the one of this name."""
    found = session.exec(select(Device).where(Device.name == name)).first() or Device(name=name, **fields)
    for key, value in fields.items():
        setattr(found, key, value)
    session.add(found)
    session.flush()
    return found


def remove_device(session: Session, name: str) -> None:
    """The built-in device of its name, if there is one, comes back. Raises NotFound."""
    found = session.exec(select(Device).where(Device.name == name)).first()
    if found is None:
        raise NotFound(_("You have no device called {name!r}: it may have been removed already.", name=name))
    session.delete(found)


def _known(device: Device) -> catalogue.CatalogueDevice:
    builtin = next(
        (each for each in catalogue.built_in().devices if each.name.casefold() == device.name.casefold()), None
    )
    return catalogue.CatalogueDevice(
        name=device.name,
        vendor=builtin.vendor if builtin else "",
        memory_kind=builtin.memory_kind if builtin else "",
        kind=device.kind,
        bandwidth_bytes_per_s=device.bandwidth_bytes_per_s,
        source=device.source or "your own figure",
        memory_bytes=device.memory_bytes,
        compute_flops_per_s=device.compute_flops_per_s,
        fastest_flops_per_s=device.fastest_flops_per_s,
        aliases=builtin.aliases if builtin else (),
    )
