"""Done runs in order of time, with the metrics that a history shows."""

import sys
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Text, cast
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, func, select

from app.errors import BadInput
from app.i18n import _
from app.metrics import TRIPLE
from app.models import Config, Machine, Measurement, Model, Run, Server
from app.store.filters import COUNTS, Filter, filtered
from app.store.hardware import HardwareChange


class HistoryPoint(NamedTuple):
    """One done run at its suite's main point: only what charts and comparisons of many runs need."""

    public_id: str
    started_at: datetime
    config_id: int
    server_id: int
    suite_sha256: str
    labels: str
    """Its own, as JSON: parsed only by whoever needs them."""
    readings: tuple[Any, ...]
    """Of each metric that was asked for three: value, standard deviation and count of its samples."""

    def value(self, place: int) -> float | None:
        """Of the `place`-th metric; in its own unit, as its deviation is."""
        found: float | None = self.readings[3 * place]
        return found

    def deviation(self, place: int) -> float | None:
        found: float | None = self.readings[3 * place + 1]
        return found


@dataclass(frozen=True)
class Period:
    """Days in UTC, both included; None: no end."""

    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        if self.since and self.until and self.since > self.until:
            raise BadInput(
                _("A history from {since} to {until} ends before it begins.", since=self.since, until=self.until)
            )


ALWAYS = Period()


def history(
    session: Session,
    where: Filter,
    metrics: Sequence[str] = TRIPLE,
    period: Period = ALWAYS,
    config_ids: Collection[int] | None = None,
) -> tuple[list[HistoryPoint], int]:
    """All done runs that count, in order of time, and how many hidden ones are left out; None: all configurations."""
    query = _points(metrics, where)
    if period.since:
        query = query.where(col(Run.started_at) >= datetime.combine(period.since, time(), UTC))
    if period.until and period.until < date.max:
        query = query.where(col(Run.started_at) < datetime.combine(period.until + timedelta(days=1), time(), UTC))
    if config_ids is not None:
        query = query.where(col(Run.config_id).in_(config_ids))
    hidden: int = session.execute(query.where(~COUNTS).with_only_columns(func.count(col(Run.id)))).scalar_one()
    return _read(session, query.where(COUNTS)), hidden


def newest(session: Session, per_series: int, metrics: Sequence[str] = TRIPLE) -> list[HistoryPoint]:
    """The newest runs that count of each configuration and suite, on servers that are in use, in order of time."""
    age = func.row_number().over(
        partition_by=[col(Run.config_id), col(Run.suite_key)], order_by=[col(Run.started_at).desc(), col(Run.id).desc()]
    )
    aged = (
        select(col(Run.id), age.label("age"))
        .where(Run.status == "done", COUNTS, col(Run.config_id).is_not(None))
        .subquery()
    )
    query = _points(metrics, Filter()).where(col(Run.id).in_(select(aged.c.id).where(aged.c.age <= per_series)))
    return _read(session, query.where(col(Server.archived_at).is_(None), col(Machine.archived_at).is_(None)))


def _points(metrics: Sequence[str], where: Filter) -> Any:
    tables = [aliased(Measurement, name=metric) for metric in metrics]
    query: Any = (
        select(  # type: ignore[call-overload]  # typed for at most four columns
            Run.public_id,
            Run.started_at,
            Run.config_id,
            Run.server_id,
            Run.suite_sha256,
            cast(col(Run.labels), Text),
            *(column for each in tables for column in (each.value, each.standard_deviation, each.sample_count)),
        )
        .select_from(Run)
        .join(Machine, col(Machine.id) == Run.machine_id)
        .join(Server, col(Server.id) == Run.server_id)
        .join(Config, col(Config.id) == Run.config_id)
        .join(Model, col(Model.id) == Config.model_id)
    )
    for table, metric in zip(tables, metrics, strict=True):
        query = query.outerjoin(
            table,
            (col(table.run_id) == Run.id)
            & (col(table.point_key) == Run.main_point_key)
            & (col(table.metric) == metric)
            & col(table.is_shown).is_(True),
        )
    return filtered(query, where).where(Run.status == "done")


def _read(session: Session, query: Any) -> list[HistoryPoint]:
    # plain columns in blocks, equal words once: with thousands of runs, whatever lives on is felt
    found = session.connection().execute(query.order_by(col(Run.started_at), col(Run.id)))
    plain = len(HistoryPoint._fields) - 1
    return [
        HistoryPoint._make((*row[:4], sys.intern(row[4]), sys.intern(row[5]), row[plain:]))
        for block in found.partitions(500)
        for row in block
    ]


def stretches(
    points: Iterable[HistoryPoint], hardware: Mapping[int, Sequence[HardwareChange]]
) -> list[list[HistoryPoint]]:
    """Points in order of time, apart by what no level or line may cross: configuration, prompt and hardware.

    `hardware` by server, its changes in order of time. Each stretch is in order of time, and they are in the order of
    their first runs.
    """
    moments = {server_id: [change.at for change in changes] for server_id, changes in hardware.items()}
    found: dict[tuple[int, str, int], list[HistoryPoint]] = {}
    for point in points:
        known = moments.get(point.server_id)
        key = (point.config_id, point.suite_sha256, bisect_right(known, point.started_at) if known else 0)
        if key in found:
            found[key].append(point)
        else:
            found[key] = [point]
    return list(found.values())
