"""The nearest earlier configuration of a run's model on its machine, and what has changed since."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import case
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, func, select

from app.core.configuration import describe_changes
from app.core.unknown_settings import UnknownField, known_parts
from app.db.configs import snapshot_of
from app.db.runs import related_rows
from app.db.tables import Config, Model, Run, Server
from app.results import hardware
from app.results.run_filter import NOT_HIDDEN
from app.results.unknown import Side, unknown_between

OTHER_QUANTIZATION = 4
"""Another quantization is another file: as far as so many other differences. A sweep of quantizations after an update
and a new setting is then compared with the sweep before, and not with its own runs."""


@dataclass(frozen=True)
class Previous:
    """The nearest earlier configuration, and what has changed since."""

    fingerprint: str
    """The fingerprint of the earlier configuration."""
    server_slug: str
    """The server that had it."""
    changes: Sequence[str]
    """What is known to differ, one phrase each; empty when nothing is known to."""
    unknown: Sequence[str]
    """What either side does not state, so that it may differ too; with both values where one side does."""
    run: Run | None
    """Its newest earlier run with the same version of the suite; None if there is none."""

    @property
    def public_id(self) -> str | None:
        return self.run.public_id if self.run else None


class _EarlierRun(NamedTuple):
    """The run that stands for an earlier configuration."""

    run_id: int
    started_at: datetime
    server_id: int
    hardware: hardware.FrozenDevices
    server_slug: str
    process: Any
    config: Config
    model: Model
    is_comparable: bool
    """Whether it is finished and has the same version of the suite."""

    def has_other_quantization(self, model: Model) -> bool:
        return bool(model.quantization and self.model.quantization and model.quantization != self.model.quantization)


class _Candidate(NamedTuple):
    """An earlier configuration and how it differs."""

    run: _EarlierRun
    changes: Sequence[str]
    unknown: Sequence[UnknownField]
    has_other_quantization: bool

    @property
    def rank(self) -> tuple[int, int, bool, float]:
        """Returns the sort key: the nearest first."""
        one_sided = sum(field.values is not None for field in self.unknown)
        quantization = OTHER_QUANTIZATION - 1 if self.has_other_quantization else 0
        return (
            len(self.changes) + quantization + one_sided,
            one_sided,
            not self.run.is_comparable,
            -self.run.started_at.timestamp(),
        )


def previous(session: Session, run: Run, engine_titles: Mapping[str, str] | None = None) -> Previous | None:
    """Returns the earlier configuration on the run's machine with the same model and the fewest differences: in engine,
    build, quantization, settings, labels and hardware. Another quantization counts OTHER_QUANTIZATION times. Fields
    that only one side states count, too, but known differences are nearer.

    Of equally near ones it is one with a run to compare with, and the newest. Hidden runs do not count. None without an
    earlier configuration of the model.
    """
    if run.config is None or run.model is None or run.started_at is None:
        return None
    candidates = _candidates(session, run, engine_titles)
    if not candidates:
        return None
    nearest = min(candidates, key=lambda candidate: candidate.rank)
    earlier = nearest.run
    comparable = None
    if earlier.is_comparable:
        comparable = session.exec(select(Run).where(Run.id == earlier.run_id).options(*related_rows())).one()
    unknown = [field.words for field in nearest.unknown]
    return Previous(earlier.config.fingerprint, earlier.server_slug, nearest.changes, unknown, comparable)


def previous_of_config(
    session: Session, config: Config, engine_titles: Mapping[str, str] | None = None
) -> Previous | None:
    """Returns the nearest configuration before the first run of a configuration; None if there is none."""
    measured = select(Run).where(Run.config_id == config.id, col(Run.started_at).is_not(None), NOT_HIDDEN)
    first = session.exec(measured.order_by(col(Run.started_at), col(Run.id)).limit(1)).first()
    return previous(session, first, engine_titles) if first else None


def _candidates(session: Session, run: Run, engine_titles: Mapping[str, str] | None) -> list[_Candidate]:
    """Returns the earlier configurations that differ from the run's, and the run's own on other hardware."""
    assert run.config is not None
    assert run.model is not None
    today = snapshot_of(run.config, run.model)
    candidates = []
    for earlier in _earlier_runs(session, run):
        then = snapshot_of(earlier.config, earlier.model)
        is_one_server = earlier.server_id == run.server_id
        changes = [
            *_device_changes(earlier.hardware, run.hardware),
            *describe_changes(*known_parts(then, today), engine_titles, is_one_server=is_one_server),
        ]
        unknown = unknown_between(
            Side(then, bool(earlier.hardware), earlier.process),
            Side(today, bool(run.hardware), run.evidence.get("process")),
        )
        if changes or any(field.values is not None for field in unknown):
            candidates.append(_Candidate(earlier, changes, unknown, earlier.has_other_quantization(run.model)))
    return candidates


def _device_changes(then: hardware.FrozenDevices, today: hardware.FrozenDevices) -> list[str]:
    """Returns the changes of the devices, as far as both runs recorded theirs."""
    if not (then and today):
        return []
    return hardware.device_changes(hardware.thaw_devices(then), hardware.thaw_devices(today))


def _earlier_runs(session: Session, run: Run) -> list[_EarlierRun]:
    """Reads the run that stands for each earlier configuration of the run's model on its machine: the newest that is
    comparable, else the newest. That of the run's own configuration is from before its hardware changed."""
    started, own_id = run.started_at, run.config_id
    assert started is not None
    assert run.model is not None
    hardware_since = hardware.timelines(session, run.server_id).unchanged_since(run.server_id, started)
    earlier = aliased(Run)

    def newest(*where: Any) -> Any:
        """Returns the id of the newest run of a configuration; few rows are read, since the index is in this order."""
        query = select(earlier.id).where(
            col(earlier.config_id) == col(Config.id),
            earlier.machine_id == run.machine_id,
            col(earlier.started_at) < case((col(Config.id) == own_id, hardware_since or started), else_=started),
            col(earlier.hidden_at).is_(None),
            *where,
        )
        ordered = query.order_by(col(earlier.started_at).desc(), col(earlier.id).desc()).limit(1)
        return ordered.correlate(Config).scalar_subquery()

    comparable = newest(earlier.suite_sha256 == run.suite_sha256, earlier.status == "done")
    is_comparable = func.coalesce(col(Run.id) == comparable, False)
    process = col(Run.evidence)["process"]
    columns: list[Any] = [Run.id, Run.started_at, Run.server_id, Run.hardware, Server.slug, process, Config, Model]
    query = (
        select(*columns, is_comparable)  # type: ignore[call-overload]  # typed for at most four columns
        .select_from(Config)
        .join(Model, col(Model.id) == Config.model_id)
        .join(Run, col(Run.id) == func.coalesce(comparable, newest()))
        .join(Server, col(Server.id) == Run.server_id)
        .where(Model.name == run.model.name)
    )
    if hardware_since is None:
        query = query.where(Config.id != own_id)
    return [_EarlierRun._make(row) for row in session.execute(query)]
