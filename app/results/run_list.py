"""Runs with their circumstances and shown metrics, as lists, overviews and histories need them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Result
from sqlalchemy import select as select_columns
from sqlmodel import Session, col, func, select

from app.core.errors import BadInput
from app.core.i18n import _, joined
from app.core.samples import Workload
from app.db.configs import short_config_labels
from app.db.database import cached_query
from app.db.tables import Config, Machine, Measurement, Model, Run, Server
from app.metrics import HEADLINE_METRICS, metrics
from app.results.run_filter import NOT_HIDDEN, RunFilter, conditions


class ShownMetric(NamedTuple):
    """A metric at the main workload from the source that is shown; `value` is None when there is none."""

    value: float | None
    low: float | None
    high: float | None
    standard_deviation: float | None
    source: str | None


NOT_MEASURED = ShownMetric(None, None, None, None, None)


@dataclass(frozen=True, slots=True)
class RunRow:
    run_id: int
    public_id: str
    status: str
    suite_key: str
    suite_sha256: str
    main_point_key: str
    plan: dict[str, Any]
    left_out: list[dict[str, Any]] | None
    """The workloads that did not fit, each with its reason."""
    note: str
    run_labels: list[str]
    hidden_at: datetime | None
    hidden_reason: str
    error: str | None
    queued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    samples_done: int
    samples_planned: int
    progress: dict[str, Any]
    machine: str
    machine_slug: str
    server: str
    server_slug: str
    is_archived: bool
    """Whether its server or machine is archived."""
    config_id: int | None
    engine: str
    engine_version: str | None
    model: str | None
    quantization: str | None
    settings: dict[str, Any] | None
    labels: list[str] | None
    fingerprint: str | None
    metrics: Mapping[str, ShownMetric]
    """The requested metrics by key."""
    particulars: str
    """What distinguishes its configuration from others of the same model on the same server; often empty."""

    @property
    def points(self) -> tuple[int, int]:
        """The number of workloads that the run plays, and that of its suite."""
        left_out = len(self.left_out or [])
        planned = self.plan.get("points")
        if planned is None:  # an older run, of whose workloads each had as many samples
            per_point = self.plan.get("repetitions", 0) + self.plan.get("warmups", 0)
            planned = (self.samples_planned // per_point if per_point else 1) + left_out
        return planned - left_out, planned

    @property
    def has_figures(self) -> bool:
        return any(metric.value is not None for metric in self.metrics.values())

    @property
    def main_prompt_tokens(self) -> int:
        return Workload.from_key(self.main_point_key).prompt_tokens


DEFAULT_SORT = "queued"

SORTS = {
    DEFAULT_SORT: Run.queued_at,
    "started": Run.started_at,
    "model": Model.name,
    "machine": Machine.name,
    "server": Server.name,
    "suite": Run.suite_key,
    "status": Run.status,
}
"""The sort keys besides the key or alias of any metric."""

GROUPS = {
    "model": (Model.name, Model.quantization),
    "machine": (Machine.name, Machine.slug),
    "server": (Server.name, Server.slug),
    "suite": (Run.suite_key,),
    "configuration": (Run.config_id,),
    "status": (Run.status,),
}
"""What a list may be grouped by: the columns that rows of a group share."""


def list_runs(
    session: Session,
    where: RunFilter | None = None,
    sort: str = DEFAULT_SORT,
    descending: bool = True,
    page: int = 1,
    per_page: int = 50,
    keys: Sequence[str] = HEADLINE_METRICS,
    *,
    group: str = "",
    has_particulars: bool = True,
) -> tuple[list[RunRow], int]:
    """Returns one page of runs with the metrics of these keys, and the total number of runs.

    Rows of one `group` (of GROUPS) stand together, and are sorted within it. Their `particulars` take a third of the
    time; a document without them leaves them out. Raises BadInput for an unknown sort key or group.
    """
    where = where or RunFilter()
    query, column = _sorted_by(sort)
    ordered = column.desc() if descending else column.asc()
    order = (*_grouped_by(group), ordered if sort == DEFAULT_SORT else ordered.nulls_last(), col(Run.id).desc())
    # first which runs, with only what they are sorted by, then all about them
    page_ids = query.where(*conditions(where)).order_by(*order)
    page_ids = page_ids.limit(per_page).offset((max(1, page) - 1) * per_page)
    ids = session.execute(page_ids).scalars().all()
    return rows_by_ids(session, ids, keys, has_particulars), count_runs(session, where)


def rows_by_ids(
    session: Session, run_ids: Sequence[int], keys: Sequence[str], has_particulars: bool = False
) -> list[RunRow]:
    """Returns the rows of some runs, in the order of their ids, with the metrics of these keys."""
    query = _select_rows().where(col(Run.id).in_(run_ids))
    rows = {row.run_id: row for row in _rows(session, query, keys, has_particulars)}
    return [rows[run_id] for run_id in run_ids]


def group_title(row: RunRow, group: str) -> str:
    """Returns the title of the group that a row belongs to; empty where a list is not grouped."""
    titles = {
        "model": lambda: joined(row.model or _("unknown model"), row.quantization or "", by=" "),
        "machine": lambda: row.machine,
        "server": lambda: row.server,
        "suite": lambda: row.suite_key,
        "configuration": lambda: joined(
            *(row.model or _("unknown model"), row.quantization or "", row.server),
            *(row.engine_version or "", row.particulars, (row.fingerprint or "")[:6]),
            by=" · ",
        ),
        "status": lambda: _(row.status),
    }
    return titles[group]() if group else ""


def _grouped_by(group: str) -> list[Any]:
    if group and group not in GROUPS:
        raise BadInput(
            _("Runs can be grouped by {keys}; {group!r} is not one of them.", keys=", ".join(GROUPS), group=group[:40])
        )
    return [col(column).asc().nulls_last() for column in GROUPS.get(group, ())]


def _sorted_by(sort: str) -> tuple[Any, Any]:
    """Returns a query of run ids, and the column that orders them."""
    query = _joined(select(col(Run.id)))
    if sort in SORTS:
        return query, col(SORTS[sort])
    metric = next((metric for metric in metrics().values() if sort in (metric.key, metric.alias)), None)
    if metric is None:
        words = [*SORTS, *(metrics()[key].alias or key for key in HEADLINE_METRICS)]
        raise BadInput(
            _("Runs can be sorted by {keys}; {sort!r} is not one of them.", keys=", ".join(words), sort=sort)
        )
    return query.outerjoin(Measurement, _IS_SHOWN & (col(Measurement.metric) == metric.key)), col(Measurement.value)


@cached_query(maxsize=8)
def count_runs(session: Session, where: RunFilter) -> int:
    count: int = session.execute(select(func.count(col(Run.id))).where(*conditions(where))).scalar_one()
    return count


@cached_query(maxsize=1)
def _newest_per_config(session: Session) -> list[int]:
    newest = (
        select(func.max(Run.id))
        .where(Run.status == "done", col(Run.config_id).is_not(None), NOT_HIDDEN)
        .group_by(col(Run.config_id), col(Run.suite_key))
    )
    return list(session.execute(newest).scalars().all())


@cached_query(maxsize=4)
def latest_per_config(session: Session, where: RunFilter | None = None) -> list[RunRow]:
    """Returns the newest finished run that counts of each configuration and suite, newest first."""
    query = _select_rows().where(*conditions(where or RunFilter()), col(Run.id).in_(_newest_per_config(session)))
    return _rows(session, query.order_by(col(Run.started_at).desc()), HEADLINE_METRICS)


def headline_of(session: Session, run_id: int) -> Mapping[str, ShownMetric]:
    """Returns the headline metrics of a run by key."""
    shown = _shown_metrics(session, [run_id], HEADLINE_METRICS).get(run_id, {})
    return {key: shown.get(key, NOT_MEASURED) for key in HEADLINE_METRICS}


_COLUMNS: dict[str, Any] = {
    "run_id": Run.id,
    "public_id": Run.public_id,
    "status": Run.status,
    "suite_key": Run.suite_key,
    "suite_sha256": Run.suite_sha256,
    "main_point_key": Run.main_point_key,
    "plan": Run.plan,
    "left_out": col(Run.evidence)["left_out"],
    "note": Run.note,
    "run_labels": Run.labels,
    "hidden_at": Run.hidden_at,
    "hidden_reason": Run.hidden_reason,
    "error": Run.error,
    "queued_at": Run.queued_at,
    "started_at": Run.started_at,
    "finished_at": Run.finished_at,
    "samples_done": Run.samples_done,
    "samples_planned": Run.samples_planned,
    "progress": Run.progress,
    "machine": Machine.name,
    "machine_slug": Machine.slug,
    "server": Server.name,
    "server_slug": Server.slug,
    "is_archived": col(Server.archived_at).is_not(None) | col(Machine.archived_at).is_not(None),
    "config_id": Run.config_id,
    "engine": func.coalesce(Config.engine, Server.engine),
    "engine_version": Config.engine_version,
    "model": Model.name,
    "quantization": Model.quantization,
    "settings": Config.settings,
    "labels": Config.labels,
    "fingerprint": Config.fingerprint,
}
"""The columns by the name of their field of RunRow."""

_IS_SHOWN = (
    (col(Measurement.run_id) == col(Run.id))
    & (col(Measurement.point_key) == col(Run.main_point_key))
    & col(Measurement.is_shown).is_(True)
)


def _select_rows() -> Any:
    return _joined(select_columns(*(column.label(name) for name, column in _COLUMNS.items())))


def _joined(query: Any) -> Any:
    """Joins the tables with outer joins, although every run has its machine: databases skip outer joins that a query
    does not use."""
    return (
        query.select_from(Run)
        .outerjoin(Machine, col(Machine.id) == Run.machine_id)
        .outerjoin(Server, col(Server.id) == Run.server_id)
        .outerjoin(Config, col(Config.id) == Run.config_id)
        .outerjoin(Model, col(Model.id) == Config.model_id)
    )


def _rows(session: Session, query: Any, keys: Sequence[str], has_particulars: bool = True) -> list[RunRow]:
    """Returns the rows of a query of `_select_rows`, with the metrics of these keys."""
    rows = _execute(session, query).mappings().all()
    if not rows:
        return []
    shown = _shown_metrics(session, [row["run_id"] for row in rows], keys)
    labels = short_config_labels(session, {row["server_slug"] for row in rows}) if has_particulars else {}
    unmeasured = dict.fromkeys(keys, NOT_MEASURED)
    return [
        RunRow(
            **row,
            metrics=unmeasured | shown.get(row["run_id"], {}),
            particulars=labels.get(row["config_id"], ""),
        )
        for row in rows
    ]


def _shown_metrics(
    session: Session, run_ids: Sequence[int], keys: Collection[str]
) -> Mapping[int, dict[str, ShownMetric]]:
    """Returns the shown metrics by run and metric."""
    values = [getattr(Measurement, field) for field in ShownMetric._fields]
    query = select_columns(col(Measurement.run_id), col(Measurement.metric), *values).join(Run, _IS_SHOWN)
    query = query.where(col(Measurement.run_id).in_(run_ids), col(Measurement.metric).in_(keys))
    rows: Sequence[Any] = _execute(session, query).all()
    shown: dict[int, dict[str, ShownMetric]] = defaultdict(dict)
    for run_id, key, *figures in rows:
        shown[run_id][key] = ShownMetric._make(figures)
    return shown


def _execute(session: Session, query: Any) -> Result[Any]:
    """The rows of a query of columns, past the ORM, which takes time for each row."""
    session.flush()  # which a connection does not do by itself
    return session.connection().execute(query)
