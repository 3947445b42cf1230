"""Runs that stand off from the other runs of their configuration, as they are stored."""

from collections.abc import Sequence

import pytest
from sqlalchemy import event
from sqlmodel import select

from app.core.i18n import Text
from app.db import annotations
from app.db.database import Database
from app.db.tables import Run
from app.results import hardware
from app.results.compare.soundness import machine_busy
from app.results.history.series import history
from app.results.run_filter import RunFilter
from app.results.wrong_runs import NEIGHBOURS, WrongRun, wrong_in_history, wrong_runs
from tests.compare.runs import change, place, run, timed
from tests.compare.test_comparison import cards
from tests.databases import on_both
from tests.year import WRONG, seed_year

CALM = (50, 50.4, 49.7, 50.1, 49.9, 50.2, 49.8, 50.3)


def runs_at(database: Database, config: int, speeds: Sequence[float], first_hour: int = 0) -> list[str]:
    """One run for each decode speed, an hour apart."""
    return [run(database, config, timed(500, speed), hours=first_hour + hour) for hour, speed in enumerate(speeds)]


def standing_off(database: Database, public_ids: Sequence[str]) -> dict[str, WrongRun]:
    with database.read() as session:
        return dict(wrong_runs(session, public_ids))


@on_both
def test_a_run_far_below_the_others_is_wrong(database: Database) -> None:
    config, _ = place(database)
    ids = runs_at(database, config, [*CALM[:4], 27.5, *CALM[4:]])
    (wrong,) = standing_off(database, ids).values()
    assert wrong.public_id == ids[4]
    assert wrong.is_worse
    assert wrong.brief == "decode 45 % below"
    assert wrong.sentence == "Decode 45 % below the other runs of this configuration."
    assert wrong.details == "Decode: 27.0 tok/s, where the median of 8 others is 49.2. No cause is known."
    (metric,) = wrong.metrics
    assert (metric.key, metric.others) == ("decode_tokens_per_s", 8)
    assert metric.change == pytest.approx(-0.45, abs=0.01)


def test_so_is_one_that_is_faster_than_is_plausible(database: Database) -> None:
    config, _ = place(database)
    ids = runs_at(database, config, [*CALM, 80])
    (wrong,) = standing_off(database, ids).values()
    assert (wrong.public_id, wrong.brief, wrong.is_worse) == (ids[-1], "decode 60 % above", False)
    assert wrong.details.endswith("what is too good to be true is doubtful, too.")


def test_each_metric_is_named_and_the_likely_cause(database: Database) -> None:
    config, _ = place(database)
    ids = runs_at(database, config, CALM)
    busy = run(database, config, timed(1500, 25), hours=20, evidence={"unsound": [machine_busy("during", 0.53)]})
    wrong = standing_off(database, [*ids, busy])[busy]
    assert [metric.key for metric in wrong.metrics] == ["decode_tokens_per_s", "prefill_tokens_per_s", "ttft_ms"]
    assert wrong.sentence.startswith("Decode 50 % below, ")
    assert wrong.sentence.endswith(" and TTFT 200 % above the other runs of this configuration.")
    assert wrong.cause == "Likely cause: other programs used this machine during the run (53 % of its processor)."


def test_a_level_shift_is_no_wrong_run(database: Database) -> None:
    config, _ = place(database)
    ids = runs_at(database, config, [*CALM, 30])
    assert list(standing_off(database, ids)) == [ids[-1]]  # alone
    ids += runs_at(database, config, [30.2, 29.9], first_hour=20)
    assert standing_off(database, ids) == {}


def test_only_runs_of_the_same_thing_are_compared(database: Database) -> None:
    q8, q4 = place(database)
    ids = [*runs_at(database, q4, CALM), *runs_at(database, q8, [25], first_hour=30)]
    ids.append(run(database, q4, timed(500, 25), hours=40, suite_sha256="b" * 64))
    failed = run(database, q4, timed(500, 25), status="failed", hours=41)
    queued = run(database, q4, status="queued", samples=[], started_at=None)
    assert standing_off(database, [*ids, failed, queued]) == {}


def test_other_hardware_is_another_thing(database: Database) -> None:
    config, _ = place(database)
    ids = runs_at(database, config, [*CALM[:4], 25])
    for public_id in ids[:4]:
        change(database, public_id, hardware=cards(2))
    assert list(standing_off(database, ids)) == [ids[4]]  # its hardware was not recorded
    change(database, ids[4], hardware=cards(2, memory_bytes=int(23.9e9)))
    assert list(standing_off(database, ids)) == [ids[4]]  # the same card by another driver
    change(database, ids[4], hardware=cards(1))
    assert standing_off(database, ids) == {}


def test_a_hidden_run_is_not_judged_and_judges_none(database: Database) -> None:
    config, _ = place(database)
    ids = runs_at(database, config, [*CALM[:3], 25])
    wrong = standing_off(database, ids)[ids[3]]
    with database.write() as session:
        annotations.hide(session, ids[3], wrong.sentence)
    assert standing_off(database, ids) == {}
    with database.read() as session:
        reason = session.exec(select(Run.hidden_reason).where(Run.public_id == ids[3])).one()
    assert isinstance(reason, Text)  # a message, which every reader gets in their language
    assert reason == wrong.sentence
    with database.write() as session:
        annotations.unhide(session, ids[3])
        for public_id in ids[:2]:
            annotations.hide(session, public_id, "A try.")
    assert standing_off(database, ids) == {}


def test_only_the_nearest_in_time_are_compared(database: Database) -> None:
    """A slow change over a year is no reason to call its first and its last runs wrong."""
    config, _ = place(database)
    speeds = [50 * 0.985**number for number in range(4 * NEIGHBOURS)]
    assert speeds[-1] < 0.6 * speeds[0]
    assert standing_off(database, runs_at(database, config, speeds)) == {}


def test_one_query_however_many_runs(database: Database) -> None:
    config, _ = place(database)
    ids = runs_at(database, config, [*CALM, 25])
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        asked.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    for public_ids in (ids, ids[-1:], []):
        standing_off(database, public_ids)
    event.remove(database.engine, "before_cursor_execute", note)
    assert sum("measurement" in statement for statement in asked) == 2


def test_the_wrong_run_of_a_year(database: Database) -> None:
    with database.write() as session:
        ids = seed_year(session)
    assert list(standing_off(database, ids)) == [WRONG]
    with database.read() as session:
        changes = hardware.timelines(session).all_changes()
        marked = {
            suite: list(wrong_in_history(session, history(session, RunFilter(suite=suite))[0], changes))
            for suite in ("triple", "depth")
        }
    assert marked == {"triple": [WRONG], "depth": []}


def test_a_history_marks_what_a_list_names(database: Database) -> None:
    q8, q4 = place(database)
    ids = [
        *runs_at(database, q8, [*CALM, 25, *CALM]),
        *runs_at(database, q4, [*CALM, 90], first_hour=5),
        *runs_at(database, q4, [51, 50], first_hour=90),
    ]
    named = standing_off(database, ids)
    assert len(named) == 2
    with database.read() as session:
        assert dict(wrong_in_history(session, history(session, RunFilter())[0], {})) == named
        nothing = history(session, RunFilter(status="failed"))[0]
        assert wrong_in_history(session, nothing, {}) == {}
