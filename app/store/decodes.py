"""The newest decode speed of each configuration, with all that its ceiling is computed from."""

from typing import NamedTuple

from sqlalchemy import func, select
from sqlmodel import Session, col

from app.metrics import TRIPLE
from app.models import Config, Machine, Measurement, Model, Run
from app.samples import Point
from app.store.filters import COUNTS


class Decode(NamedTuple):
    config: Config
    model: Model
    machine: Machine
    suite_key: str
    point: Point
    """The suite's main one."""
    tokens_per_s: float
    """Of one stream."""


def newest_decodes(session: Session, machine_id: int | None = None) -> list[Decode]:
    """Of done runs that count, for each configuration and suite, the newest first."""
    newest = select(func.max(col(Run.id))).where(col(Run.status) == "done", col(Run.config_id).is_not(None), COUNTS)
    if machine_id is not None:
        newest = newest.where(col(Run.machine_id) == machine_id)
    rows = session.execute(
        select(Config, Model, Machine, col(Run.suite_key), col(Run.main_point_key), col(Measurement.value))
        .join(Run, col(Run.config_id) == col(Config.id))
        .join(Model, col(Model.id) == col(Config.model_id))
        .join(Machine, col(Machine.id) == col(Run.machine_id))
        .join(
            Measurement,
            (col(Measurement.run_id) == col(Run.id)) & (col(Measurement.point_key) == col(Run.main_point_key)),
        )
        .where(
            col(Run.id).in_(newest.group_by(col(Run.config_id), col(Run.suite_key))),
            col(Measurement.metric) == TRIPLE[2],
            col(Measurement.is_shown),
            col(Measurement.value).is_not(None),
        )
        .order_by(col(Run.id).desc())
    ).all()
    return [
        Decode(config, model, machine, suite_key, Point.from_key(point_key), value)
        for config, model, machine, suite_key, point_key, value in rows
        if value
    ]
