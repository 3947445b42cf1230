"""The decode ceilings of configurations at any points, for whoever draws many of them."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlmodel import Session

from app.core.samples import Workload
from app.db.machines import MachineDevice, devices
from app.db.models import KnownGeometry
from app.db.tables import Config, Machine
from app.results.ceiling.cards import Unknown
from app.results.ceiling.placement import Placement, resolve_placement
from app.results.ceiling.points import decode_of, step_of
from app.results.hardware import HardwareRecord, newest_records, resolve_hardware
from app.results.speculation import newest_drafts
from app.results.token_counts import Place, newest_token_counts


class CeilingRequest(NamedTuple):
    """A configuration on a machine at a point."""

    machine: Machine
    config: Config
    told: KnownGeometry | None
    """The geometry of its model."""
    point: Workload


def decode_ceilings(session: Session, wanted: Sequence[CeilingRequest]) -> list[float | None]:
    """What all streams together can reach at most in each of these, in tok/s; None: unknown.

    On the hardware that the newest run of the configuration has frozen, with the tokens that were counted and drafted
    there.
    """
    records, counts, drafts = newest_records(session), newest_token_counts(session), newest_drafts(session)
    today: dict[int, Sequence[MachineDevice]] = {}
    placements: dict[tuple[int, int], Placement | Unknown] = {}
    ceilings: list[float | None] = []
    for one in wanted:
        assert one.machine.id is not None
        assert one.config.id is not None
        if one.machine.id not in today:
            today[one.machine.id] = devices(session, one.machine)
        place = (one.machine.id, one.config.id)
        if place not in placements:
            record = records.get(place, HardwareRecord([], None))
            hardware = resolve_hardware(record.frozen, today[one.machine.id])
            placements[place] = resolve_placement(hardware.devices, one.config, one.told, gpu_share=record.gpu_share)
        placement = placements[place]
        if isinstance(placement, Placement):
            where = Place(*place, one.point)
            read = step_of(placement, one.point, counts.get(where))
            ceilings.append(decode_of(placement, read, drafts.get(where)).tokens_per_s)
        else:
            ceilings.append(None)
    return ceilings
