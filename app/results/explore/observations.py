"""What the explorer reads: one row for each observation, and what configurations, machines and runs there are.

An observation is a run at one of its points. Only runs that are done, not hidden and have a configuration count.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import String, cast, func, null, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from app.core.samples import Workload
from app.db.models import KnownGeometry, all_stated, best_geometry
from app.db.query_cache import cached_query
from app.db.tables import Config, Machine, Measurement, Model, Run, Server
from app.results.run_filter import NOT_HIDDEN, RunFilter, conditions


class GroupKey(NamedTuple):
    """What many observations share, as it is stored."""

    config_id: int
    machine_id: int
    suite_key: str
    point_key: str
    labels: str
    """Of the run, as JSON."""


Observation = tuple[Any, ...]
"""Public id of the run, when it started (if wanted), then value and null reason of each metric."""


class ObservationSet(NamedTuple):
    observations: dict[GroupKey, list[Observation]]
    runs: int
    """How many match, with or without the numbers that were asked for."""


def load_observations(
    session: Session,
    where: RunFilter,
    metrics: Sequence[str],
    source: str | None = None,
    is_main_only: bool = True,
    with_time: bool = False,
) -> ObservationSet:
    """Of each metric the shown source, or the one that is named; observations without the first metric are missing.

    `is_main_only`: each run at its suite's first point only, as it always is without a metric.
    """
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
    for number, (table, metric) in enumerate(zip(tables, metrics, strict=True)):
        is_it = (col(table.run_id) == col(Run.id)) & (col(table.metric) == metric)
        is_it &= col(table.source) == source if source else col(table.is_shown)
        if number:
            is_it &= col(table.point_key) == point_key
        elif is_main_only:
            is_it &= col(table.point_key) == col(Run.main_point_key)
        query = query.join(table, is_it, isouter=number > 0)
    # plain columns in blocks, as in the history: thousands of rows that live on are felt in garbage collection
    is_wanted = (*_COUNTED, *conditions(where))
    rows = session.connection().execute(query.where(*is_wanted))
    width = len(GroupKey._fields)
    read: dict[tuple[Any, ...], list[Observation]] = {}
    for block in rows.partitions(500):
        for row in block:
            read.setdefault(row[:width], []).append(row[width:])
    runs: int = session.execute(select(func.count(col(Run.id))).where(*is_wanted)).scalar_one()
    return ObservationSet({GroupKey._make(place): read[place] for place in sorted(read)}, runs)


_COUNTED = (col(Run.status) == "done", NOT_HIDDEN, col(Run.config_id).is_not(None))


class FrozenConfig(NamedTuple):
    """A configuration with its model and the slug of its server."""

    config: Config
    model: Model
    told: KnownGeometry | None
    """The model's geometry."""
    server: str


class Inventory(NamedTuple):
    """What there is to choose from."""

    configs: dict[int, FrozenConfig]
    machines: dict[int, Machine]
    servers: dict[str, str]
    """Names by slug."""
    suites: list[str]
    labels: list[str]
    """Of runs and of configurations."""

    def machine_title(self, machine_id: int) -> str:
        """Its name, with its slug where another one has the same name."""
        machine = self.machines[machine_id]
        is_alone = [each.name for each in self.machines.values()].count(machine.name) == 1
        return machine.name if is_alone else f"{machine.name} ({machine.slug})"

    def server_title(self, slug: str) -> str:
        is_alone = list(self.servers.values()).count(self.servers[slug]) == 1
        return self.servers[slug] if is_alone else f"{self.servers[slug]} ({slug})"

    def labels_of(self, place: GroupKey) -> tuple[str, ...]:
        """Of a run and of its configuration."""
        own: list[str] = json.loads(place.labels)
        return tuple(dict.fromkeys([*own, *self.configs[place.config_id].config.labels]))


@cached_query(2)
def load_inventory(session: Session) -> Inventory:
    configs = session.execute(
        select(Config, Model, col(Server.slug))
        .join(Model, col(Model.id) == col(Config.model_id))
        .join(Server, col(Server.id) == col(Config.server_id))
        .order_by(col(Config.id))
    ).all()
    machines = session.execute(select(Machine).order_by(col(Machine.name))).scalars().all()
    servers = session.execute(select(col(Server.slug), col(Server.name))).all()
    kinds = session.execute(select(col(Run.suite_key), cast(col(Run.labels), String)).where(*_COUNTED).distinct())
    found = kinds.all()
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
        suites=sorted({suite for suite, _ in found}),
        labels=sorted(
            {label for _, labels in found for label in json.loads(labels)}.union(
                *(config.labels for config, _, _ in configs)
            )
        ),
    )


class MeasuredPoint(NamedTuple):
    """A metric that has a value at a point."""

    metric: str
    point: Workload


@cached_query(2)
def measured_points(session: Session) -> set[MeasuredPoint]:
    """In the newest run of each configuration and suite version: about all that there is, without reading all of it."""
    newest = select(func.max(col(Run.id))).where(*_COUNTED).group_by(col(Run.config_id), col(Run.suite_sha256))
    rows = session.execute(
        select(col(Measurement.metric), col(Measurement.point_key))
        .where(col(Measurement.run_id).in_(newest), col(Measurement.is_shown), col(Measurement.value).is_not(None))
        .distinct()
    )
    return {MeasuredPoint(metric, Workload.from_key(point_key)) for metric, point_key in rows}
