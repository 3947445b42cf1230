"""The configuration or hardware that a server had before a run, and what changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, select

from app.core.configuration import Snapshot, describe_changes
from app.db.configs import snapshot_of
from app.db.runs import related_rows
from app.db.tables import Config, Run
from app.results import hardware
from app.results.run_filter import NOT_HIDDEN


@dataclass(frozen=True)
class Previous:
    """What a server had before, and what has changed since."""

    fingerprint: str
    """The fingerprint of the previous configuration."""
    changes: Sequence[str]
    run: Run | None
    """The newest run before the change with the same version of the suite; None if there is none."""

    @property
    def public_id(self) -> str | None:
        return self.run.public_id if self.run else None


def previous(session: Session, run: Run, engine_titles: Mapping[str, str] | None = None) -> Previous | None:
    """Returns what the server of a run had before the run's configuration and hardware.

    None for a run without a configuration, and for the first configuration of a server on its first hardware. Hidden
    runs do not count.
    """
    if run.config_id is None or run.started_at is None:
        return None
    before = select(Run).where(
        Run.server_id == run.server_id,
        col(Run.config_id).is_not(None),
        col(Run.started_at) < run.started_at,
        NOT_HIDDEN,
    )
    newest_first = before.order_by(col(Run.started_at).desc(), col(Run.id).desc()).options(*related_rows()).limit(1)
    timelines = hardware.timelines(session, run.server_id)
    hardware_since = timelines.unchanged_since(run.server_id, run.started_at)
    is_other = col(Run.config_id) != run.config_id
    if hardware_since is not None:
        is_other |= col(Run.started_at) < hardware_since
    last = session.exec(newest_first.where(is_other)).first()
    if last is None or last.started_at is None:
        return None
    comparable = session.exec(
        newest_first.where(
            Run.config_id == last.config_id,
            col(Run.started_at) <= last.started_at,
            Run.suite_sha256 == run.suite_sha256,
            Run.status == "done",
        )
    ).first()
    assert last.config is not None
    return Previous(
        fingerprint=last.config.fingerprint,
        changes=[
            *timelines.between(run.server_id, last.started_at, run.started_at),
            *describe_changes(_snapshot(last), _snapshot(run), engine_titles),
        ],
        run=comparable,
    )


def previous_of_config(
    session: Session, config: Config, engine_titles: Mapping[str, str] | None = None
) -> Previous | None:
    """Returns what a configuration's server had before the configuration's first run; None for the first configuration
    of a server."""
    measured = select(Run).where(Run.config_id == config.id, col(Run.started_at).is_not(None), NOT_HIDDEN)
    first = session.exec(measured.order_by(col(Run.started_at), col(Run.id)).limit(1)).first()
    return previous(session, first, engine_titles) if first else None


def _snapshot(run: Run) -> Snapshot:
    assert run.config is not None
    return snapshot_of(run.config, run.config.model)
