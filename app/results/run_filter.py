"""RunFilter: which runs a list, a history, a chart, a command, an export or a share is limited to.

Addresses, commands, the API and shares all use the same parameters. `RunFilter.parse` reads them, and every query uses
the same `conditions`.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, String, cast, literal, or_, true, union
from sqlmodel import Session, col, func, select

from app.core.errors import BadInput
from app.core.i18n import _, enumerated
from app.db.database import cached_query
from app.db.json_columns import has_item, items, lowered
from app.db.tables import RUN_STATES, Config, Machine, Model, Run, Server
from app.results.fields.field import SearchScope
from app.results.fields.registry import search_columns

HIDDEN_CHOICES = ("only", "without")
MAX_VALUE_CHARS = 600
"""The longest value in an address."""

NOT_HIDDEN = col(Run.hidden_at).is_(None)
"""A condition: histories, latest results and comparisons use only these runs."""

ALIASES = {"from": "since", "to": "until", "search": "text"}
"""Parameters of addresses and commands of earlier versions, and their names today."""
DAYS = ("since", "until")
LOWER_CASE = ("status", "machine", "server", "suite", "config", "engine", "hidden")
"""Parameters whose values are stored in lower case everywhere."""


@dataclass(frozen=True)
class RunFilter:
    """A filter of runs; None means all. Slugs, keys and names are written as in URLs; upper and lower case make no
    difference."""

    status: str | None = None
    machine: str | None = None
    """A machine's slug."""
    server: str | None = None
    """A server's slug."""
    model: str | None = None
    suite: str | None = None
    config: str | None = None
    """A fingerprint, or the beginning of one."""
    text: str | None = None
    """Words; each must be in what a person wrote about the run or its configuration, or in one of its fields."""
    label: str | None = None
    """A label of the run or of its configuration."""
    hidden: str | None = None
    """`only` hidden runs, or `without` them."""
    engine: str | None = None
    since: date | None = None
    """The first day on which runs started, in UTC."""
    until: date | None = None
    """The last day on which runs started, included."""

    def __post_init__(self) -> None:
        for name in LOWER_CASE:
            if value := getattr(self, name):
                object.__setattr__(self, name, value.lower())
        if self.status is not None and self.status not in RUN_STATES:
            raise BadInput(
                _(
                    "A run's state is one of {states}; {status!r} is not.",
                    states=", ".join(RUN_STATES),
                    status=self.status,
                )
            )
        if self.hidden is not None and self.hidden not in HIDDEN_CHOICES:
            raise BadInput(
                _(
                    "Hidden runs are listed {choices}; {hidden!r} is neither.",
                    choices=enumerated(HIDDEN_CHOICES, "or"),
                    hidden=self.hidden,
                )
            )
        if self.since and self.until and self.since > self.until:
            raise BadInput(_("The first day is after the last one."))

    @classmethod
    def parse(cls, parameters: Mapping[str, str | None]) -> "RunFilter":
        """Parses the parameters of an address, of a command or of the API; blank ones mean all. Raises BadInput."""
        run_filter, problems = cls.parse_leniently(parameters)
        if problems:
            raise BadInput(problems[0])
        return run_filter

    @classmethod
    def parse_leniently(cls, parameters: Mapping[str, str | None]) -> tuple["RunFilter", list[str]]:
        """Returns the filter of all parameters that make sense, and one sentence for each that does not."""
        values: dict[str, Any] = {}
        problems = []
        for name, text in _without_aliases(parameters).items():
            try:
                single: dict[str, Any] = {name: _parse_value(name, text)}
                values[name] = getattr(cls(**single), name)
            except BadInput as error:
                problems.append(str(error))
        try:
            return cls(**values), problems
        except BadInput as error:  # days that are valid by themselves
            return cls(**{name: value for name, value in values.items() if name not in DAYS}), [*problems, str(error)]

    @property
    def values(self) -> dict[str, Any]:
        """The values that are not None, by parameter."""
        return {name: value for name in PARAMETERS if (value := getattr(self, name))}

    @property
    def active(self) -> dict[str, str]:
        """The values as parameters of an address; `parse` reads them."""
        return {name: str(value) for name, value in self.values.items()}


PARAMETERS = tuple(attribute.name for attribute in fields(RunFilter))


def _without_aliases(parameters: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the values that are not blank; a parameter outranks its older name."""
    values = {name: stripped for name, text in parameters.items() if (stripped := (text or "").strip())}
    values = {name: values[alias] for alias, name in ALIASES.items() if alias in values} | values
    return {name: values[name] for name in PARAMETERS if name in values}


def _parse_value(name: str, text: str) -> str | date:
    if not is_searchable(text):
        raise BadInput(value_problem(name))
    if name not in DAYS:
        return text
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise BadInput(_("A day is written like 2026-11-20; {text!r} is not.", text=text[:40])) from error


def is_searchable(text: str) -> bool:
    """Returns whether a query can search for a value of an address."""
    return len(text) <= MAX_VALUE_CHARS and "\0" not in text


def value_problem(name: str) -> str:
    """Returns the sentence about a parameter whose value is not searchable."""
    return _("The value of {name} cannot be searched for.", name=name)


# --- as conditions on runs -------------------------------------------------------------------------------------------


def conditions(run_filter: RunFilter) -> list[ColumnElement[bool]]:
    """Returns conditions on the rows of `run` alone, whatever else a query joins: pass them to its `where`."""
    by_parameter: dict[str, Callable[[Any], ColumnElement[bool] | list[ColumnElement[bool]]]] = {
        "status": lambda status: col(Run.status) == status,
        "machine": lambda slug: col(Run.machine_id).in_(_ids(Machine, col(Machine.slug) == slug)),
        "server": lambda slug: col(Run.server_id).in_(_ids(Server, col(Server.slug) == slug)),
        "model": lambda name: _config_has(lowered(Model.name) == lowered(name)),
        "suite": lambda key: col(Run.suite_key) == key,
        "config": lambda start: _config_has(col(Config.fingerprint).startswith(start, autoescape=True)),
        "text": lambda words: [_mentions(word) for word in words.split()],
        "label": lambda label: has_item(col(Run.labels), label) | _config_has(has_item(col(Config.labels), label)),
        "hidden": lambda choice: NOT_HIDDEN if choice == "without" else ~NOT_HIDDEN,
        "engine": lambda key: _config_has(col(Config.engine) == key) | _has_no_config(col(Server.engine) == key),
        "since": lambda day: col(Run.started_at) >= datetime.combine(day, time(), UTC),
        "until": _until,
    }
    clauses: list[ColumnElement[bool]] = []
    for name, value in run_filter.values.items():
        clause = by_parameter[name](value)
        clauses += clause if isinstance(clause, list) else [clause]
    return clauses


def _until(day: date) -> ColumnElement[bool]:
    """Returns the end of the last day; the calendar's last day has no day after it."""
    if day == date.max:
        return col(Run.started_at).is_not(None)
    return col(Run.started_at) < datetime.combine(day + timedelta(days=1), time(), UTC)


def _ids(table: Any, *where: ColumnElement[bool]) -> Any:
    """Returns a subquery that is independent of the query around it, which may join the same tables."""
    return select(table.id).where(*where).correlate(None)


def _config_has(*where: ColumnElement[bool]) -> ColumnElement[bool]:
    """Returns the runs whose configuration or its model matches."""
    configs = select(col(Config.id)).join(Model, col(Model.id) == col(Config.model_id)).where(*where)
    return col(Run.config_id).in_(configs.correlate(None))


def _has_no_config(*where: ColumnElement[bool]) -> ColumnElement[bool]:
    """Returns the runs without a configuration yet whose server matches."""
    return col(Run.config_id).is_(None) & col(Run.server_id).in_(_ids(Server, *where))


def _mentions(word: str) -> ColumnElement[bool]:
    """Returns the runs with a field that contains the word: one subquery for each table."""
    by_scope: dict[SearchScope, list[ColumnElement[bool]]] = defaultdict(list)
    for searched in search_columns():
        by_scope[searched.scope].append(searched.matches(col(searched.column), word))
    return or_(*(_in_scope(scope, or_(*clauses)) for scope, clauses in by_scope.items()))


def _in_scope(scope: SearchScope, clause: ColumnElement[bool]) -> ColumnElement[bool]:
    match scope:
        case SearchScope.RUN:
            return clause
        case SearchScope.CONFIG:
            return _config_has(clause)
        case SearchScope.MACHINE:
            return col(Run.machine_id).in_(_ids(Machine, clause))
        case SearchScope.SERVER:
            return col(Run.server_id).in_(_ids(Server, clause))
        case SearchScope.SERVER_WITHOUT_CONFIG:
            return _has_no_config(clause)


# --- what there is to choose from ------------------------------------------------------------------------------------


class _Named(NamedTuple):
    slug: str
    name: str


@cached_query(maxsize=1)
def filter_choices(session: Session) -> dict[str, list[tuple[str, str]]]:
    """Returns the values with their titles for each parameter that has choices (an engine's value is its key)."""
    named: list[tuple[str, Any, Any]] = [
        ("machine", Machine.slug, Machine.name),
        ("server", Server.slug, Server.name),
        ("model", Model.name, Model.name),
        ("engine", Server.engine, Server.engine),
        ("engine", Config.engine, Config.engine),
    ]
    queries: list[Any] = [select(literal(kind), col(value), col(name).label("name")) for kind, value, name in named]
    rows: dict[str, list[_Named]] = defaultdict(list)
    for kind, *row in session.execute(union(*queries).order_by("name")):
        rows[kind].append(_Named(*row))
    of_suites = select(Run.suite_key, func.max(col(Run.hidden_at))).group_by(Run.suite_key).order_by(Run.suite_key)
    suites = session.exec(of_suites).all()
    has_hidden = any(hidden_at for _key, hidden_at in suites)
    return {
        "machine": _titled(rows["machine"]),
        "server": _titled(rows["server"]),
        "model": [*rows["model"]],
        "suite": [(key, key) for key, _hidden_at in suites],
        "engine": [*rows["engine"]],
        "label": [(label, label) for label in known_labels(session)],
        "status": [(state, state) for state in RUN_STATES],
        "hidden": [("without", "not hidden"), ("only", "only hidden")] if has_hidden else [],
    }


def _titled(rows: Sequence[_Named]) -> list[tuple[str, str]]:
    """Returns each slug with its name; a name that several share is followed by the slug."""
    names = [row.name for row in rows]
    return [(row.slug, row.name if names.count(row.name) == 1 else f"{row.name} ({row.slug})") for row in rows]


def known_labels(session: Session) -> list[str]:
    """Returns the distinct labels of runs and of configurations, in alphabetical order."""
    queries = []
    for table in (Run, Config):
        label = items(col(table.labels))
        with_labels = cast(col(table.labels), String) != "[]"  # most have none, and need no look inside
        queries.append(select(label.c.value).join_from(table, label, true()).where(with_labels))
    labels = session.execute(union(*queries)).scalars()
    return sorted(labels, key=lambda label: (label.casefold(), label))
