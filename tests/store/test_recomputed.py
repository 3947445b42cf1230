"""Numbers of an older formula are computed anew from their samples."""

from typing import Any

import pytest
from sqlmodel import Session, col, select, update

from app.db import Database
from app.metrics import metrics
from app.models import Measurement, Run
from app.runner import OUTDATED_AT_ONCE, Runner, workers
from app.settings import Settings
from app.store import measurements
from tests.databases import on_both
from tests.metrics.rounds import LONG, sensed
from tests.seed import seed
from tests.traces import sample
from tests.web.notebook import add_run

ENERGY = "joules_per_output_token"
VERSION = metrics()[ENERGY].formula_version


def energies(session: Session) -> list[Any]:
    found = select(Measurement.value, Measurement.formula_version).where(col(Measurement.metric) == ENERGY)
    return sorted(tuple(row) for row in session.exec(found).all())


def bring_all(runner: Runner) -> int:
    """In how many steps."""
    steps = 1
    while runner.bring_up_to_date():
        steps += 1
    return steps


def watched_runs(database: Database, count: int) -> list[str]:
    """With an energy of an older formula."""
    taken = [sample(LONG, ordinal=n, sensors=sensed(gpu0__power_w=[160.0] * 4)) for n in range(3)]
    made = [add_run(database, taken) for _ in range(count)]
    with database.write() as session:
        session.execute(
            update(Measurement).where(col(Measurement.metric) == ENERGY).values(value=99, formula_version=1)
        )
    return made


@on_both
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
    bring_all(Runner(database, settings))
    with database.read() as session:
        assert measurements.outdated(session, 9) == []
        assert energies(session) == [(16.0, VERSION), (99.0, 1)]  # without samples what is known stays


@on_both
def test_many_runs_come_in_steps_so_that_the_queue_goes_on_between_them(database: Database, settings: Settings) -> None:
    with database.write() as session:
        seed(session, runs=1, detailed=0)
    watched_runs(database, OUTDATED_AT_ONCE + 1)
    assert bring_all(Runner(database, settings)) == 3  # the last one finds nothing
    with database.read() as session:
        assert set(energies(session)) == {(16.0, VERSION)}


def test_a_run_that_cannot_be_computed_keeps_what_it_has_and_holds_up_no_other(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with database.write() as session:
        seed(session, runs=1, detailed=0)
    watched_runs(database, 3)
    derive, tried = measurements.derive, []

    def failing(session: Session, run_id: int) -> None:
        tried.append(run_id)
        if len(tried) == 2:
            raise ValueError("broken samples")
        derive(session, run_id)

    monkeypatch.setattr(measurements, "derive", failing)
    bring_all(Runner(database, settings))
    assert len(tried) == 3, "each is tried once"
    assert f"the numbers of run {tried[1]} could not be computed anew" in caplog.text
    with database.read() as session:
        assert energies(session) == [(16.0, VERSION), (16.0, VERSION), (99.0, 1)]


def test_the_watcher_computes_nothing_anew_while_a_worker_of_its_data_folder_measures(
    database: Database, settings: Settings
) -> None:
    with database.write() as session:
        seed(session, runs=1, detailed=0)
    public_id = add_run(database, [])
    for instance, is_measuring in ((workers.instance_id(settings), True), ("elsewhere", False)):
        with database.write() as session:
            session.execute(
                update(Run).where(col(Run.public_id) == public_id).values(status="running", worker_instance=instance)
            )
        assert Runner(database, settings).is_measuring() is is_measuring
