"""Labels, hiding and deleting from the command line."""

import sys
from typing import Literal

import typer

from app.cli.common import open_runs, say
from app.core.errors import BadInput, Cancelled
from app.core.units import plural
from app.db import annotations, removal, runs


def label(public_id: str, act: Literal["add", "remove"], labels: list[str]) -> None:
    named = annotations.clean_labels(labels)
    with open_runs().write() as session:
        before = runs.run(session, public_id).labels
        wanted = [*before, *named] if act == "add" else [each for each in before if each not in named]
        kept = annotations.set_labels(session, public_id, wanted).labels
    say(", ".join(kept) or "No labels.")


def hide(public_id: str, reason: str) -> None:
    with open_runs().write() as session:
        annotations.hide(session, public_id, reason)
    say(f"Run {public_id} is hidden: `roofmark unhide {public_id}` takes it back.")


def unhide(public_id: str) -> None:
    with open_runs().write() as session:
        annotations.unhide(session, public_id)
    say(f"Run {public_id} counts again.")


def delete(public_id: str, is_sure: bool) -> None:
    database = open_runs()
    with database.read() as session:
        goes = removal.goes_with_run(session, public_id)
    if not is_sure:
        _ask(public_id, goes)
    with database.write() as session:
        removal.delete_run(session, public_id)
    say(f"Run {public_id} is deleted.")


def _ask(public_id: str, goes: removal.Goes) -> None:
    """Raises Cancelled for any other answer than yes."""
    if not sys.stdin.isatty():
        raise BadInput("Nobody can be asked here: say --yes to delete the run.")
    said = [plural(goes.samples, "sample"), plural(goes.measurements, "measurement")]
    said += ["its configuration, which no other run has"] if goes.configs else []
    said += [f"the baseline of {baseline}" for baseline in goes.baselines]
    say(f"With run {public_id} go {', '.join(said)}. Shared pages stay.", err=True)
    if not typer.confirm("Delete it?", err=True):
        raise Cancelled("The run was kept.")
