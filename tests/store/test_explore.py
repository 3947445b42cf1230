"""What the explorer reads, on both databases."""

from datetime import timedelta

import pytest
from sqlmodel import Session, select

from app.core.samples import Workload
from app.db.database import Database
from app.db.tables import Run, now
from app.results.context_curves import context_curves
from app.results.explore import observations
from app.results.explore.observations import ObservationSet
from app.results.run_filter import RunFilter
from tests.databases import on_both
from tests.explored import QUANTIZATIONS, START, SUITES, add_notebook, number
from tests.year import DOUBLED, RUNS, seed_year

DECODE = "decode_tokens_per_s"


@pytest.fixture
def ids(database: Database) -> list[str]:
    with database.write() as session:
        return add_notebook(session, repeats=1)


def count(observation_set: ObservationSet) -> int:
    return sum(len(rows) for rows in observation_set.observations.values())


def read(session: Session, where: RunFilter | None = None, *metrics: str, source: str | None = None) -> ObservationSet:
    return observations.load_observations(session, where or RunFilter(), metrics or [DECODE], source)


@on_both
def test_a_run_counts_once_at_its_main_point_or_at_all_of_its_points(database: Database, ids: list[str]) -> None:
    with database.read() as session:
        assert count(read(session)) == count(observations.load_observations(session, RunFilter(), [])) == len(ids)
        everywhere = observations.load_observations(session, RunFilter(), [DECODE], is_main_only=False)
    assert count(everywhere) == len(ids) // len(SUITES) * sum(map(len, SUITES.values()))
    assert everywhere.matching_runs == len(ids)
    assert {group_key.point_key for group_key in everywhere.observations} >= {"512/128/8/0", "64/64/1/16384"}


@on_both
def test_two_metrics_stand_side_by_side_and_the_source_can_be_chosen(database: Database, ids: list[str]) -> None:
    with database.read() as session:
        both = read(session, None, DECODE, "ttft_ms")
        server = read(session, None, DECODE, "ttft_ms", source="server")
    for group_key, rows in both.observations.items():
        for shown, stated in zip(rows, server.observations[group_key], strict=True):
            assert shown[4] > 0
            assert stated[2] == pytest.approx(shown[2] * 1.01)
            assert stated[4:] == (None, None)


@on_both
def test_runs_that_do_not_count(database: Database, ids: list[str]) -> None:
    with database.write() as session:
        runs = session.exec(select(Run).where(Run.suite_key == "triple")).all()
        runs[0].hidden_at, runs[1].status, runs[2].config_id = now(), "failed", None
        gone = {run.public_id for run in runs[:3]}
    with database.read() as session:
        observation_set = read(session)
    assert {row[0] for rows in observation_set.observations.values() for row in rows} == set(ids) - gone
    assert observation_set.matching_runs == len(ids) - 3


@on_both
def test_filters(database: Database, ids: list[str]) -> None:
    half, per_suite = len(ids) // 2, len(ids) // len(SUITES)
    with database.read() as session:
        runs = session.exec(select(Run)).all()
        labelled = sum(run.labels == ["night"] for run in runs)
        last_early_day = START.date() + timedelta(days=2)
        early = sum(run.started_at is not None and run.started_at.date() <= last_early_day for run in runs)
        for where, expected in (
            (RunFilter(machine="strix-halo"), half),
            (RunFilter(model="Llama-3.3-70B"), half),
            (RunFilter(suite="depth"), per_suite),
            (RunFilter(engine="llama.cpp"), len(ids)),
            (RunFilter(label="night"), labelled),
            (RunFilter(label="nigh"), 0),
            (RunFilter(label='%"'), 0),
            (RunFilter(until=last_early_day), early),
            (RunFilter(since=last_early_day + timedelta(days=1)), len(ids) - early),
            (RunFilter(machine="strix-halo", model="Llama-3.3-70B"), 0),
            (
                RunFilter(machine="strix-halo", model="Qwen3-30B-A3B", suite="triple", engine="llama.cpp"),
                len(QUANTIZATIONS),
            ),
        ):
            observation_set = read(session, where)
            assert (count(observation_set), observation_set.matching_runs) == (expected, expected), where


@on_both
def test_what_there_is_to_choose_from(database: Database, ids: list[str]) -> None:
    with database.write() as session:
        run = session.exec(select(Run)).first()
        assert run is not None
        run.labels = ["夜間", 'a "quoted" one']
    with database.read() as session:
        inventory = observations.load_inventory(session)
        measured = observations.measured_points(session)
        assert (
            count(read(session, RunFilter(label="夜間")))
            == count(read(session, RunFilter(label='a "quoted" one')))
            == 1
        )
    assert len(inventory.configs) == 2 * len(QUANTIZATIONS)
    assert inventory.suites == sorted(SUITES)
    assert set(inventory.labels) == {"night", "夜間", 'a "quoted" one'}
    assert {point.workload for point in measured if point.metric == DECODE} == {
        w for suite in SUITES.values() for w in suite
    }


@on_both
def test_a_null_has_its_reason(database: Database) -> None:
    with database.write() as session:
        (public_id, *_) = add_notebook(session, repeats=1)
        run = session.exec(select(Run).where(Run.public_id == public_id)).one()
        session.add(number(run, Workload(512, 128), "ttfa_ms", "client", "ms", None, null_reason="no_answer_token"))
    with database.read() as session:
        observation_set = read(session, None, "ttfa_ms")
    assert [row[2:] for rows in observation_set.observations.values() for row in rows] == [(None, "no_answer_token")]


@on_both
def test_machines_of_one_name_are_told_apart(database: Database, ids: list[str]) -> None:
    with database.write() as session:
        for machine in observations.load_inventory(session).machines.values():
            machine.name = "box"
            session.add(machine)
    with database.read() as session:
        inventory = observations.load_inventory(session)
        assert {inventory.machine_title(key) for key in inventory.machines} == {"box (strix-halo)", "box (2x3090)"}


@on_both
def test_groups_are_split_where_the_hardware_changed(database: Database) -> None:
    with database.write() as session:
        seed_year(session)
    with database.read() as session:
        inventory = observations.load_inventory(session)
        observation_set = observations.load_observations(session, RunFilter(), [DECODE], with_time=True)
        split = observations.by_hardware(session, observation_set, inventory)
        newest = observations.newest_starts(session)
        curves = context_curves(session, RunFilter())
    names = {
        (inventory.machine_title(key.machine_id), key.hardware, row[observations.STARTED_AT] >= DOUBLED)
        for key, rows in split.observations.items()
        for row in rows
    }
    assert {name for name in names if name[1]} == {
        ("workstation", "RTX 4090", False), ("workstation", "2 × RTX 4090", True),
    }  # fmt: skip
    assert count(split) == count(observation_set) == RUNS
    for key, rows in split.observations.items():
        assert max(row[observations.STARTED_AT] for row in rows) <= newest[key.machine_id, key.config_id]
    assert curves
