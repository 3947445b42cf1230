"""The leaderboard of a year whose answers are known: the best of each model, an update that cost speed, a wrong run."""

import json
import random
from collections import defaultdict
from datetime import date, timedelta
from statistics import median

import pytest
from sqlmodel import Session, col, select

from app.core.configuration import Snapshot
from app.core.errors import BadInput
from app.db import annotations, configs
from app.db.database import Database
from app.db.tables import Measurement, Run, Server
from app.results.leaderboard import LeaderboardView, Row, csv, document, leaderboard, verdict_words
from app.results.run_filter import RunFilter
from app.schemas.best import BestDocument
from app.suites import BUILT_IN
from tests.seed import geometry_json, made_run, seed, triple
from tests.year import BOXES, BUILDS, END, START, UPDATE, WRONG, seed_year

DECODE = "decode_tokens_per_s"


@pytest.fixture
def year(database: Database) -> Database:
    with database.write() as session:
        seed_year(session, 0)
    return database


def rows_of(session: Session, **parameters: str) -> dict[tuple[str, str, str], Row]:
    view = LeaderboardView.parse(parameters)
    return {(row.model, row.quantization, row.machine): row for row in leaderboard(session, view, moment=END).rows}


def measured(session: Session) -> dict[tuple[str, str, str], dict[int, list[float]]]:
    """All decode speeds of the suite by row and configuration, read another way."""
    described = configs.describe(session)
    query = select(Run.config_id, Measurement.value).where(
        Measurement.run_id == Run.id,
        Measurement.metric == DECODE,
        Measurement.point_key == Run.main_point_key,
        Run.suite_key == "triple",
    )
    values: dict[tuple[str, str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for config_id, value in session.exec(query).all():
        config = described[config_id or 0]
        values[config.snapshot.model, config.snapshot.quantization or "", config.machine][config_id or 0].append(
            value or 0
        )
    return values


def test_the_best_is_the_median_of_the_best_configuration(year: Database) -> None:
    with year.read() as session:
        rows, values = rows_of(session), measured(session)
    assert rows.keys() == values.keys()
    assert len(rows) == sum(len(quantizations) for box in BOXES for quantizations in box.models.values())
    for key, row in rows.items():
        if key[2] != "workstation":  # whose hardware changed, so that a configuration may be two
            best = max(values[key], key=lambda config_id: median(values[key][config_id]))
            assert (row.best.config_id, row.best.value) == (best, median(values[key][best]))
            assert row.runs == sum(map(len, values[key].values()))


def test_a_wrong_run_is_neither_best_nor_latest_nor_in_the_trend(year: Database) -> None:
    with year.read() as session:
        board = leaderboard(session, LeaderboardView(), moment=END)
        wrong = session.exec(select(Run).where(Run.public_id == WRONG)).one()
        until = leaderboard(
            session, LeaderboardView(RunFilter(until=wrong.started_at and wrong.started_at.date())), moment=END
        )
    assert board.wrong == [WRONG]
    shown = {run for row in (*board.rows, *until.rows) for run in (row.best.public_id, row.latest.public_id)}
    assert WRONG not in shown
    row = next(row for row in board.rows if (row.model, row.quantization) == ("Llama-3.1-8B", "Q4_K_M"))
    assert min(value for _at, value in row.trend) > 0.9 * row.best.value


def test_a_run_that_is_too_fast_is_not_the_best(year: Database) -> None:
    with year.write() as session:
        run = session.exec(select(Run).where(Run.public_id == WRONG)).one()
        reading = session.exec(
            select(Measurement).where(Measurement.run_id == run.id, Measurement.metric == DECODE)
        ).one()
        reading.value = 4 * (reading.value or 0)
    with year.read() as session:
        row = rows_of(session)["Llama-3.1-8B", "Q4_K_M", "workstation"]
    assert row.best.value < 180


def test_the_update_that_cost_speed_is_the_change_against_the_build_before(year: Database) -> None:
    day = START.date() + timedelta(days=1 + 46 * UPDATE + 20)
    with year.read() as session:
        rows = rows_of(session, machine="strix-halo", until=day.isoformat())
        board = leaderboard(session, LeaderboardView(RunFilter(until=day)), moment=END)
    assert len(rows) == 12
    for row in rows.values():
        assert row.change is not None
        assert (row.change.old_version, row.change.new_version) == (BUILDS[UPDATE - 1], BUILDS[UPDATE])
        assert row.change.is_certain
        assert row.change.change.ratio == pytest.approx(0.92, abs=0.03)
        assert row.latest.is_worse
    elsewhere = [row.change for row in board.rows if row.machine != "strix-halo"]
    assert not any(change.is_certain for change in elsewhere if change)
    assert not any(row.latest.is_worse for row in board.rows if row.machine != "strix-halo")


def test_words_say_only_what_is_certain(year: Database) -> None:
    with year.read() as session:
        all_words = verdict_words(leaderboard(session, LeaderboardView(), moment=END))
        strix = LeaderboardView(RunFilter(machine="strix-halo"))
        strix_words = verdict_words(leaderboard(session, strix, moment=END))
        ttft = verdict_words(leaderboard(session, LeaderboardView(by="ttft_ms"), moment=END))
    assert all_words[0].startswith("Fastest here, without a certain difference: Qwen3-30B-A3B Q3_K_M on mac-studio (")
    assert strix_words[0].startswith("Fastest here: Qwen3-30B-A3B Q3_K_M on strix-halo, 9")
    assert "faster than Qwen3-30B-A3B Q4_K_M on strix-halo." in strix_words[0]
    assert strix_words[1].startswith("12 of 12 did better before")
    assert ttft[0].startswith("Shortest TTFT here")


def test_the_trend_has_the_same_twelve_months_everywhere(year: Database) -> None:
    with year.read() as session:
        row = rows_of(session)["Qwen3-30B-A3B", "Q4_K_M", "strix-halo"]
        later = leaderboard(session, LeaderboardView(), moment=END + timedelta(days=180)).rows
    assert all(0 <= at <= 1 for at, _value in row.trend)
    assert [at for at, _value in row.trend] == sorted(at for at, _value in row.trend)
    assert row.trend[0][0] < 0.02
    assert all(at < 0.52 for other in later for at, _value in other.trend)


def test_hidden_runs_and_older_prompts_never_count(database: Database) -> None:
    with database.write() as session:
        ids = seed(session, runs=30, detailed=0)
    with database.read() as session:
        before = leaderboard(session, LeaderboardView(), moment=END)
    with database.write() as session:
        for public_id in {row.best.public_id for row in before.rows}:
            annotations.hide(session, public_id, "too fast")
        run = session.exec(select(Run).where(Run.suite_key == "triple").order_by(col(Run.started_at))).first()
        assert run is not None
        run.suite_sha256 = "0" * 64
    with database.read() as session:
        after = leaderboard(session, LeaderboardView(), moment=END)
    assert after.hidden == len({row.best.public_id for row in before.rows})
    assert after.of_other_prompts == 1
    assert not {row.best.public_id for row in after.rows} & {row.best.public_id for row in before.rows}
    assert ids


def test_namesakes_have_rows_of_their_own(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=1, detailed=0)
        server = session.exec(select(Server)).first()
        assert server is not None
        assert server.id is not None
        for place, model_id in enumerate(("gpu0/llama-3-8b", "cpu/llama-3-8b")):
            snapshot = Snapshot("llama.cpp", "b1", "Llama-3.1-8B", "Q8_0", {"model_id": model_id})
            config = configs.freeze(session, server.id, snapshot, geometry_json(snapshot), "llama.cpp")
            run = made_run(server, config.id, BUILT_IN["triple"], END - timedelta(days=place), f"namesake{place}")
            session.add(run)
            session.flush()
            session.add_all(triple(run, BUILT_IN["triple"].cases[0], 50, 40 + place, random.Random(place)))
    with database.read() as session:
        names = {row.model for row in leaderboard(session, LeaderboardView(), moment=END).rows}
    assert {"gpu0/Llama-3.1-8B", "cpu/Llama-3.1-8B"} <= names


@pytest.mark.parametrize("by", ["decode", "prefill", "ttft", "gpu_memory_gb"])
@pytest.mark.parametrize(
    "sort", ["best", "model", "latest", "below", "change", "runs", "when", "quantization", "machine"]
)
def test_rows_are_sorted_by_any_column(year: Database, by: str, sort: str) -> None:
    with year.read() as session:
        boards = [
            leaderboard(session, LeaderboardView.parse({"by": by, "sort": sort, "order": order}), moment=END)
            for order in ("asc", "desc")
        ]
    assert {row.best.public_id for row in boards[0].rows} == {row.best.public_id for row in boards[1].rows}
    if by == "decode" and sort == "best":
        assert [row.best.value for row in boards[0].rows] == sorted(row.best.value for row in boards[1].rows)


def test_groups_hold_every_row_once(year: Database) -> None:
    with year.read() as session:
        board = leaderboard(session, LeaderboardView(group="machine", sort="model"), moment=END)
    groups = board.groups({})
    assert {group.title for group in groups} == {box.name for box in BOXES}
    assert [row for group in groups for row in group.rows if row.machine == "mac-studio"] == [
        row for row in board.rows if row.machine == "mac-studio"
    ]
    assert sum(len(group.rows) for group in groups) == len(board.rows)


def test_document_and_csv_have_all_rows(year: Database) -> None:
    with year.read() as session:
        board = leaderboard(session, LeaderboardView.parse({"by": "ttft"}), moment=END)
    made = BestDocument.model_validate_json(json.dumps(document(board)))
    assert len(made.rows) == len(board.rows) == csv(board).count("\r\n") - 1
    assert made.metric == "ttft_ms"
    assert made.rows[0].best.value == min(row.best.value for row in made.rows)


@pytest.mark.parametrize("parameters", [{"by": "speed"}, {"sort": "best of all"}, {"group": "run"}, {"order": "up"}])
def test_what_makes_no_sense_is_one_sentence(parameters: dict[str, str]) -> None:
    with pytest.raises(BadInput):
        LeaderboardView.parse(parameters)


def test_an_address_gives_the_same_view() -> None:
    view = LeaderboardView(
        RunFilter(machine="m", since=date(2026, 1, 2)), by="ttft_ms", sort="runs", order="asc", group="engine"
    )
    assert LeaderboardView.parse(view.active) == view
    assert LeaderboardView().active == {}
