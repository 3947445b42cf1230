"""Deleting takes exactly what it said would go, and nothing else."""

from typing import Any

import pytest
from sqlmodel import Session, SQLModel, func, select

from app.core.errors import Conflict, NotFound
from app.db import dated_notes, machines, removal, runs, servers
from app.db.database import Database
from app.db.tables import Annotation, Baseline, Config, Machine, Measurement, Run, SampleRow, Server, Share
from app.share import links
from app.share.run import snapshot
from tests.databases import on_both
from tests.seed import START, seed
from tests.web.notebook import add_run

pytestmark = on_both
TABLES: tuple[type[SQLModel], ...] = (Machine, Server, Config, Run, SampleRow, Measurement, Baseline, Annotation, Share)


def counts(session: Session) -> dict[str, int]:
    return {table.__name__: session.exec(select(func.count()).select_from(table)).one() for table in TABLES}


def gone(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: before[name] - after[name] for name in before if before[name] != after[name]}


def summary_counts(summary: removal.DeletionSummary, **more: int) -> dict[str, int]:
    counts_by_table = {
        "Run": summary.runs,
        "SampleRow": summary.samples,
        "Measurement": summary.measurements,
        "Config": summary.configs,
        "Server": summary.servers,
        "Baseline": len(summary.baselines),
        "Annotation": summary.annotations,
        **more,
    }
    return {name: count for name, count in counts_by_table.items() if count}


def _baseline(session: Session, run: Run) -> None:
    assert run.id is not None
    session.add(Baseline(machine_id=run.machine_id, model_name="Qwen3", suite_key="triple", run_id=run.id))
    session.flush()


def test_a_run_goes_with_samples_numbers_and_baseline_and_its_share_stays(database: Database) -> None:
    with database.write() as session:
        public_id = seed(session, runs=20, detailed=4)[-1]
        _baseline(session, runs.run(session, public_id))
        links.publish(session, snapshot(session, public_id))
    with database.write() as session:
        before, summary = counts(session), removal.run_deletion_summary(session, public_id)
        assert (summary.runs, summary.samples, summary.configs) == (1, 6, 0)
        assert summary.baselines == ("Qwen3, triple",)
        removal.delete_run(session, public_id)
        assert gone(before, counts(session)) == summary_counts(summary)
        with pytest.raises(NotFound):
            runs.run(session, public_id)


def test_the_last_run_of_a_configuration_takes_it_along(database: Database) -> None:
    with database.write() as session:
        first, second = seed(session, runs=2, configs_used=1, detailed=2)
        assert removal.run_deletion_summary(session, first).configs == 0
        removal.delete_run(session, first)
        summary, before = removal.run_deletion_summary(session, second), counts(session)
        assert summary.configs == 1
        removal.delete_run(session, second)
        assert gone(before, counts(session)) == summary_counts(summary)


@pytest.mark.parametrize("status", ["queued", "running"])
def test_what_waits_or_runs_is_cancelled_first(database: Database, status: str) -> None:
    with database.write() as session:
        seed(session, runs=3, configs_used=1, detailed=1)
    public_id = add_run(database, status=status)
    with database.write() as session:
        before = counts(session)
        with pytest.raises(Conflict, match="cancel first"):
            removal.delete_run(session, public_id)
        servers.archive_server(session, "strix-halo-8080")
        machines.archive_machine(session, "strix-halo")
        for delete, slug in ((removal.delete_server, "strix-halo-8080"), (removal.delete_machine, "strix-halo")):
            with pytest.raises(Conflict, match="cancel first"):
                delete(session, slug)
        assert counts(session) == before


@pytest.mark.parametrize(
    ("slug", "archive", "goes_with", "delete", "more"),
    [
        (
            "strix-halo-8080",
            servers.archive_server,
            removal.server_deletion_summary,
            removal.delete_server,
            {"Server": 1},
        ),
        (
            "strix-halo",
            machines.archive_machine,
            removal.machine_deletion_summary,
            removal.delete_machine,
            {"Machine": 1},
        ),
    ],
)
def test_a_server_or_machine_goes_only_when_archived(
    database: Database, slug: str, archive: Any, goes_with: Any, delete: Any, more: dict[str, int]
) -> None:
    with database.write() as session:
        ids = seed(session, runs=30, detailed=3)
        of_it = [public_id for public_id in ids if runs.run(session, public_id).machine.slug == "strix-halo"]
        _baseline(session, runs.run(session, of_it[0]))
        for machine in ("strix-halo", "strix-halo", "m3-ultra", None):
            dated_notes.add_note(session, "new PSU", START, machine)
    with database.write() as session:
        with pytest.raises(Conflict, match="archive it"):
            delete(session, slug)
        archive(session, slug)
        before, summary = counts(session), goes_with(session, slug)
        assert summary.runs == len(of_it) > 0
        delete(session, slug)
        session.flush()
        assert gone(before, counts(session)) == summary_counts(summary, **more)
        assert counts(session)["Run"] == len(ids) - len(of_it)


def test_a_machine_takes_the_runs_of_a_server_that_has_moved_on(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=30, detailed=1)
        second_machine = machines.machine(session, "m3-ultra")
        servers.edit_server(session, "strix-halo-8080", machine_id=second_machine.id)
        machines.archive_machine(session, "strix-halo")
        before, summary = counts(session), removal.machine_deletion_summary(session, "strix-halo")
        assert (summary.servers, summary.runs > 0) == (0, True)
        removal.delete_machine(session, "strix-halo")
        session.flush()
        assert gone(before, counts(session)) == summary_counts(summary, Machine=1)
        assert servers.server(session, "strix-halo-8080").machine_id == second_machine.id
