"""Finished runs in order of time, with the metrics that a history shows."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import String, Text, cast, type_coerce
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, func, select

from app.db.database import cached_query
from app.db.tables import Machine, Measurement, Run, Server
from app.metrics import HEADLINE_METRICS
from app.results.history.table import HistoryTable
from app.results.run_filter import NOT_HIDDEN, RunFilter, conditions

DONE = (col(Run.status) == "done", col(Run.config_id).is_not(None))


def history(
    session: Session,
    where: RunFilter,
    metrics: Sequence[str] = HEADLINE_METRICS,
    config_ids: Collection[int] | None = None,
) -> tuple[HistoryTable, int]:
    """Returns all finished runs that count, in order of time, and how many hidden ones are left out; None: all
    configurations."""
    return _history(session, where, tuple(metrics), None if config_ids is None else tuple(config_ids))


@cached_query(maxsize=2)
def _history(
    session: Session, where: RunFilter, metrics: tuple[str, ...], config_ids: tuple[int, ...] | None
) -> tuple[HistoryTable, int]:
    filters = conditions(where)
    if config_ids is not None:
        filters.append(col(Run.config_id).in_(config_ids))
    hidden_query = select(func.count(col(Run.id))).where(*DONE, ~NOT_HIDDEN, *filters)
    hidden = session.exec(hidden_query).one()
    everything = RunFilter(suite=where.suite), metrics, None
    wide = None if (where, metrics, config_ids) == everything else _history.peek(session, *everything)
    if wide is None:
        return _read(session, _points(metrics).where(NOT_HIDDEN, *filters), metrics), hidden
    # a choice on an open history: selecting the runs takes a fraction of the time that their measurements take
    chosen = session.exec(select(Run.public_id).where(*DONE, NOT_HIDDEN, *filters))
    return wide[0].take(wide[0].with_public_ids(chosen)), hidden


def newest(session: Session, per_series: int, metrics: Sequence[str] = HEADLINE_METRICS) -> HistoryTable:
    """Returns the newest runs that count of each configuration and suite on servers that are in use, in order of
    time."""
    age = func.row_number().over(
        partition_by=[col(Run.config_id), col(Run.suite_key)], order_by=[col(Run.started_at).desc(), col(Run.id).desc()]
    )
    aged = (
        select(col(Run.id), age.label("age"))
        .where(Run.status == "done", NOT_HIDDEN, col(Run.config_id).is_not(None))
        .subquery()
    )
    query = _points(metrics).where(col(Run.id).in_(select(aged.c.id).where(aged.c.age <= per_series)))
    query = query.join(Machine, col(Machine.id) == Run.machine_id).join(Server, col(Server.id) == Run.server_id)
    in_use = query.where(col(Server.archived_at).is_(None), col(Machine.archived_at).is_(None))
    return _read(session, in_use, metrics)


def _points(metrics: Sequence[str]) -> Any:
    tables = [aliased(Measurement, name=metric) for metric in metrics]
    query: Any = (
        select(  # type: ignore[call-overload]  # typed for at most four columns
            Run.public_id,
            type_coerce(Run.started_at, String),  # as stored: converting all texts to times at once is faster
            Run.config_id,
            Run.server_id,
            Run.suite_sha256,
            cast(col(Run.labels), Text),
            *(column for table in tables for column in (table.value, table.standard_deviation, table.sample_count)),
        )
        .select_from(Run)
        .where(*DONE)
    )
    for table, metric in zip(tables, metrics, strict=True):
        query = query.outerjoin(
            table,
            (col(table.run_id) == Run.id)
            & (col(table.point_key) == Run.main_point_key)
            & (col(table.metric) == metric)
            & col(table.is_shown).is_(True),
        )
    return query


def _read(session: Session, query: Any, metrics: Sequence[str]) -> HistoryTable:
    session.flush()  # which a connection does not do by itself
    rows = session.connection().execute(query)
    return HistoryTable.of_rows(rows.partitions(1000), 3 * len(metrics))
