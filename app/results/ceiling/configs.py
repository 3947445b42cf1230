"""The ceilings of many configurations, each with the share that its newest or fastest decode reaches."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, func, not_, or_, select
from sqlmodel import Session, col

from app.ceiling.decode import DecodeCeiling
from app.ceiling.efficiency import mbu
from app.core.samples import Workload
from app.db.database import cached_query
from app.db.machines import MachineDevice, devices
from app.db.models import KnownGeometry, best_geometry
from app.db.tables import Config, Machine, Measurement, Model, Run, StatedGeometry
from app.metrics import HEADLINE_METRICS
from app.metrics.token_times import TokenCounts
from app.results.ceiling.cards import Unknown
from app.results.ceiling.placement import Placement, resolve_placement
from app.results.ceiling.points import decode_of, step_of
from app.results.hardware import Hardware, HardwareRecord, gpu_share_of, newest_records, resolve_hardware
from app.results.run_filter import NOT_HIDDEN
from app.results.token_counts import (
    Drafts,
    Place,
    drafting_among,
    drafts_of,
    newest_drafts,
    newest_token_counts,
    token_counts,
)


class Decode(NamedTuple):
    public_id: str
    config: Config
    model: Model
    known_geometry: KnownGeometry | None
    """The model's geometry."""
    hardware: Hardware
    suite_key: str
    point: Workload
    """The main workload of the suite."""
    tokens_per_s: float
    """The speed of all streams together: with several, the throughput of their rounds."""
    drafts: Drafts | None = None
    """Drafted and accepted tokens; None when nothing was drafted."""
    counts: TokenCounts | None = None
    """The token counts of its prompts and answers."""
    gpu_share: float | None = None
    """The share of the model in the memory of cards, 0 to 1, as the server reports it."""


def newest_decodes(session: Session, machine_id: int | None = None) -> list[Decode]:
    """Returns the newest decode speed of each configuration and suite, from finished runs that count, the newest
    first."""
    newest = select(func.max(col(Run.id))).where(*_done(machine_id))
    return _decodes(session, newest.group_by(col(Run.config_id), col(Run.suite_key)))


def fastest_decodes(session: Session, machine_id: int) -> list[Decode]:
    """Returns the fastest decode speed of each configuration and suite on a machine, from finished runs that count, the
    newest first."""
    place = func.row_number().over(
        partition_by=[col(Run.config_id), col(Run.suite_key)],
        order_by=[col(Measurement.value).desc(), col(Run.id).desc()],
    )
    speeds = select(col(Run.id).label("id"), place.label("place")).join(Measurement, _IS_DECODE)
    ranked = speeds.where(*_done(machine_id)).subquery()
    return _decodes(session, select(ranked.c.id).where(ranked.c.place == 1))


_HAS_ONE_STREAM = col(Run.main_point_key).like("%/%/1/%")
"""A condition on the third part of a point's key, the concurrency."""

_IS_DECODE = and_(
    col(Measurement.run_id) == col(Run.id),
    col(Measurement.point_key) == col(Run.main_point_key),
    or_(
        and_(col(Measurement.metric) == HEADLINE_METRICS[2], _HAS_ONE_STREAM),
        and_(col(Measurement.metric) == "output_tokens_per_s", not_(_HAS_ONE_STREAM)),
    ),
    col(Measurement.is_shown),
    col(Measurement.value).is_not(None),
)


def _done(machine_id: int | None) -> list[ColumnElement[bool]]:
    conditions = [col(Run.status) == "done", col(Run.config_id).is_not(None), NOT_HIDDEN]
    return conditions if machine_id is None else [*conditions, col(Run.machine_id) == machine_id]


def _decodes(session: Session, run_ids: Select[Any]) -> list[Decode]:
    rows = session.execute(
        select(Run, Config, Model, StatedGeometry, Machine, col(Measurement.value))
        .join(Config, col(Run.config_id) == col(Config.id))
        .join(Model, col(Model.id) == col(Config.model_id))
        .outerjoin(
            StatedGeometry,
            (col(StatedGeometry.model_name) == col(Model.name))
            & (col(StatedGeometry.quantization) == col(Model.quantization)),
        )
        .join(Machine, col(Machine.id) == col(Run.machine_id))
        .join(Measurement, _IS_DECODE)
        .where(col(Run.id).in_(run_ids))
        .order_by(col(Run.id).desc())
    ).all()
    drafts = drafts_of(session, drafting_among(session, [run.id for run, *_ in rows]))
    counts = token_counts(session, [run.id for run, *_ in rows])
    today: dict[int, Sequence[MachineDevice]] = {}
    decodes = []
    for run, config, model, stated, machine, value in rows:
        if machine.id not in today:
            today[machine.id] = devices(session, machine)
        hardware, point = resolve_hardware(run.hardware, today[machine.id]), Workload.from_key(run.main_point_key)
        if value:
            drafted = drafts.get((run.id, point))
            geometry = best_geometry(model, stated)
            measured = (run.suite_key, point, value, drafted, counts.get((run.id, point)), gpu_share_of(run.evidence))
            decodes.append(Decode(run.public_id, config, model, geometry, hardware, *measured))
    return decodes


class ConfigCeiling(NamedTuple):
    """The decode ceiling of a configuration, and the share of it that its newest run reaches."""

    ceiling: DecodeCeiling
    mbu: float
    """The share of the ceiling that the newest run reaches (1 is all of it); never clamped."""


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
    """Computes for each request what all streams together can reach at most, in tok/s; None when that is unknown.

    The hardware is that of the configuration's newest run, with the tokens that were counted and drafted there.
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
