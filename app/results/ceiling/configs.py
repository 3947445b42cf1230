"""The ceilings of many configurations: with the share that each reaches, for lists and histories; and at any points."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlmodel import Session

from app.ceiling.decode import DecodeCeiling
from app.ceiling.efficiency import mbu
from app.core.samples import Workload
from app.db.machines import MachineDevice, devices
from app.db.models import KnownGeometry
from app.db.query_cache import cached_query
from app.db.tables import Config, Machine
from app.results.ceiling.cards import Unknown
from app.results.ceiling.placement import Placement, resolve_placement
from app.results.ceiling.points import decode_of, step_of
from app.results.decode_speeds import newest_decodes
from app.results.hardware import HardwareRecord, newest_records, resolve_hardware
from app.results.speculation import newest_drafts
from app.results.token_counts import Place, newest_token_counts


class ConfigCeiling(NamedTuple):
    """The decode ceiling of a configuration, and the share of it that its newest run reaches."""

    ceiling: DecodeCeiling
    mbu: float
    """Share of 1 that the newest run reaches; never clamped."""


@cached_query(maxsize=2)
def config_ceilings(session: Session, machine_id: int | None = None) -> dict[tuple[int, str], ConfigCeiling]:
    """Returns ceilings by configuration and suite, at the suite's main point; unknown ones are missing."""
    ceilings: dict[tuple[int, str], ConfigCeiling] = {}
    for decode in newest_decodes(session, machine_id):
        assert decode.config.id is not None
        placement = resolve_placement(
            decode.hardware.devices, decode.config, decode.known_geometry, gpu_share=decode.gpu_share
        )
        if isinstance(placement, Placement):
            decode_step = step_of(placement, decode.point, decode.counts)
            ceiling = decode_of(placement, decode_step, decode.drafts)
            share = mbu(decode.tokens_per_s, ceiling.tokens_per_s)
            ceilings[decode.config.id, decode.suite_key] = ConfigCeiling(ceiling, share)
    return ceilings


class CeilingRequest(NamedTuple):
    """A configuration on a machine at a point."""

    machine: Machine
    config: Config
    known_geometry: KnownGeometry | None
    """The geometry of its model."""
    point: Workload


def decode_ceilings(session: Session, requests: Sequence[CeilingRequest]) -> list[float | None]:
    """Computes what all streams together can reach at most, in tok/s, for each request; None where it is unknown.

    On the hardware that the newest run of the configuration has frozen, with the tokens that were counted and drafted
    there.
    """
    records, counts, drafts = newest_records(session), newest_token_counts(session), newest_drafts(session)
    current_devices: dict[int, Sequence[MachineDevice]] = {}
    placements: dict[tuple[int, int], Placement | Unknown] = {}
    ceilings: list[float | None] = []
    for request in requests:
        assert request.machine.id is not None
        assert request.config.id is not None
        if request.machine.id not in current_devices:
            current_devices[request.machine.id] = devices(session, request.machine)
        place = (request.machine.id, request.config.id)
        if place not in placements:
            record = records.get(place, HardwareRecord([], None))
            hardware = resolve_hardware(record.frozen, current_devices[request.machine.id])
            placements[place] = resolve_placement(
                hardware.devices, request.config, request.known_geometry, gpu_share=record.gpu_share
            )
        placement = placements[place]
        if isinstance(placement, Placement):
            workload_place = Place(*place, request.point)
            decode_step = step_of(placement, request.point, counts.get(workload_place))
            ceilings.append(decode_of(placement, decode_step, drafts.get(workload_place)).tokens_per_s)
        else:
            ceilings.append(None)
    return ceilings
