"""The catalogue as it is here: the built-in devices, and before them those that a person added or corrected."""

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, select

from app.errors import NotFound
from app.hardware import catalogue
from app.hardware.catalogue import Catalogue
from app.models import Device


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
        raise NotFound(f"You have no device called {name!r}: it may have been removed already.")
    session.delete(found)


def _known(device: Device) -> catalogue.Device:
    builtin = next(
        (each for each in catalogue.built_in().devices if each.name.casefold() == device.name.casefold()), None
    )
    return catalogue.Device(
        name=device.name,
        vendor=builtin.vendor if builtin else "",
        kind=device.kind,
        bandwidth_bytes_per_s=device.bandwidth_bytes_per_s,
        source=device.source or "your own figure",
        memory_bytes=device.memory_bytes,
        compute_flops_per_s=device.compute_flops_per_s,
        fastest_flops_per_s=device.fastest_flops_per_s,
        aliases=builtin.aliases if builtin else (),
    )
