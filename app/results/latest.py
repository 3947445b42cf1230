"""The newest result of a notebook, against the run before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, select

from app.core.configuration import describe_changes
from app.core.unknown_settings import known_parts
from app.db.configs import snapshot_of
from app.db.runs import related_rows
from app.db.tables import Machine, Run, Server
from app.results import hardware
from app.results.compare.eligibility import refusal_reason_runs
from app.results.compare.scatter import Judged, MainVerdict, main_verdicts
from app.results.compare.soundness import unsound_by_run
from app.results.previous import previous
from app.results.run_filter import NOT_HIDDEN
from app.results.run_list import ShownMetric, headline_of
from app.results.series import series_index
from app.results.unknown import Side, unknown_between


@dataclass(frozen=True)
class LatestResult:
    """The newest finished run that counts, of a server that is in use."""

    run: Run
    metrics: Mapping[str, ShownMetric]
    """The headline metrics by key."""
    before: Run | None
    """The run it is compared with: the one before in its series, else the newest run of the configuration before; None
    when it is the first of both."""
    changes: Sequence[str]
    """What is known to have changed since then, in words."""
    unknown: Sequence[str]
    """The fields that either side does not state, so that they may have changed unseen."""
    verdict: MainVerdict | None
    """The comparison with the run before; None without one."""


def latest_result(session: Session, engine_titles: Mapping[str, str]) -> LatestResult | None:
    """Returns the newest result; None when nothing was measured yet."""
    counts = (Run.status == "done", NOT_HIDDEN, col(Run.config_id).is_not(None))
    newest_first = select(Run).where(*counts).order_by(col(Run.started_at).desc(), col(Run.id).desc()).limit(1)
    in_use = newest_first.join(Server, col(Server.id) == Run.server_id).join(Machine, col(Machine.id) == Run.machine_id)
    in_use = in_use.where(col(Server.archived_at).is_(None), col(Machine.archived_at).is_(None))
    run = session.exec(in_use.options(*related_rows())).first()
    if run is None or run.started_at is None:
        return None
    assert run.config_id is not None
    of_series = newest_first.where(
        Run.machine_id == run.machine_id,
        col(Run.config_id).in_(series_index(session).by_config[run.config_id].config_ids),
        Run.suite_sha256 == run.suite_sha256,
        col(Run.started_at) < run.started_at,
    )
    before = session.exec(of_series.options(*related_rows())).first()
    if before is not None:
        changes, unknown = _changes(session, before, run, engine_titles)
    else:
        earlier = previous(session, run, engine_titles)
        before, changes, unknown = (earlier.run, earlier.changes, earlier.unknown) if earlier else (None, [], [])
    assert run.id is not None
    verdict = _verdict(session, before, run) if before else None
    return LatestResult(run, headline_of(session, run.id), before, changes, unknown, verdict)


def _verdict(session: Session, before: Run, run: Run) -> MainVerdict:
    if reason := refusal_reason_runs(before, run):
        return MainVerdict(None, {}, reason=reason)
    unsound = unsound_by_run(session, {before.public_id, run.public_id})
    (verdict,) = main_verdicts(session, [(Judged.of(before), Judged.of(run))], unsound).values()
    return verdict


def _changes(
    session: Session, before: Run, run: Run, engine_titles: Mapping[str, str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Returns what differs between two runs of one series, the engine's version and the hardware, and what may."""
    assert before.config is not None
    assert run.config is not None
    then, today = (snapshot_of(config, config.model) for config in (before.config, run.config))
    changes = describe_changes(*known_parts(then, today), engine_titles)
    if before.started_at and run.started_at:
        timelines = hardware.timelines(session)  # of all servers: lists of changes need them, too
        changes = [*timelines.between(run.server_id, before.started_at, run.started_at), *changes]
    sides = [
        Side(snapshot, bool(side.hardware), side.evidence.get("process"))
        for side, snapshot in ((before, then), (run, today))
    ]
    return changes, [field.words for field in unknown_between(*sides)]
