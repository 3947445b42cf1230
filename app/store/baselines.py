"""Pinned baselines: for a machine, a model and a suite, the run that every later one is compared with."""

from collections.abc import Collection, Sequence
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from app.errors import Conflict, NotFound
from app.i18n import _
from app.metrics import TRIPLE, belongs, metrics, rounds_of, values_of
from app.metrics.base import Source
from app.models import Baseline, Config, Machine, Measurement, Model, Run
from app.samples import Sample
from app.store import runs
from app.store.samples import samples_by_run


def pin(session: Session, public_id: str) -> Baseline:
    """Instead of the one before. Raises NotFound, and Conflict for a run that nothing can be compared with."""
    run = runs.run(session, public_id)
    model = _model_name(session, run)
    if run.status != "done" or model is None:
        raise Conflict(_("Only a finished run can be a baseline; this one is {status}.", status=_(run.status)))
    if run.hidden_at is not None:
        raise Conflict(_("A hidden run cannot be a baseline: show it again first."))
    assert run.id is not None
    here = (Baseline.machine_id == run.machine_id, Baseline.model_name == model, Baseline.suite_key == run.suite_key)
    session.execute(delete(Baseline).where(*here))  # type: ignore[arg-type]  # columns compare to conditions
    pinned = Baseline(machine_id=run.machine_id, model_name=model, suite_key=run.suite_key, run_id=run.id)
    try:
        with session.begin_nested():
            session.add(pinned)
    except IntegrityError as error:
        raise Conflict(_("Another baseline was pinned at this very moment: look again.")) from error
    return pinned


def unpin(session: Session, public_id: str) -> None:
    """Raises NotFound when the run is no baseline."""
    run = runs.run(session, public_id)
    found: Any = session.execute(delete(Baseline).where(col(Baseline.run_id) == run.id))
    if not found.rowcount:
        raise NotFound(_("Run {id} is no baseline.", id=public_id))


def baseline_of(session: Session, run: Run) -> str | None:
    """The public id of the run that `run` is compared with; of a baseline, its own."""
    query = (
        select(col(Run.public_id))
        .join(Baseline, col(Baseline.run_id) == col(Run.id))
        .where(
            col(Baseline.machine_id) == run.machine_id,
            col(Baseline.model_name) == _model_name(session, run),
            col(Baseline.suite_key) == run.suite_key,
        )
    )
    found: str | None = session.execute(query).scalar()
    return found


def _model_name(session: Session, run: Run) -> str | None:
    query = (
        select(col(Model.name))
        .join(Config, col(Config.model_id) == col(Model.id))
        .where(col(Config.id) == run.config_id)
    )
    found: str | None = session.execute(query).scalar()
    return found


class Listed(NamedTuple):
    public_id: str
    machine: str
    machine_slug: str
    model: str
    suite_key: str
    started_at: datetime | None
    hidden_at: datetime | None
    """Since then no run is compared with it."""


def list_baselines(session: Session) -> list[Listed]:
    pinned = (Baseline.model_name, Baseline.suite_key, Run.started_at, Run.hidden_at)
    query = (
        select(Run.public_id, Machine.name, Machine.slug, *pinned)  # type: ignore[call-overload]  # typed for fewer columns
        .join(Run, col(Run.id) == col(Baseline.run_id))
        .join(Machine, col(Machine.id) == col(Baseline.machine_id))
        .order_by(col(Machine.name), col(Baseline.model_name), col(Baseline.suite_key))
    )
    return [Listed(*row) for row in session.execute(query)]


# --- a run beside its baseline ---------------------------------------------------------------------------------------


class Side(NamedTuple):
    """What a verdict at a run's main point needs to know of the run."""

    run_id: int
    public_id: str
    suite_sha256: str
    main_point_key: str
    is_compared: bool
    """Finished and not hidden."""
    started_at: datetime | None


def beside_baselines(session: Session, public_ids: Collection[str]) -> list[tuple[Side, Side]]:
    """Those of some runs for which a baseline is pinned: each, and its baseline."""
    pinned = aliased(Run)
    query = (
        select(*_side(Run), *_side(pinned))
        .join(Config, col(Config.id) == col(Run.config_id))
        .join(Model, col(Model.id) == col(Config.model_id))
        .join(
            Baseline,
            (col(Baseline.machine_id) == col(Run.machine_id))
            & (col(Baseline.model_name) == col(Model.name))
            & (col(Baseline.suite_key) == col(Run.suite_key)),
        )
        .join(pinned, col(pinned.id) == col(Baseline.run_id))
        .where(col(Run.public_id).in_(public_ids))
    )
    width = len(Side._fields)
    return [(Side(*row[:width]), Side(*row[width:])) for row in session.execute(query)]


def _side(table: Any) -> list[Any]:
    return [
        table.id,
        table.public_id,
        table.suite_sha256,
        table.main_point_key,
        (col(table.status) == "done") & col(table.hidden_at).is_(None),
        table.started_at,
    ]


class Repetitions(NamedTuple):
    """One metric at a run's main point, from the source that lists show."""

    source: Source | None
    values: list[float]


def main_repetitions(session: Session, run_ids: Collection[int]) -> dict[tuple[int, str], Repetitions]:
    """The triple of each usable sample, by run and metric; of several streams at once their median."""
    query = (
        select(col(Run.id), col(Run.main_point_key), col(Measurement.metric), col(Measurement.source))
        .join(
            Measurement,
            (col(Measurement.run_id) == col(Run.id)) & (col(Measurement.point_key) == col(Run.main_point_key)),
        )
        .where(col(Run.id).in_(run_ids), col(Measurement.metric).in_(TRIPLE), col(Measurement.is_shown))
    )
    samples = samples_by_run(session, run_ids)
    return {
        (run_id, metric): Repetitions(source, _repetitions(samples.get(run_id, ()), point_key, metric, source))
        for run_id, point_key, metric, source in session.execute(query)
    }


def _repetitions(samples: Sequence[Sample], point_key: str, key: str, source: Source) -> list[float]:
    metric = metrics()[key]
    measured = [
        sample
        for sample in samples
        if sample.point.key == point_key and not sample.is_warmup and belongs(sample, metric)
    ]
    rounds = (values_of(metric, streams).by_source.get(source) for streams in rounds_of(measured))
    return [median(streams) for streams in rounds if streams]
