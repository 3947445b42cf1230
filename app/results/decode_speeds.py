"""The newest or fastest decode of each configuration, with all that its ceiling is computed from."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, func, not_, or_, select
from sqlmodel import Session, col

from app.core.samples import Workload
from app.db.machines import MachineDevice, devices
from app.db.models import KnownGeometry, best_geometry
from app.db.tables import Config, Machine, Measurement, Model, Run, StatedGeometry
from app.metrics import HEADLINE_METRICS
from app.metrics.token_counts import TokenCounts
from app.results.hardware import Hardware, gpu_share_of, resolve_hardware
from app.results.run_filter import NOT_HIDDEN
from app.results.speculation import Drafts, drafting_among, drafts_of
from app.results.token_counts import token_counts


class Decode(NamedTuple):
    public_id: str
    config: Config
    model: Model
    known_geometry: KnownGeometry | None
    """The model's geometry."""
    hardware: Hardware
    suite_key: str
    point: Workload
    """The suite's main one."""
    tokens_per_s: float
    """All streams together: of several ones the throughput of their rounds."""
    drafts: Drafts | None = None
    """Where something was drafted."""
    counts: TokenCounts | None = None
    """Of the tokens of its prompts and answers."""
    gpu_share: float | None = None
    """Of 1, in the memory of cards, as the server said."""


def newest_decodes(session: Session, machine_id: int | None = None) -> list[Decode]:
    """Of done runs that count, for each configuration and suite, the newest first."""
    newest = select(func.max(col(Run.id))).where(*_done(machine_id))
    return _decodes(session, newest.group_by(col(Run.config_id), col(Run.suite_key)))


def fastest_decodes(session: Session, machine_id: int) -> list[Decode]:
    """Of done runs on a machine that count, the fastest of each configuration and suite, the newest first."""
    place = func.row_number().over(
        partition_by=[col(Run.config_id), col(Run.suite_key)],
        order_by=[col(Measurement.value).desc(), col(Run.id).desc()],
    )
    speeds = select(col(Run.id).label("id"), place.label("place")).join(Measurement, _IS_DECODE)
    ranked = speeds.where(*_done(machine_id)).subquery()
    return _decodes(session, select(ranked.c.id).where(ranked.c.place == 1))


_HAS_ONE_STREAM = col(Run.main_point_key).like("%/%/1/%")
"""By the third part of a point's key, its concurrency."""

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
