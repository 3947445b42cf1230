"""The columns that a list of runs may show, and all of them as CSV."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlmodel import Session, col

from app.core.config_settings import ordered_setting_keys, setting_title
from app.core.csv_export import Cell, csv_rows
from app.core.errors import BadInput
from app.core.i18n import N_, _, joined
from app.core.units import with_unit
from app.db.configs import describe
from app.db.tables import Run
from app.metrics import HEADLINE_METRICS, metrics
from app.results.fields.configuration import SETTING_PREFIX
from app.results.run_filter import RunFilter, conditions
from app.results.run_list import RunRow, rows_by_ids

CSV_ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class Column:
    """One column of a list of runs: a metric, or a text that is read from a row."""

    key: str
    title: str
    metric: str | None = None
    text: Callable[[RunRow], str | None] | None = None
    """None for a metric, and for the columns that a page draws in its own way."""
    unit: str = ""
    """The unit of a metric, which stands in the title."""
    sort: str | None = None
    """What the list is sorted by when its title is clicked; None: not sortable."""

    @property
    def is_number(self) -> bool:
        return self.metric is not None

    @property
    def first_order(self) -> str:
        """The order of the first click on its title: what is best, newest, or first in the alphabet comes first."""
        if self.metric is not None:
            return "asc" if metrics()[self.metric].better == "lower" else "desc"
        return "desc" if self.key == "when" else "asc"


DEFAULT_COLUMNS = ("status", "server", "suite", *HEADLINE_METRICS, "when", "note")

_OWN = (
    Column("status", N_("State"), sort="status"),
    Column("server", N_("Server"), sort="server"),
    Column("machine", N_("Machine"), text=lambda row: row.machine, sort="machine"),
    Column("suite", N_("Suite"), sort="suite"),
    Column("engine_version", N_("Engine version"), text=lambda row: row.engine_version),
    Column("run", N_("Run"), text=lambda row: row.public_id),
    Column("when", N_("When"), sort="queued"),
    Column("note", N_("Note")),
)
"""Columns besides metrics and settings, in the order in which they stand in a list."""
_LAST = ("when", "note")


def columns(session: Session) -> dict[str, Column]:
    """Returns all columns that may be chosen, by key and in their order: the runs' own, every metric, and every setting
    that some configuration states."""
    used = {key for config in describe(session).values() for key in config.snapshot.settings}
    own = [Column(column.key, _(column.title), text=column.text, sort=column.sort) for column in _OWN]
    all_columns = [
        *(column for column in own if column.key not in _LAST),
        *(_setting_column(key) for key in ordered_setting_keys(used)),
        *(
            Column(
                metric.key,
                with_unit(metric.title, metric.unit),
                metric=metric.key,
                unit=metric.unit,
                sort=metric.alias or metric.key,
            )
            for metric in metrics().values()
        ),
        *(column for column in own if column.key in _LAST),
    ]
    return {column.key: column for column in all_columns}


def _setting_column(key: str) -> Column:
    def text(row: RunRow) -> str | None:
        value = (row.settings or {}).get(key)
        return None if value is None else str(value)

    return Column(f"{SETTING_PREFIX}{key}", setting_title(key), text=text)


def chosen_columns(keys: Sequence[str], offered: Mapping[str, Column]) -> list[Column]:
    """Returns the chosen columns in the order in which they are offered; the default ones without a choice. Raises
    BadInput for a key that is not offered."""
    chosen = keys or DEFAULT_COLUMNS
    if unknown := [key for key in chosen if key not in offered]:
        raise BadInput(_("A list of runs has no column {key!r}.", key=unknown[0][:60]))
    return [column for key, column in offered.items() if key in chosen]


# --- CSV -------------------------------------------------------------------------------------------------------------

_CSV_FIELDS: Mapping[str, Callable[[RunRow], Cell]] = {
    "run": lambda row: row.public_id,
    "status": lambda row: row.status,
    "started_at": lambda row: row.started_at.isoformat() if row.started_at else None,
    "machine": lambda row: row.machine,
    "server": lambda row: row.server,
    "model": lambda row: row.model,
    "quantization": lambda row: row.quantization,
    "engine": lambda row: row.engine,
    "engine_version": lambda row: row.engine_version,
    "suite": lambda row: row.suite_key,
    "point": lambda row: row.main_point_key,
    "configuration": lambda row: row.fingerprint,
    "labels": lambda row: joined(*row.run_labels, *(row.labels or ()), by=", ") or None,
    "note": lambda row: row.note or None,
    "hidden": lambda row: row.hidden_reason or None,
    "error": lambda row: row.error,
}


def csv_blocks(session: Session, where: RunFilter) -> Iterator[str]:
    """Yields all runs that match as CSV, block by block, the newest first: what identifies them, every metric at the
    main workload from the source that is shown, and every setting in use. Names of columns are keys, in English."""
    used = {key for config in describe(session).values() for key in config.snapshot.settings}
    settings, metric_keys = ordered_setting_keys(used), list(metrics())
    yield csv_rows([[*_CSV_FIELDS, *metric_keys, *(f"{SETTING_PREFIX}{key}" for key in settings)]])
    newest_first = select(col(Run.id)).where(*conditions(where)).order_by(col(Run.queued_at).desc(), col(Run.id).desc())
    run_ids = list(session.execute(newest_first).scalars())
    for start in range(0, len(run_ids), CSV_ROWS_AT_ONCE):
        rows = rows_by_ids(session, run_ids[start : start + CSV_ROWS_AT_ONCE], metric_keys)
        yield csv_rows(_csv_row(row, metric_keys, settings) for row in rows)


def _csv_row(row: RunRow, metric_keys: Sequence[str], settings: Sequence[str]) -> list[Cell]:
    stated = row.settings or {}
    return [
        *(read(row) for read in _CSV_FIELDS.values()),
        *(row.metrics[key].value for key in metric_keys),
        *(None if (value := stated.get(key)) is None else str(value) for key in settings),
    ]
