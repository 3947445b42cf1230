"""Which runs: what a list, a history or a figure is narrowed down to."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, String, cast, func, or_, true
from sqlmodel import Session, col, select

from app.errors import BadInput
from app.i18n import _, enumerated
from app.kept import kept
from app.models import RUN_STATES, Config, Machine, Model, Run, Server
from app.store.json_columns import any_item_has, any_value_has, has_item, items

HIDDEN = ("only", "without")

COUNTS = col(Run.hidden_at).is_(None)
"""Runs that were not hidden: histories, latest results and comparisons take only these."""


@dataclass(frozen=True)
class Filter:
    """What to list; None means all. Slugs, keys and names as they stand in URLs."""

    status: str | None = None
    machine: str | None = None
    server: str | None = None
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

    def __post_init__(self) -> None:
        if self.status is not None and self.status not in RUN_STATES:
            raise BadInput(
                _(
                    "A run's state is one of {known}; {status!r} is not.",
                    known=", ".join(RUN_STATES),
                    status=self.status,
                )
            )
        if self.hidden is not None and self.hidden not in HIDDEN:
            raise BadInput(
                _(
                    "Hidden runs are listed {known}; {given!r} is neither.",
                    known=enumerated(HIDDEN, "or"),
                    given=self.hidden,
                )
            )

    @property
    def active(self) -> dict[str, str]:
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name))}


def filtered(query: Any, where: Filter) -> Any:
    """`query`, which joins machine, server, configuration and model to its runs, narrowed down."""
    exact: Mapping[str, Any] = {
        "status": Run.status,
        "machine": Machine.slug,
        "server": Server.slug,
        "model": Model.name,
        "suite": Run.suite_key,
    }
    for name, column in exact.items():
        if (value := getattr(where, name)) is not None:
            query = query.where(column == value)
    if where.config:
        query = query.where(col(Config.fingerprint).startswith(where.config, autoescape=True))
    if where.label:
        query = query.where(has_item(col(Run.labels), where.label) | has_item(col(Config.labels), where.label))
    if where.hidden:
        query = query.where(COUNTS if where.hidden == "without" else ~COUNTS)
    for word in (where.text or "").split():
        query = query.where(_mentions(word))
    return query


def _mentions(word: str) -> ColumnElement[bool]:
    texts: tuple[Any, ...] = (
        Run.public_id,
        Run.note,
        Run.hidden_reason,
        Config.note,
        func.coalesce(Config.engine, Server.engine),
        Config.engine_version,
        Model.name,
        Model.quantization,
        Machine.name,
        Server.name,
    )
    return or_(
        *(column.icontains(word, autoescape=True) for column in texts),
        any_item_has(col(Run.labels), word),
        any_item_has(col(Config.labels), word),
        any_value_has(col(Config.settings), word),
    )


@kept(1)
def filter_choices(session: Session) -> dict[str, list[tuple[str, str]]]:
    """For each filter, the values there are as (value, title)."""
    machines = session.exec(select(Machine.slug, Machine.name).order_by(Machine.name)).all()
    servers = session.exec(select(Server.slug, Server.name).order_by(Server.name)).all()
    models = session.exec(select(Model.name).distinct().order_by(Model.name)).all()
    suites = session.exec(select(Run.suite_key).distinct().order_by(Run.suite_key)).all()
    has_hidden = session.exec(select(Run.id).where(~COUNTS).limit(1)).first() is not None
    return {
        "machine": [(slug, name) for slug, name in machines],
        "server": [(slug, name) for slug, name in servers],
        "model": [(name, name) for name in models],
        "suite": [(key, key) for key in suites],
        "label": [(label, label) for label in known_labels(session)],
        "status": [(state, state) for state in RUN_STATES],
        "hidden": [("without", "not hidden"), ("only", "only hidden")] if has_hidden else [],
    }


def known_labels(session: Session) -> list[str]:
    """Of runs and of configurations, each once, in order."""
    found: set[str] = set()
    for table in (Run, Config):
        label = items(col(table.labels))
        with_labels = cast(col(table.labels), String) != "[]"  # most have none, and need no look inside
        found.update(
            session.execute(
                select(label.c.value).join_from(table, label, true()).where(with_labels).distinct()
            ).scalars()
        )
    return sorted(found, key=str.casefold)
