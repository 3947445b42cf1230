"""Pinned baselines, and every run beside its own."""

from dataclasses import replace
from typing import Any

import pytest
from sqlmodel import select

from app.cli.text import run_text
from app.core.errors import Conflict, NotFound
from app.db import baselines
from app.db.database import Database
from app.db.tables import Baseline, Run, now
from app.results.compare import standing, standings
from app.results.compare.baseline import verdicts_of_run
from app.schemas.run_document import run_document
from app.stats.runs import RunScatter
from app.stats.verdict import Verdict
from tests.compare.runs import Q8, calm_history, change, compared, place, run, statements, timed
from tests.databases import on_both


def pin(database: Database, public_id: str) -> None:
    with database.write() as session:
        baselines.pin(session, public_id)


@pytest.fixture
def history(database: Database) -> list[str]:
    """Runs of one model on one machine: before, the baseline, alike, slower, and with another quantization faster."""
    q8, q4 = place(database)
    calm_history(database, q8)
    speeds = [(q8, 500, 50), (q8, 500, 50), (q8, 501, 50), (q8, 600, 42), (q4, 400, 60)]
    ids = [run(database, config, timed(ttft, decode), hours=n) for n, (config, ttft, decode) in enumerate(speeds)]
    pin(database, ids[1])
    return ids


@on_both
def test_every_later_run_has_a_verdict(database: Database, history: list[str]) -> None:
    with database.read() as session:
        standings_by_run = standings(session, history)
    assert history[0] not in standings_by_run
    assert standings_by_run[history[1]].is_baseline
    assert [standings_by_run[public_id].verdict for public_id in history[2:]] == ["same", "worse", "better"]
    assert all(standings_by_run[public_id].baseline_id == history[1] for public_id in history[1:])
    assert standings_by_run[history[3]].ratios["ttft_ms"].verdict is Verdict.WORSE


def test_it_agrees_with_the_comparison(database: Database, history: list[str]) -> None:
    for later in history[2:]:
        page = {row.metric: row.cells[1].ratio for row in compared(database, history[1], later).main_rows}
        with database.read() as session:
            run_standing = standing(session, later)
        assert run_standing is not None
        assert run_standing.ratios == page


def test_left_out_samples_are_left_out_here_too(database: Database, history: list[str]) -> None:
    (config,) = place(database, replace(Q8, model="Other"), name="other")
    calm_history(database, config)
    samples = timed(500, 50)
    samples += [replace(sample, ordinal=sample.ordinal + 6, flags=("concurrent",)) for sample in timed(5000, 5)]
    samples += [replace(sample, ordinal=sample.ordinal + 12, flags=("cached",)) for sample in timed(5, 50)]
    base, later = run(database, config, timed(500, 50)), run(database, config, samples, hours=1)
    pin(database, base)
    counts = {row.metric: row.cells[1].count for row in compared(database, base, later).main_rows}
    assert counts["ttft_ms"] == 5
    with database.read() as session:
        against = standing(session, later)
    assert against is not None
    assert against.values["ttft_ms"].other == against.values["ttft_ms"].base == pytest.approx(500)


def test_many_runs_take_few_queries(database: Database, history: list[str]) -> None:
    assert statements(database, lambda session: standings(session, history)) <= 7


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"hidden_at": now()}, "hidden"),
        ({"suite_sha256": "b" * 64}, "suite has changed"),
    ],
)
def test_a_baseline_that_cannot_be_compared_says_why(
    database: Database, history: list[str], fields: dict[str, Any], reason: str
) -> None:
    change(database, history[1], **fields)
    with database.read() as session:
        run_standing = standing(session, history[3])
    assert run_standing is not None
    assert run_standing.verdict is None
    assert reason in run_standing.reason


@pytest.mark.parametrize(
    ("pinned", "later", "is_another"),
    [
        ({"model_id": "gpu0/Qwen3-8B"}, {"model_id": "cpu/Qwen3-8B"}, True),
        ({"model_id": "Qwen3-8B:fast"}, {"model_id": "Qwen3-8B:free"}, True),
        ({"model_id": "gpu0/Qwen3-8B"}, {"model_id": "gpu0/Qwen3-8B", "context": 8192}, False),
        ({"model_id": "m", "model_digest": "a"}, {"model_id": "m", "model_digest": "b"}, False),
        ({}, {"model_id": "gpu0/Qwen3-8B", "context": 8192}, False),  # nobody knows
        ({"model_id": "/old/Qwen3-8B.gguf"}, {"model_id": "/new/Qwen3-8B.gguf"}, False),
    ],
)
def test_a_baseline_of_a_namesake_gives_no_verdict(
    database: Database, pinned: dict[str, Any], later: dict[str, Any], is_another: bool
) -> None:
    first, second = place(database, *(replace(Q8, settings={**Q8.settings, **more}) for more in (pinned, later)))
    pin(database, run(database, first, timed(500, 50)))
    public_id = run(database, second, timed(500, 90), hours=1)
    with database.read() as session:
        run_standing = standing(session, public_id)
    assert run_standing is not None
    assert ("another model of that name" in run_standing.reason) == is_another
    assert (run_standing.verdict is None) == is_another


@pytest.mark.parametrize("fields", [{"status": "failed"}, {"hidden_at": now()}, {"suite_key": "lengths"}])
def test_runs_that_have_none(database: Database, history: list[str], fields: dict[str, Any]) -> None:
    change(database, history[3], **fields)
    with database.read() as session:
        assert standing(session, history[3]) is None


@on_both
def test_pinning_another_replaces_it_and_unpinning_ends_it(database: Database, history: list[str]) -> None:
    pin(database, history[3])
    with database.write() as session:
        assert len(session.exec(select(Baseline)).all()) == 1
        (listed,) = baselines.list_baselines(session)
        assert (listed.public_id, listed.machine, listed.model) == (history[3], "strix-halo", "Qwen3-8B")
        run_standing = standing(session, history[4])
        assert run_standing is not None
        assert run_standing.baseline_id == history[3]
        baselines.unpin(session, history[3])
        assert standing(session, history[4]) is None
    with database.write() as session, pytest.raises(NotFound, match="is no baseline"):
        baselines.unpin(session, history[3])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"status": "failed"}, "is failed"),
        ({"config_id": None}, "finished"),
        ({"hidden_at": now()}, "hidden"),
    ],
)
def test_what_cannot_be_pinned(database: Database, history: list[str], fields: dict[str, Any], message: str) -> None:
    change(database, history[4], **fields)
    with database.write() as session, pytest.raises(Conflict, match=message):
        baselines.pin(session, history[4])


def test_other_models_machines_and_suites_have_their_own(database: Database, history: list[str]) -> None:
    (config,) = place(database, Q8, name="tower")
    elsewhere = run(database, config, timed(500, 50), hours=9)
    with database.read() as session:
        assert standing(session, elsewhere) is None
    pin(database, elsewhere)
    with database.read() as session:
        assert {baseline.public_id for baseline in baselines.list_baselines(session)} == {history[1], elsewhere}


def test_the_document_and_the_terminal_say_it(database: Database, history: list[str]) -> None:
    with database.read() as session:
        documents = {public_id: run_document(session, public_id) for public_id in history}
    assert documents[history[0]]["baseline"] is None
    assert documents[history[1]]["baseline"]["is_baseline"]
    worse = documents[history[3]]["baseline"]
    assert (worse["verdict"], worse["baseline_id"]) == ("worse", history[1])
    assert worse["ratios"]["ttft_ms"]["verdict"] == "worse"
    terminal_text = run_text(documents[history[3]])
    assert f"Against the baseline, run {history[1]}: ▼ worse" in terminal_text
    assert "TTFT     500 → 600 ms, ▼ 20 % longer (95 % interval" in terminal_text
    assert "later runs are compared with it" in run_text(documents[history[1]])
    assert "baseline" not in run_text(documents[history[0]])
    change(database, history[1], hidden_at=now())
    with database.read() as session:
        assert "no verdict. The baseline is hidden" in run_text(run_document(session, history[3]))


def test_deleting_its_run_ends_a_baseline(database: Database, history: list[str]) -> None:
    with database.write() as session:
        session.delete(session.exec(select(Run).where(Run.public_id == history[1])).one())
    with database.read() as session:
        assert standing(session, history[3]) is None


def test_a_machine_without_a_history_borrows_that_of_less_steady_ones(database: Database) -> None:
    """That others are steadier than is assumed says nothing about this one."""
    (elsewhere,), (config,) = place(database, Q8, name="calm"), place(database, Q8)
    names = [run(database, config, timed(500, speed), hours=hour) for hour, speed in enumerate((50, 51))]

    def scatter() -> RunScatter:
        with database.read() as session:
            base, compared_run = (session.exec(select(Run).where(Run.public_id == name)).one() for name in names)
            previous = verdicts_of_run(session, compared_run, base).previous
            assert previous is not None
            return previous.scatters["decode_tokens_per_s"]

    none = scatter()
    assert (none.runs, none.is_elsewhere, none.assumed_deviation) == (0, False, 0.02)
    assert none.repetition_variance is not None  # that of the compared runs
    calm = calm_history(database, elsewhere)
    assert scatter() == none
    for name in calm:
        change(database, name, hidden_at=now())
    for hour, factor in enumerate((0.93, 1.06, 1.0, 0.95, 1.07, 0.94, 1.05, 1.01, 0.96, 1.04)):
        run(database, elsewhere, timed(500 * factor, 50 / factor), hours=hour - 40)
    borrowed = scatter()
    assert (borrowed.runs, borrowed.configurations, borrowed.is_elsewhere) == (10, 1, True)
    calm_history(database, config, decode_tokens_per_s=40)
    own = scatter()
    assert (own.runs, own.configurations, own.is_elsewhere) == (10, 1, False)
