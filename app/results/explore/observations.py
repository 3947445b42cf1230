"""The queries of the explorer: one row per observation, and the configurations, machines and runs to choose from.

An observation is a run at one of its points. Only runs that are done, not hidden and have a configuration count.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, String, cast, func, null, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from app.core.samples import Workload
from app.db.database import cached_query
from app.db.models import KnownGeometry, all_stated, best_geometry
from app.db.tables import Config, Machine, Measurement, Model, Run, Server
from app.results.hardware import timelines
from app.results.run_filter import NOT_HIDDEN, RunFilter, conditions


class GroupKey(NamedTuple):
    """The stored values that the observations of one group share."""

    config_id: int
    machine_id: int
    suite_key: str
    point_key: str
    labels: str
    """The labels of the run, as JSON."""
    hardware: str = ""
    """The devices of the machine, where they changed between its runs."""


COLUMNS = len(GroupKey._fields) - 1
"""The columns of a GroupKey that a query reads; the hardware follows from when a run started."""
Observation = tuple[Any, ...]
"""The public id of the run, its start (if requested), then value and null reason of each metric."""
PUBLIC_ID, STARTED_AT, METRICS_START = 0, 1, 2
"""Indexes of an Observation."""


class ObservationSet(NamedTuple):
    observations: dict[GroupKey, list[Observation]]
    matching_runs: int
    """The number of runs that match, with or without the requested numbers."""


def load_observations(
    session: Session,
    run_filter: RunFilter,
    metrics: Sequence[str],
    source: str | None = None,
    is_main_only: bool = True,
    with_time: bool = False,
) -> ObservationSet:
    """Loads each metric from its shown source, or from the named one; observations without the first metric are
    missing.

    `is_main_only`: each run at its suite's first workload only, which is always so without a metric.
    """
    # plain columns in blocks, as in the history: thousands of long-lived rows slow down garbage collection
    where = (*_EXPLORABLE_RUNS, *conditions(run_filter))
    query = _observation_query(metrics, source, is_main_only, with_time)
    rows = session.connection().execute(query.where(*where))
    groups: dict[tuple[Any, ...], list[Observation]] = {}
    for block in rows.partitions(500):
        for row in block:
            groups.setdefault(row[:COLUMNS], []).append(row[COLUMNS:])
    matching_runs: int = session.execute(select(func.count(col(Run.id))).where(*where)).scalar_one()
    return ObservationSet({GroupKey(*key): groups[key] for key in sorted(groups)}, matching_runs)


def _observation_query(metrics: Sequence[str], source: str | None, is_main_only: bool, with_time: bool) -> Select[Any]:
    """Returns the query for the columns of GroupKey, then those of Observation, with one join for each metric."""
    tables = [aliased(Measurement) for _ in metrics]
    point_key = col(tables[0].point_key) if tables else col(Run.main_point_key)
    columns: list[Any] = [
        col(Run.config_id),
        col(Run.machine_id),
        col(Run.suite_key),
        point_key,
        cast(col(Run.labels), String),
        col(Run.public_id),
        col(Run.started_at) if with_time else null(),
    ]
    for table in tables:
        columns += [col(table.value), col(table.null_reason)]
    query = select(*columns).select_from(Run)
    for index, (table, metric) in enumerate(zip(tables, metrics, strict=True)):
        joins = (col(table.run_id) == col(Run.id)) & (col(table.metric) == metric)
        joins &= col(table.source) == source if source else col(table.is_shown)
        if index:
            joins &= col(table.point_key) == point_key
        elif is_main_only:
            joins &= col(table.point_key) == col(Run.main_point_key)
        query = query.join(table, joins, isouter=index > 0)
    return query


def by_hardware(session: Session, observation_set: ObservationSet, inventory: "Inventory") -> ObservationSet:
    """Splits each group by the hardware that its runs started on. Their observations must have the start, if any
    hardware has changed."""
    changes = timelines(session).all_changes()
    if not changes:
        return observation_set
    groups: dict[GroupKey, list[Observation]] = {}
    for group_key, rows in observation_set.observations.items():
        server_id = inventory.configs[group_key.config_id].config.server_id
        moments = [change.at for change in changes.get(server_id, ())]
        names = timelines(session).names(server_id) if moments else [""]
        for row in rows:
            name = names[bisect_right(moments, row[STARTED_AT])] if moments else names[0]
            groups.setdefault(group_key._replace(hardware=name), []).append(row)
    return ObservationSet(groups, observation_set.matching_runs)


@cached_query(maxsize=1)
def newest_starts(session: Session) -> dict[tuple[int, int], datetime]:
    """Returns when each configuration was measured last on each machine, by machine and configuration."""
    columns = (col(Run.machine_id), col(Run.config_id))
    rows = session.execute(select(*columns, func.max(col(Run.started_at))).where(*_EXPLORABLE_RUNS).group_by(*columns))
    return {(machine_id, config_id): started_at for machine_id, config_id, started_at in rows if started_at}


_EXPLORABLE_RUNS = (col(Run.status) == "done", NOT_HIDDEN, col(Run.config_id).is_not(None))


class FrozenConfig(NamedTuple):
    """A configuration with its model and the slug of its server."""

    config: Config
    model: Model
    geometry: KnownGeometry | None
    server: str


class Inventory(NamedTuple):
    """The values to choose from."""

    configs: dict[int, FrozenConfig]
    machines: dict[int, Machine]
    servers: dict[str, str]
    """Server names by slug."""
    suites: list[str]
    labels: list[str]
    """The labels of runs and of configurations."""

    def machine_title(self, machine_id: int) -> str:
        """Returns a machine's name, with its slug when another one has the same name."""
        machine = self.machines[machine_id]
        is_unique = [machine.name for machine in self.machines.values()].count(machine.name) == 1
        return machine.name if is_unique else f"{machine.name} ({machine.slug})"

    def server_title(self, slug: str) -> str:
        name = self.servers[slug]
        return name if list(self.servers.values()).count(name) == 1 else f"{name} ({slug})"

    def labels_of(self, group_key: GroupKey) -> tuple[str, ...]:
        """Returns the distinct labels of a run and of its configuration."""
        run_labels: list[str] = json.loads(group_key.labels)
        return tuple(dict.fromkeys([*run_labels, *self.configs[group_key.config_id].config.labels]))


@cached_query(maxsize=2)
def load_inventory(session: Session) -> Inventory:
    configs = session.execute(
        select(Config, Model, col(Server.slug))
        .join(Model, col(Model.id) == col(Config.model_id))
        .join(Server, col(Server.id) == col(Config.server_id))
        .order_by(col(Config.id))
    ).all()
    machines = session.execute(select(Machine).order_by(col(Machine.name))).scalars().all()
    servers = session.execute(select(col(Server.slug), col(Server.name))).all()
    suites_and_labels = session.execute(
        select(col(Run.suite_key), cast(col(Run.labels), String)).where(*_EXPLORABLE_RUNS).distinct()
    ).all()
    stated = all_stated(session)
    return Inventory(
        configs={
            config.id: FrozenConfig(
                config, model, best_geometry(model, stated.get((model.name, model.quantization))), slug
            )
            for config, model, slug in configs
            if config.id
        },
        machines={machine.id: machine for machine in machines if machine.id},
        servers={row.slug: row.name for row in servers},
        suites=sorted({suite for suite, _ in suites_and_labels}),
        labels=sorted(
            {label for _, labels in suites_and_labels for label in json.loads(labels)}.union(
                *(config.labels for config, _, _ in configs)
            )
        ),
    )


class MeasuredPoint(NamedTuple):
    """A metric that has a value at a workload."""

    metric: str
    workload: Workload


@cached_query(maxsize=2)
def measured_points(session: Session) -> set[MeasuredPoint]:
    """Returns what the newest run of each configuration and suite version measured: nearly all that exists, in one
    quick query."""
    newest = select(func.max(col(Run.id))).where(*_EXPLORABLE_RUNS).group_by(col(Run.config_id), col(Run.suite_sha256))
    rows = session.execute(
        select(col(Measurement.metric), col(Measurement.point_key))
        .where(col(Measurement.run_id).in_(newest), col(Measurement.is_shown), col(Measurement.value).is_not(None))
        .distinct()
    )
    return {MeasuredPoint(metric, Workload.from_key(point_key)) for metric, point_key in rows}
