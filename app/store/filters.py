"""Which runs: what a list, a history or a figure is narrowed down to."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlmodel import Session, col, select

from app.errors import BadInput
from app.models import RUN_STATES, Config, Machine, Model, Run, Server


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
    """In the note, the model or the public id."""

    def __post_init__(self) -> None:
        if self.status is not None and self.status not in RUN_STATES:
            raise BadInput(f"A run's state is one of {', '.join(RUN_STATES)}; {self.status!r} is not.")

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
    if where.text:
        wanted = [
            col(column).icontains(where.text, autoescape=True) for column in (Run.note, Model.name, Run.public_id)
        ]
        query = query.where(wanted[0] | wanted[1] | wanted[2])
    return query


def filter_choices(session: Session) -> dict[str, list[tuple[str, str]]]:
    """For each filter, the values there are as (value, title)."""
    machines = session.exec(select(Machine.slug, Machine.name).order_by(Machine.name)).all()
    servers = session.exec(select(Server.slug, Server.name).order_by(Server.name)).all()
    models = session.exec(select(Model.name).distinct().order_by(Model.name)).all()
    suites = session.exec(select(Run.suite_key).distinct().order_by(Run.suite_key)).all()
    return {
        "machine": [(slug, name) for slug, name in machines],
        "server": [(slug, name) for slug, name in servers],
        "model": [(name, name) for name in models],
        "suite": [(key, key) for key in suites],
        "status": [(state, state) for state in RUN_STATES],
    }
