"""Runs that stand off from the other runs of their configuration, with what can be done about each."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlmodel import Session

from app.db.runs import runs_by_id
from app.db.tables import Config, Run, Server
from app.results.wrong_runs import WrongRun, wrong_runs
from app.web.rerun import rerun_fields


@dataclass(frozen=True)
class WrongMark:
    """A run that stands off, and the fields of the form that measures the same again."""

    wrong: WrongRun
    again: Mapping[str, str] | None
    """None while nothing can be measured on its server."""


def wrong_mark(wrong: WrongRun, run: Run, server: Server, config: Config | None) -> WrongMark:
    """Returns one run that stands off, for its page."""
    return WrongMark(wrong, None if server.archived_at else rerun_fields(run, server, config))


def wrong_marks(session: Session, public_ids: Collection[str]) -> dict[str, WrongMark]:
    """Returns those of a list's runs that stand off, by public id; most lists have none, and cost two queries."""
    wrong = wrong_runs(session, public_ids)
    runs = runs_by_id(session, wrong.keys()) if wrong else {}
    return {
        public_id: wrong_mark(of_run, runs[public_id], runs[public_id].server, runs[public_id].config)
        for public_id, of_run in wrong.items()
    }
