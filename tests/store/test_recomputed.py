"""Earlier runs are brought to today's formulas and flag rules, from their samples."""

from dataclasses import replace
from typing import Any

import pytest
from sqlmodel import Session, col, select, update
from typer.testing import CliRunner

from app import metrics
from app.cli import app
from app.core.samples import ServerFigures
from app.core.settings import Settings
from app.db import measurements
from app.db.database import Database
from app.db.samples import samples_of
from app.db.tables import Config, Measurement, Run, SampleRow
from app.measure import workers
from app.measure.runner import RECOMPUTE_BATCH, Runner
from tests.databases import on_both
from tests.metrics.rounds import LONG, sensed
from tests.seed import seed
from tests.traces import sample, trace
from tests.web.notebook import add_run

ENERGY = "joules_per_output_token"
VERSION = metrics.metrics()[ENERGY].formula_version


def energies(session: Session) -> list[Any]:
    query = select(Measurement.value, Measurement.formula_version).where(col(Measurement.metric) == ENERGY)
    return sorted(tuple(row) for row in session.exec(query).all())


def bring_all(runner: Runner) -> int:
    """In how many steps."""
    steps = 1
    while runner.bring_up_to_date():
        steps += 1
    return steps


def watched_runs(database: Database, count: int) -> list[str]:
    """With an energy of an older formula."""
    samples = [sample(LONG, ordinal=n, sensors=sensed(gpu0__power_w=[160.0] * 4)) for n in range(3)]
    public_ids = [add_run(database, samples) for _ in range(count)]
    with database.write() as session:
        _as_of_an_older_version(session)
    return public_ids


def _as_of_an_older_version(session: Session) -> None:
    session.execute(update(Measurement).where(col(Measurement.metric) == ENERGY).values(value=99, formula_version=1))
    session.execute(update(Run).values(metrics_digest=None))


@on_both
def test_an_older_formula_is_replaced_where_there_are_samples(database: Database, settings: Settings) -> None:
    with database.write() as session:
        seed(session, runs=2, detailed=0)
    watched = [sample(LONG, ordinal=n, sensors=sensed(gpu0__power_w=[160.0] * 4)) for n in range(3)]
    add_run(database, watched)
    bare = add_run(database, [])
    with database.write() as session:
        _as_of_an_older_version(session)
        (measurement,) = session.exec(select(Measurement).where(col(Measurement.metric) == ENERGY)).all()
        imported = {**measurement.model_dump(exclude={"id"}), "run_id": measurement.run_id + 1}
        session.add(Measurement(**imported))
    assert bare
    with database.read() as session:
        assert measurements.outdated(session, 9) == [measurement.run_id]
    bring_all(Runner(database, settings))
    with database.read() as session:
        assert measurements.outdated(session, 9) == []
        assert energies(session) == [(16.0, VERSION), (99.0, 1)]  # without samples what is known stays


@on_both
def test_many_runs_come_in_steps_so_that_the_queue_goes_on_between_them(database: Database, settings: Settings) -> None:
    with database.write() as session:
        seed(session, runs=1, detailed=0)
    watched_runs(database, RECOMPUTE_BATCH + 1)
    assert bring_all(Runner(database, settings)) == 3  # the last one finds nothing
    with database.read() as session:
        assert set(energies(session)) == {(16.0, VERSION)}


def test_a_run_that_cannot_be_computed_keeps_what_it_has_and_holds_up_no_other(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with database.write() as session:
        seed(session, runs=1, detailed=0)
    watched_runs(database, 3)
    derive_anew, tried = measurements.derive_anew, []

    def failing(session: Session, run_id: int) -> None:
        tried.append(run_id)
        if len(tried) == 2:
            raise ValueError("broken samples")
        derive_anew(session, run_id)

    monkeypatch.setattr(measurements, "derive_anew", failing)
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


def values_of(session: Session, metric: str) -> list[float | None]:
    return list(session.exec(select(Measurement.value).where(col(Measurement.metric) == metric)).all())


@on_both
def test_a_metric_that_is_added_later_is_computed_for_earlier_runs(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.write() as session:
        seed(session, runs=2, detailed=1)
    today = metrics.metrics()
    earlier = {key: metric for key, metric in today.items() if key != "e2e_ms"}
    runner = Runner(database, settings)
    with monkeypatch.context() as patch:
        patch.setattr(metrics, "_metrics", lambda _language: earlier)
        add_run(database, [sample(ordinal=n) for n in range(3)])
        with database.read() as session:
            assert len(values_of(session, "e2e_ms")) == 1
    bring_all(runner)
    with database.read() as session:
        assert len(values_of(session, "e2e_ms")) == 2
        assert None not in values_of(session, "e2e_ms")


@on_both
def test_figures_that_an_engine_was_misread_by_are_made_anew(database: Database, settings: Settings) -> None:
    """A Strata that was taken for llama.cpp, or whose rate of hits was taken for percent."""
    raw = {"hit_rate": 0.834, "predicted_n": 101, "predicted_ms": 1010.0, "predicted_per_token_ms": 10.0}
    misread = ServerFigures(512, 900.0, 101, 1010.0, expert_hit_share=0.00834, raw=raw)
    with database.write() as session:
        seed(session, runs=1, detailed=0)
        session.execute(update(Config).values(engine="llama.cpp", engine_version="Strata 0.1.41"))
    public_id = add_run(database, [sample(trace(server=misread))])
    with database.write() as session:
        session.execute(update(Run).values(metrics_digest="an older one"))
    bring_all(Runner(database, settings))
    with database.read() as session:
        run = session.exec(select(Run).where(Run.public_id == public_id)).one()
        (stored,) = samples_of(session, run.id or 0)
        values = {(row.metric, row.source): row.value for row in measurements.measurements_of(session, run.id or 0)}
    assert stored.trace.server == replace(misread, decode_ms=1000.0, expert_hit_share=0.834)
    assert values["expert_cache_hit_rate", "server"] == pytest.approx(83.4)
    assert values["decode_tokens_per_s", "server"] == pytest.approx(100.0)


@on_both
def test_flags_follow_their_rules_and_evidence_stays(database: Database, settings: Settings) -> None:
    """`concurrent` was seen while measuring; that a cut prompt was missed is seen from the sample itself."""
    with database.write() as session:
        seed(session, runs=1, detailed=0)
    cut = trace(prompt_tokens=100)
    samples = [
        sample(cut, ordinal=0, flags=("multi_token_chunks", "concurrent")),
        sample(cut, ordinal=1, flags=("of_tomorrow",)),
    ]
    public_id = add_run(database, samples)
    with database.write() as session:
        session.execute(update(Run).values(metrics_digest="an older one"))
    bring_all(Runner(database, settings))
    with database.read() as session:
        run = session.exec(select(Run).where(Run.public_id == public_id)).one()
        stored = samples_of(session, run.id or 0)
        ttft = [row for row in measurements.measurements_of(session, run.id or 0) if row.metric == "ttft_ms"]
    assert [set(sample.flags) for sample in stored] == [
        {"truncated_prompt", "concurrent"},
        {"truncated_prompt", "of_tomorrow"},
    ]
    assert [(row.samples, row.left_out) for row in ttft] == [(1, {"concurrent": 1})]
    assert run.metrics_digest == metrics.derivation_digest()


def test_a_run_that_is_being_measured_is_left_alone(database: Database) -> None:
    with database.write() as session:
        seed(session, runs=1, detailed=0)
    add_run(database, [sample()], status="running")
    with database.write() as session:
        session.execute(update(Run).values(metrics_digest=None))
        assert measurements.outdated(session, 9) == []


def test_the_digest_changes_with_formulas_and_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = {metrics.derivation_digest()}
    newer = {**metrics.metrics(), "ttft_ms": replace(metrics.metrics()["ttft_ms"], formula_version=99)}
    with monkeypatch.context() as patch:
        patch.setattr(metrics, "_metrics", lambda _language: newer)
        digests.add(metrics.derivation_digest())
    with monkeypatch.context() as patch:
        patch.setitem(metrics.FLAGS, "early_stop", replace(metrics.FLAGS["early_stop"], rule_version=99))
        digests.add(metrics.derivation_digest())
    with monkeypatch.context() as patch:
        patch.setattr(metrics, "DERIVATION_VERSION", 99)
        digests.add(metrics.derivation_digest())
    assert len(digests) == 4


@on_both
def test_records_of_other_versions_are_read(database: Database) -> None:
    """They hold fields that a trace does not have any more, or not yet."""
    with database.write() as session:
        seed(session, runs=1, detailed=0)
    public_id = add_run(database, [sample()])
    with database.write() as session:
        row = session.exec(select(SampleRow)).one()
        stored = dict(row.record["trace"])
        server = {**(stored["server"] or {}), "later_ms": 1} if stored["server"] else None
        row.record = {**row.record, "trace": {**stored, "text_chars": 4, "reads": 2, "server": server}}
        session.add(row)
    with database.read() as session:
        run = session.exec(select(Run).where(Run.public_id == public_id)).one()
        (read,) = samples_of(session, run.id or 0)
    assert read.trace.output_tokens == sample().trace.output_tokens


def test_a_command_that_reads_brings_earlier_runs_up_to_date_first(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFMARK_DATA_DIR", str(settings.data_dir))
    with database.write() as session:
        seed(session, runs=1, detailed=0)
    (public_id,) = watched_runs(database, 1)
    result = CliRunner().invoke(app, ["show", public_id, "--json"])
    assert result.exception is None
    with database.read() as session:
        assert energies(session) == [(16.0, VERSION)]
    with database.write() as session:
        _as_of_an_older_version(session)
    monkeypatch.setattr("app.cli.runs.LONGEST_WAIT_S", -1.0)
    assert "`roofmark serve` recomputes them" in CliRunner().invoke(app, ["runs"]).stderr
