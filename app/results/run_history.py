"""Measurements of earlier runs of a machine's suites: the history from which the scatter between runs is estimated.

It holds the newest HISTORY_RUNS finished runs of each machine and suite that are not hidden. The answers are cached
until something is written, since every list and comparison needs them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Text, cast, select, union_all
from sqlmodel import Session, col

from app.db.database import cached_query
from app.db.measurements import EVIDENCE_PARTS, stored_parts
from app.db.tables import Measurement, Run
from app.metrics.base import Source
from app.results.run_filter import NOT_HIDDEN

HISTORY_RUNS = 200


class HistoryScope(NamedTuple):
    """What a history is about; without a machine, it is about all of them."""

    machine_id: int | None
    suite_key: str


class PastRun(NamedTuple):
    run_id: int
    scope: HistoryScope
    group: tuple[int | None, str, str]
    """Runs that measured the same thing have the same group: configuration, prompt and hardware."""
    evidence: Mapping[str, Any]
    """The parts of the evidence that show disturbances."""
    main_point_key: str


class PastValue(NamedTuple):
    """A measurement of a past run that has a value."""

    run_id: int
    point_key: str
    metric: str
    source: Source
    value: float
    standard_deviation: float | None
    minimum: float | None
    maximum: float | None
    sample_count: int


@cached_query(maxsize=8)
def past_runs(session: Session, histories: frozenset[HistoryScope]) -> list[PastRun]:
    """Returns the past runs in order of time."""
    if not histories:
        return []
    newest = [_newest(scope).subquery() for scope in sorted(histories, key=str)]
    ids = union_all(*(select(part.c.id) for part in newest)).subquery()
    query = (
        select(
            col(Run.id),
            *(col(Run.machine_id), col(Run.suite_key), col(Run.config_id), col(Run.suite_sha256)),
            cast(col(Run.hardware), Text),
            col(Run.main_point_key),
            *(col(Run.evidence)[part] for part in EVIDENCE_PARTS),
        )
        .where(col(Run.id).in_(select(ids.c.id)))
        .order_by(col(Run.started_at), col(Run.id))
    )
    return [
        PastRun(
            run_id, HistoryScope(machine_id, suite_key), (config_id, sha256, hardware), stored_parts(parts), point_key
        )
        for run_id, machine_id, suite_key, config_id, sha256, hardware, point_key, *parts in session.execute(query)
    ]


def _newest(scope: HistoryScope) -> Any:
    where = [
        col(Run.status) == "done",
        col(Run.suite_key) == scope.suite_key,
        col(Run.config_id).is_not(None),
        NOT_HIDDEN,
    ]
    if scope.machine_id is not None:
        where.append(col(Run.machine_id) == scope.machine_id)
    return select(col(Run.id)).where(*where).order_by(col(Run.started_at).desc()).limit(HISTORY_RUNS)


@cached_query(maxsize=8)
def past_values(
    session: Session, run_ids: frozenset[int], metrics: tuple[str, ...], point_keys: frozenset[str] | None = None
) -> list[PastValue]:
    """Returns the past values at these points; without any, at the main point of each run. Only positive values of
    single points, so no slopes."""
    if not run_ids:
        return []
    query = _values(metrics).where(col(Measurement.run_id).in_(run_ids))
    is_at = None if point_keys is None else col(Measurement.point_key).in_(point_keys)
    query = _at_main_points(query) if is_at is None else query.where(is_at)
    return [PastValue(*row) for row in session.execute(query)]


def _values(metrics: tuple[str, ...]) -> Any:
    return select(
        *(col(Measurement.run_id), col(Measurement.point_key), col(Measurement.metric), col(Measurement.source)),
        *(col(Measurement.value), col(Measurement.standard_deviation), col(Measurement.minimum)),
        *(col(Measurement.maximum), col(Measurement.sample_count)),
    ).where(col(Measurement.metric).in_(metrics), col(Measurement.value) > 0, col(Measurement.source) != "slope")


def _at_main_points(query: Any) -> Any:
    is_main = col(Measurement.point_key) == col(Run.main_point_key)
    return query.join(Run, (col(Run.id) == col(Measurement.run_id)) & is_main)
