"""Histories read from either database."""

from datetime import date, timedelta

import pytest
from sqlmodel import Session, select

from app.core.errors import BadInput
from app.db.database import Database
from app.db.tables import Config, Model, Run, now
from app.results.history.series import history, newest
from app.results.run_filter import RunFilter
from tests.databases import on_both
from tests.seed import seed

pytestmark = on_both


def shown(session: Session, where: RunFilter | None = None) -> list[str]:
    points, _ = history(session, where or RunFilter())
    return [point.public_id for point in points]


def test_points_are_in_order_with_what_was_asked_for(database: Database) -> None:
    with database.write() as session:
        ids = seed(session, runs=12, detailed=2)
        points, hidden = history(session, RunFilter(), ["decode_tokens_per_s", "tpot_ms"])
    assert [point.public_id for point in points] == ids
    assert hidden == 0
    assert points[0].readings[2:] == (5, None, None, None)
    assert points[-1].value(1) == pytest.approx(1000 / (points[-1].value(0) or 0), rel=1e-6)
    assert all(point.started_at.tzinfo for point in points)


def test_days_are_whole_and_include_both_ends(database: Database) -> None:
    with database.write() as session:
        ids = seed(session, runs=22, detailed=0)
        days = {run.public_id: run.started_at.date() for run in session.exec(select(Run)) if run.started_at}
        since, until = days[ids[5]], days[ids[9]]
        assert shown(session, RunFilter(since=since, until=until)) == [
            public_id for public_id in ids if since <= days[public_id] <= until
        ]
        assert shown(session, RunFilter(until=date.max)) == ids
    with pytest.raises(BadInput, match="first day is after"):
        RunFilter(since=until, until=since - timedelta(days=1))


def test_some_configurations_and_hidden_runs_of_the_same_choice(database: Database) -> None:
    with database.write() as session:
        ids = seed(session, runs=20, detailed=0)
        runs = session.exec(select(Run).order_by(Run.started_at)).all()  # type: ignore[arg-type]  # a column
        config_id = runs[0].config_id
        assert config_id is not None
        own_ids = [run.public_id for run in runs if run.config_id == config_id]
        runs[0].hidden_at = now()
        session.add(runs[0])
        session.flush()
        points, hidden = history(session, RunFilter(), config_ids=[config_id])
        assert ([point.public_id for point in points], hidden) == (own_ids[1:], 1)
        second_config_id = next(run.config_id for run in runs if run.config_id not in (None, config_id))
        assert history(session, RunFilter(), config_ids=[second_config_id or 0])[1] == 0
        nothing, none_hidden = history(session, RunFilter(), config_ids=[])
        assert (len(nothing), none_hidden) == (0, 0)
    assert len(ids) > len(own_ids)


def test_the_newest_runs_of_each_series(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=60, detailed=0)
        series = {(run.config_id, run.suite_key) for run in session.exec(select(Run))}
        points = newest(session, per_series=2)
        configs = {config.id: config for config in session.exec(select(Config))}
    assert len(points) <= 2 * len(series)
    assert {point.config_id for point in points} == {config_id for config_id, _ in series}
    assert set(configs) >= {point.config_id for point in points}
    assert [point.started_at for point in points] == sorted(point.started_at for point in points)


def test_a_choice_on_an_open_history_is_what_it_is_by_itself(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=40, detailed=0)
        a_model = session.exec(select(Model.name)).first()
        for run in session.exec(select(Run)).all()[::3]:
            run.labels = ["night"]
        config_id = session.exec(select(Config.id)).first()
    choices = [
        (RunFilter(suite="triple", model=a_model), None),
        (RunFilter(suite="triple", label="night"), None),
        (RunFilter(suite="triple", since=date(2026, 10, 1)), None),
        (RunFilter(suite="triple"), [config_id or 0]),
        (RunFilter(suite="triple"), []),
    ]
    alone = []
    for where, ids in choices:
        with database.read() as session:
            alone.append(list(history(session, where, config_ids=ids)[0]))
    with database.read() as session:
        everything = list(history(session, RunFilter(suite="triple"))[0])
    for (where, ids), expected in zip(choices, alone, strict=True):
        with database.read() as session:
            points, hidden = history(session, where, config_ids=ids)
        assert list(points) == expected
        assert len(points) < len(everything)
        assert hidden == 0
