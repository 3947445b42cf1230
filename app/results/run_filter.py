"""Which runs: what a list, a history, a chart, a command or an export is narrowed down to.

Addresses, commands and the API say it with the same names, and every query takes the same conditions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, String, cast, or_, true
from sqlmodel import Session, col, select

from app.core.errors import BadInput
from app.core.i18n import _, enumerated
from app.db.json_columns import any_item_has, any_value_has, contains, has_item, items, lowered
from app.db.query_cache import cached_query
from app.db.tables import RUN_STATES, Config, Machine, Model, Run, Server

HIDDEN_CHOICES = ("only", "without")
MAX_VALUE_CHARS = 600
"""Characters of a value in an address."""

NOT_HIDDEN = col(Run.hidden_at).is_(None)
"""Runs that were not hidden: histories, latest results and comparisons take only these."""

ALIASES = {"from": "since", "to": "until", "search": "text"}
"""Names that addresses and commands of earlier versions have."""
DAYS = ("since", "until")
LOWER_CASE = ("status", "machine", "server", "suite", "config", "engine", "hidden")
"""What is lower case wherever it is stored."""


@dataclass(frozen=True)
class RunFilter:
    """None means all. Slugs, keys and names as they stand in URLs; none of them minds upper and lower case."""

    status: str | None = None
    machine: str | None = None
    """A slug."""
    server: str | None = None
    """A slug."""
    model: str | None = None
    suite: str | None = None
    config: str | None = None
    """A fingerprint, or the beginning of one."""
    text: str | None = None
    """Words: each stands somewhere in what a person wrote about the run or its configuration, or in what it is."""
    label: str | None = None
    """Of the run or of its configuration."""
    hidden: str | None = None
    """`only` hidden runs, or `without` them."""
    engine: str | None = None
    since: date | None = None
    """The first day on which runs started, in UTC."""
    until: date | None = None
    """The last one, included."""

    def __post_init__(self) -> None:
        for name in LOWER_CASE:
            if value := getattr(self, name):
                object.__setattr__(self, name, value.lower())
        if self.status is not None and self.status not in RUN_STATES:
            raise BadInput(
                _(
                    "A run's state is one of {known}; {status!r} is not.",
                    known=", ".join(RUN_STATES),
                    status=self.status,
                )
            )
        if self.hidden is not None and self.hidden not in HIDDEN_CHOICES:
            raise BadInput(
                _(
                    "Hidden runs are listed {known}; {given!r} is neither.",
                    known=enumerated(HIDDEN_CHOICES, "or"),
                    given=self.hidden,
                )
            )
        if self.since and self.until and self.since > self.until:
            raise BadInput(_("The first day is after the last one."))

    @classmethod
    def parse(cls, given: Mapping[str, str | None]) -> "RunFilter":
        """From the parameters of an address, of a command or of the API; blank ones mean all. Raises BadInput."""
        run_filter, problems = cls.parse_leniently(given)
        if problems:
            raise BadInput(problems[0])
        return run_filter

    @classmethod
    def parse_leniently(cls, given: Mapping[str, str | None]) -> tuple["RunFilter", list[str]]:
        """What makes sense, and one sentence for each parameter that does not."""
        values: dict[str, Any] = {}
        problems = []
        for name, text in _by_field(given).items():
            try:
                checked: dict[str, Any] = {name: _value(name, text)}
                values[name] = getattr(cls(**checked), name)
            except BadInput as error:
                problems.append(str(error))
        try:
            return cls(**values), problems
        except BadInput as error:  # days that are sound by themselves
            return cls(**{name: value for name, value in values.items() if name not in DAYS}), [*problems, str(error)]

    @property
    def values(self) -> dict[str, Any]:
        """What is asked for, by field."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name))}

    @property
    def active(self) -> dict[str, str]:
        """As parameters of an address; `parse` reads them."""
        return {name: str(value) for name, value in self.values.items()}


PARAMETERS = tuple(field.name for field in fields(RunFilter))


def _by_field(given: Mapping[str, str | None]) -> dict[str, str]:
    """What is not blank; of a field and an older name of it, both given, the field counts."""
    stripped = {name: stated for name, text in given.items() if (stated := (text or "").strip())}
    named = {field: stripped[alias] for alias, field in ALIASES.items() if alias in stripped} | stripped
    return {name: named[name] for name in PARAMETERS if name in named}


def _value(name: str, text: str) -> str | date:
    if len(text) > MAX_VALUE_CHARS or "\0" in text:
        raise BadInput(_("The value of {name} is none that can be looked for.", name=name))
    if name not in DAYS:
        return text
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise BadInput(_("A day is written like 2026-11-20; {text!r} is not.", text=text[:40])) from error


# --- as conditions on runs -------------------------------------------------------------------------------------------


def conditions(run_filter: RunFilter) -> list[ColumnElement[bool]]:
    """On the rows of `run` alone, whatever else a query joins: pass them to its `where`."""
    by_field = {
        "status": lambda status: col(Run.status) == status,
        "machine": lambda slug: col(Run.machine_id).in_(_ids(Machine, col(Machine.slug) == slug)),
        "server": lambda slug: col(Run.server_id).in_(_ids(Server, col(Server.slug) == slug)),
        "model": lambda name: _config_has(lowered(Model.name) == lowered(name)),
        "suite": lambda key: col(Run.suite_key) == key,
        "config": lambda start: _config_has(col(Config.fingerprint).startswith(start, autoescape=True)),
        "text": lambda words: [_mentions(word) for word in words.split()],
        "label": lambda label: has_item(col(Run.labels), label) | _config_has(has_item(col(Config.labels), label)),
        "hidden": lambda which: NOT_HIDDEN if which == "without" else ~NOT_HIDDEN,
        "engine": lambda key: _engine_is(lambda engine: engine == key),
        "since": lambda day: col(Run.started_at) >= datetime.combine(day, time(), UTC),
        "until": _until,
    }
    clauses: list[ColumnElement[bool]] = []
    for name, value in run_filter.values.items():
        clause = by_field[name](value)
        clauses += clause if isinstance(clause, list) else [clause]
    return clauses


def _until(day: date) -> Any:
    """The day after the last one that there can be does not exist."""
    if day == date.max:
        return col(Run.started_at).is_not(None)
    return col(Run.started_at) < datetime.combine(day + timedelta(days=1), time(), UTC)


def _ids(table: Any, *where: Any) -> Any:
    """Asked by itself: the query around it may join the same tables."""
    return select(table.id).where(*where).correlate(None)


def _config_has(*where: Any) -> ColumnElement[bool]:
    """Of the configuration and its model."""
    configs = select(col(Config.id)).join(Model, col(Model.id) == col(Config.model_id)).where(*where)
    return col(Run.config_id).in_(configs.correlate(None))


def _engine_is(matches: Any) -> ColumnElement[bool]:
    """Of the configuration; before a run has one, of its server."""
    by_server = col(Run.server_id).in_(_ids(Server, matches(col(Server.engine))))
    return _config_has(matches(col(Config.engine))) | (col(Run.config_id).is_(None) & by_server)


def _mentions(word: str) -> ColumnElement[bool]:
    def has(column: Any) -> ColumnElement[bool]:
        return contains(col(column), word)

    of_config = (Config.note, Config.engine_version, Model.name, Model.quantization)
    return or_(
        has(Run.public_id),
        has(Run.note),
        has(Run.hidden_reason),
        any_item_has(col(Run.labels), word),
        _config_has(
            or_(*map(has, of_config), any_item_has(col(Config.labels), word), any_value_has(col(Config.settings), word))
        ),
        _engine_is(has),
        col(Run.machine_id).in_(_ids(Machine, has(Machine.name))),
        col(Run.server_id).in_(_ids(Server, has(Server.name))),
    )


# --- what there is to choose from ------------------------------------------------------------------------------------


class _Named(NamedTuple):
    slug: str
    name: str


@cached_query(1)
def filter_choices(session: Session) -> dict[str, list[tuple[str, str]]]:
    """For each filter, the values there are as (value, title)."""
    machines = session.exec(select(Machine.slug, Machine.name).order_by(Machine.name)).all()
    servers = session.exec(select(Server.slug, Server.name).order_by(Server.name)).all()
    models = session.exec(select(Model.name).distinct().order_by(Model.name)).all()
    suites = session.exec(select(Run.suite_key).distinct().order_by(Run.suite_key)).all()
    engines = session.execute(select(Config.engine).union(select(Server.engine))).scalars().all()
    has_hidden = session.exec(select(Run.id).where(~NOT_HIDDEN).limit(1)).first() is not None
    return {
        "machine": _titled([_Named(*row) for row in machines]),
        "server": _titled([_Named(*row) for row in servers]),
        "model": [(name, name) for name in models],
        "suite": [(key, key) for key in suites],
        "engine": [(engine, engine) for engine in sorted(engines)],
        "label": [(label, label) for label in known_labels(session)],
        "status": [(state, state) for state in RUN_STATES],
        "hidden": [("without", "not hidden"), ("only", "only hidden")] if has_hidden else [],
    }


def _titled(rows: Sequence[_Named]) -> list[tuple[str, str]]:
    """By name, with the slug where another one has the same name."""
    names = [row.name for row in rows]
    return [(row.slug, row.name if names.count(row.name) == 1 else f"{row.name} ({row.slug})") for row in rows]


def known_labels(session: Session) -> list[str]:
    """Of runs and of configurations, each once, in order."""
    labels: set[str] = set()
    for table in (Run, Config):
        label = items(col(table.labels))
        with_labels = cast(col(table.labels), String) != "[]"  # most have none, and need no look inside
        labels.update(
            session.execute(
                select(label.c.value).join_from(table, label, true()).where(with_labels).distinct()
            ).scalars()
        )
    return sorted(labels, key=str.casefold)
