"""Pinned baselines: for a machine, a model and a suite, the run that every later one is compared with."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, delete, select

from app.core.errors import Conflict, NotFound
from app.core.i18n import _
from app.db import runs
from app.db.tables import Baseline, Config, Machine, Model, Run


def pin(session: Session, public_id: str) -> Baseline:
    """Makes a run its series' baseline, replacing the previous one. Raises NotFound, and Conflict for a run that
    nothing can be compared with."""
    run = runs.run(session, public_id)
    if run.status != "done" or run.model is None:
        raise Conflict(_("Only a finished run can be a baseline; this one is {status}.", status=_(run.status)))
    if run.hidden_at is not None:
        raise Conflict(_("A hidden run cannot be a baseline: show it again first."))
    assert run.id is not None
    same_series = (
        Baseline.machine_id == run.machine_id,
        Baseline.model_name == run.model.name,
        Baseline.suite_key == run.suite_key,
    )
    session.exec(delete(Baseline).where(*same_series))  # type: ignore[arg-type]  # columns compare to conditions
    pinned = Baseline(machine_id=run.machine_id, model_name=run.model.name, suite_key=run.suite_key, run_id=run.id)
    try:
        with session.begin_nested():
            session.add(pinned)
    except IntegrityError as error:
        raise Conflict(_("Another baseline was pinned at the same time: check which one is pinned now.")) from error
    return pinned


def unpin(session: Session, public_id: str) -> None:
    """Removes a baseline. Raises NotFound when the run is not one."""
    run = runs.run(session, public_id)
    if not session.exec(delete(Baseline).where(col(Baseline.run_id) == run.id)).rowcount:
        raise NotFound(_("Run {id} is no baseline.", id=public_id))


def baseline_of(session: Session, run: Run) -> str | None:
    """Returns the public id of the baseline that a run is compared with; for a baseline its own id. None without
    one."""
    if run.model is None:
        return None
    query = (
        select(Run.public_id)
        .join(Baseline, col(Baseline.run_id) == col(Run.id))
        .where(
            Baseline.machine_id == run.machine_id,
            Baseline.model_name == run.model.name,
            Baseline.suite_key == run.suite_key,
        )
    )
    return session.exec(query).first()


class PinnedBaseline(NamedTuple):
    """A baseline as lists show it."""

    public_id: str
    machine: str
    machine_slug: str
    model: str
    suite_key: str
    started_at: datetime | None
    hidden_at: datetime | None
    """When it was hidden; no run is compared with it since then."""


def list_baselines(session: Session) -> list[PinnedBaseline]:
    """Returns all baselines by machine, model and suite."""
    pinned = (Baseline.model_name, Baseline.suite_key, Run.started_at, Run.hidden_at)
    query = (
        select(Run.public_id, Machine.name, Machine.slug, *pinned)  # type: ignore[call-overload]  # typed for fewer columns
        .join(Run, col(Run.id) == col(Baseline.run_id))
        .join(Machine, col(Machine.id) == col(Baseline.machine_id))
        .order_by(col(Machine.name), col(Baseline.model_name), col(Baseline.suite_key))
    )
    return [PinnedBaseline(*row) for row in session.exec(query)]


# --- a run beside its baseline ---------------------------------------------------------------------------------------


class BaselineSide(NamedTuple):
    """What a verdict at the main point needs to know of a run."""

    run_id: int
    public_id: str
    machine_id: int
    suite_key: str
    suite_sha256: str
    main_point_key: str
    is_compared: bool
    """Whether the run is finished and not hidden."""
    started_at: datetime | None
    server_id: int
    model: str
    quantization: str
    model_id: str | None
    """The server's id of the model; None when it was not recorded."""


def baseline_pairs(session: Session, public_ids: Collection[str]) -> list[tuple[BaselineSide, BaselineSide]]:
    """Returns the run and its baseline for each of these runs that has one."""
    pinned, pinned_config, pinned_model = aliased(Run), aliased(Config), aliased(Model)
    query = (
        select(*_side(Run, Config, Model), *_side(pinned, pinned_config, pinned_model))
        .join(Config, col(Config.id) == col(Run.config_id))
        .join(Model, col(Model.id) == col(Config.model_id))
        .join(
            Baseline,
            (col(Baseline.machine_id) == col(Run.machine_id))
            & (col(Baseline.model_name) == col(Model.name))
            & (col(Baseline.suite_key) == col(Run.suite_key)),
        )
        .join(pinned, col(pinned.id) == col(Baseline.run_id))
        .join(pinned_config, col(pinned_config.id) == col(pinned.config_id))
        .join(pinned_model, col(pinned_model.id) == col(pinned_config.model_id))
        .where(col(Run.public_id).in_(public_ids))
    )
    width = len(BaselineSide._fields)
    return [(BaselineSide(*row[:width]), BaselineSide(*row[width:])) for row in session.exec(query)]


def _side(table: Any, config: Any, model: Any) -> list[Any]:
    return [
        table.id,
        table.public_id,
        table.machine_id,
        table.suite_key,
        table.suite_sha256,
        table.main_point_key,
        (col(table.status) == "done") & col(table.hidden_at).is_(None),
        table.started_at,
        table.server_id,
        model.name,
        model.quantization,
        config.settings["model_id"].as_string(),
    ]
