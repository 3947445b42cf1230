"""Runs with their circumstances and shown triple, as lists, overviews and histories need them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select as select_columns
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, func, not_, select

from app.core.errors import BadInput
from app.core.i18n import _
from app.core.samples import Workload
from app.db.configs import short_config_labels
from app.db.query_cache import cached_query
from app.db.tables import Config, Machine, Measurement, Model, Run, Server
from app.metrics import HEADLINE_METRICS
from app.results.run_filter import NOT_HIDDEN, RunFilter, conditions


class Shown(NamedTuple):
    """A measurement as a list shows it; `value` None where there is none."""

    value: float | None
    low: float | None
    high: float | None
    standard_deviation: float | None
    source: str | None


class Row(NamedTuple):
    public_id: str
    status: str
    suite_key: str
    suite_sha256: str
    main_point_key: str
    plan: dict[str, Any]
    left_out: list[dict[str, Any]] | None
    """Points that did not fit, each with its reason."""
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
    config_id: int | None
    engine: str
    engine_version: str | None
    model: str | None
    quantization: str | None
    settings: dict[str, Any] | None
    labels: list[str] | None
    fingerprint: str | None
    ttft: Shown
    prefill: Shown
    decode: Shown
    particulars: str
    """What tells its configuration apart from others of the same model on the same server; often empty."""

    @property
    def points(self) -> tuple[int, int]:
        """How many points the run plays, and how many its suite has."""
        left_out = len(self.left_out or [])
        there = self.plan.get("points")
        if there is None:  # an older run, of whose points each took as many samples
            per_point = self.plan.get("repetitions", 0) + self.plan.get("warmups", 0)
            there = (self.samples_planned // per_point if per_point else 1) + left_out
        return there - left_out, there

    @property
    def has_figures(self) -> bool:
        return any(each.value is not None for each in (self.ttft, self.prefill, self.decode))

    @property
    def main_prompt_tokens(self) -> int:
        return Workload.from_key(self.main_point_key).prompt_tokens


MEASURED = TTFT, PREFILL, DECODE = tuple(aliased(Measurement, name=key.split("_")[0]) for key in HEADLINE_METRICS)

DEFAULT_SORT = "queued"

SORTS = {
    DEFAULT_SORT: Run.queued_at,
    "started": Run.started_at,
    "model": Model.name,
    "machine": Machine.name,
    "server": Server.name,
    "status": Run.status,
    "ttft": TTFT.value,
    "prefill": PREFILL.value,
    "decode": DECODE.value,
}


def list_runs(
    session: Session,
    where: RunFilter | None = None,
    sort: str = DEFAULT_SORT,
    descending: bool = True,
    page: int = 1,
    per_page: int = 50,
) -> tuple[list[Row], int]:
    """One page of runs and how many there are in all. Raises BadInput for an unknown sort key."""
    if sort not in SORTS:
        raise BadInput(
            _("Runs can be sorted by {known}; {sort!r} is not one of them.", known=", ".join(SORTS), sort=sort)
        )
    where = where or RunFilter()
    column = col(SORTS[sort])
    ordered = column.desc() if descending else column.asc()
    order = (ordered if sort == DEFAULT_SORT else ordered.nulls_last(), col(Run.id).desc())
    # first which runs, with only what they are sorted by, then all about them: PostgreSQL would read the measurements
    # of all runs, if it did not know how few they are
    measured = [each for each in MEASURED if SORTS[sort] is each.value]
    page_ids = _joined(select(col(Run.id)), measured).where(*conditions(where)).order_by(*order)
    page_ids = page_ids.limit(per_page).offset((max(1, page) - 1) * per_page)
    ids = session.execute(page_ids).scalars().all()
    rows = session.execute(_select_rows().where(col(Run.id).in_(ids)).order_by(*order)).all()
    return _to_rows(session, rows), count_runs(session, where)


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
def latest_per_config(session: Session, where: RunFilter | None = None, archived: bool | None = None) -> list[Row]:
    """The newest run of each configuration and suite that is done and counts, newest first.

    `archived` takes only those of archived servers, or leaves them out; None takes all.
    """
    query = _select_rows().where(*conditions(where or RunFilter()), col(Run.id).in_(_newest_per_config(session)))
    if archived is not None:
        is_archived = col(Server.archived_at).is_not(None) | col(Machine.archived_at).is_not(None)
        query = query.where(is_archived if archived else not_(is_archived))
    return _to_rows(session, session.execute(query.order_by(col(Run.started_at).desc())).all())


@cached_query(maxsize=2)
def decode_trends(session: Session, per_config: int = 20) -> dict[tuple[int, str], list[float]]:
    """The decode speeds of the newest runs of each configuration and suite, oldest first."""
    age = func.row_number().over(
        partition_by=[col(Run.config_id), col(Run.suite_key)], order_by=[col(Run.started_at).desc(), col(Run.id).desc()]
    )
    newest = (
        select(col(Run.id), age.label("age")).where(Run.status == "done", col(Run.config_id).is_not(None), NOT_HIDDEN)
    ).subquery()
    found: dict[tuple[int, str], list[float]] = {}
    wanted = (
        select(Run.config_id, Run.suite_key, DECODE.value)
        .join(newest, newest.c.id == col(Run.id))
        .join(DECODE, (col(DECODE.run_id) == Run.id) & (col(DECODE.point_key) == Run.main_point_key))
        .where(
            newest.c.age <= per_config,
            DECODE.metric == HEADLINE_METRICS[2],
            col(DECODE.is_shown),
            col(DECODE.value).is_not(None),
        )
        .order_by(newest.c.age.desc())
    )
    for config_id, suite_key, value in session.execute(wanted):
        found.setdefault((config_id, suite_key), []).append(value)
    return found


_COLUMNS: dict[str, Any] = {
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
    "config_id": Run.config_id,
    "engine": func.coalesce(Config.engine, Server.engine),
    "engine_version": Config.engine_version,
    "model": Model.name,
    "quantization": Model.quantization,
    "settings": Config.settings,
    "labels": Config.labels,
    "fingerprint": Config.fingerprint,
}
_SHOWN = dict(zip(("ttft", "prefill", "decode"), MEASURED, strict=True))


def _select_rows() -> Any:
    """Each column by the name of its field of Row; those of a measurement as `ttft_value`, `ttft_low`, ..."""
    plain = [column.label(name) for name, column in _COLUMNS.items()]
    shown = [
        getattr(table, field).label(f"{name}_{field}") for name, table in _SHOWN.items() for field in Shown._fields
    ]
    return _joined(select_columns(*plain, *shown), MEASURED)


def _joined(query: Any, measured: Sequence[Any]) -> Any:
    """Outer joins, though every run has its machine: databases leave out those that nothing is asked of."""
    query = (
        query.select_from(Run)
        .outerjoin(Machine, col(Machine.id) == Run.machine_id)
        .outerjoin(Server, col(Server.id) == Run.server_id)
        .outerjoin(Config, col(Config.id) == Run.config_id)
        .outerjoin(Model, col(Model.id) == Config.model_id)
    )
    for table, key in zip(MEASURED, HEADLINE_METRICS, strict=True):
        if table not in measured:
            continue
        query = query.outerjoin(
            table,
            (col(table.run_id) == Run.id)
            & (col(table.point_key) == Run.main_point_key)
            & (col(table.metric) == key)
            & col(table.is_shown).is_(True),
        )
    return query


def _to_rows(session: Session, rows: Sequence[Any]) -> list[Row]:
    """Of rows of `_select_rows`."""
    titles = short_config_labels(session, {row.server_slug for row in rows}) if rows else {}
    return [_to_row(row, titles.get(row.config_id, "")) for row in rows]


def _to_row(row: Any, particulars: str) -> Row:
    values: dict[str, Any] = {name: getattr(row, name) for name in _COLUMNS}
    for name in _SHOWN:
        values[name] = Shown(*(getattr(row, f"{name}_{field}") for field in Shown._fields))
    return Row(**values, particulars=particulars)
