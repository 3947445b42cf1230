"""Numbers of an older formula are computed anew from their samples."""

from typing import Any

from sqlmodel import Session, col, select, update

from app.db import Database
from app.models import Measurement
from app.runner import Runner
from app.settings import Settings
from app.store import measurements
from tests.metrics.rounds import LONG, sensed
from tests.seed import seed
from tests.traces import sample
from tests.web.notebook import add_run

ENERGY = "joules_per_output_token"


def energies(session: Session) -> list[Any]:
    found = select(Measurement.value, Measurement.formula_version).where(col(Measurement.metric) == ENERGY)
    return sorted(tuple(row) for row in session.exec(found).all())


def test_an_older_formula_is_replaced_where_there_are_samples(database: Database, settings: Settings) -> None:
    with database.write() as session:
        seed(session, runs=2, detailed=0)
    watched = [sample(LONG, ordinal=n, sensors=sensed(gpu0__power_w=[160.0] * 4)) for n in range(3)]
    add_run(database, watched)
    bare = add_run(database, [])
    with database.write() as session:
        session.execute(
            update(Measurement).where(col(Measurement.metric) == ENERGY).values(value=99, formula_version=1)
        )
        (known,) = session.exec(select(Measurement).where(col(Measurement.metric) == ENERGY)).all()
        imported = {**known.model_dump(exclude={"id"}), "run_id": known.run_id + 1}
        session.add(Measurement(**imported))
    assert bare
    with database.read() as session:
        assert measurements.outdated(session, 9) == [known.run_id]
    Runner(database, settings).bring_up_to_date()
    with database.read() as session:
        assert measurements.outdated(session, 9) == []
        assert energies(session) == [(16.0, 2), (99.0, 1)]  # without samples what is known stays
