"""The decode ceilings of configurations at any points, for whoever draws many of them."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlmodel import Session

from app.models import Config, Machine
from app.roof.placement import Placement, Unknown, resolve_placement
from app.roof.points import step_of
from app.samples import Point
from app.store.hardware import as_known, newest_records
from app.store.machines import MachineDevice, devices
from app.store.models import Told


class Stand(NamedTuple):
    """A configuration on a machine at a point."""

    machine: Machine
    config: Config
    told: Told | None
    """The geometry of its model."""
    point: Point


def decode_ceilings(session: Session, wanted: Sequence[Stand]) -> list[float | None]:
    """What all streams together can reach at most in each of these, in tok/s; None: unknown.

    On the hardware that the newest run of the configuration has frozen.
    """
    records = newest_records(session)
    today: dict[int, Sequence[MachineDevice]] = {}
    stood: dict[tuple[int, int], Placement | Unknown] = {}
    found: list[float | None] = []
    for one in wanted:
        assert one.machine.id is not None
        assert one.config.id is not None
        if one.machine.id not in today:
            today[one.machine.id] = devices(session, one.machine)
        place = (one.machine.id, one.config.id)
        if place not in stood:
            hardware = as_known(records.get(place, []), today[one.machine.id])
            stood[place] = resolve_placement(hardware.devices, one.config, one.told)
        stands = stood[place]
        if isinstance(stands, Placement):
            found.append(stands.decode(step_of(stands, one.point)).tokens_per_s)
        else:
            found.append(None)
    return found
