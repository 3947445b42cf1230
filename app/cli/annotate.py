"""`roofmark label`, `hide`, `unhide` and `delete`."""

import sys
from typing import Literal

import typer

from app.cli.common import open_runs, say
from app.core.errors import BadInput, Cancelled
from app.core.units import plural
from app.db import annotations, removal, runs


def change_labels(public_id: str, action: Literal["add", "remove"], labels: list[str]) -> None:
    """Adds labels to a run or removes them, and prints the labels it has afterwards."""
    changed = annotations.clean_labels(labels)
    with open_runs().write() as session:
        before = runs.run(session, public_id).labels
        after = [*before, *changed] if action == "add" else [label for label in before if label not in changed]
        stored = annotations.set_labels(session, public_id, after).labels
    say(", ".join(stored) or "The run has no labels.")


def hide_run(public_id: str, reason: str) -> None:
    """Excludes a run from histories and statistics. Raises NotFound, BadInput."""
    with open_runs().write() as session:
        annotations.hide(session, public_id, reason)
    say(f"Run {public_id} is hidden. `roofmark unhide {public_id}` undoes this.")


def unhide_run(public_id: str) -> None:
    """Includes a hidden run in histories and statistics again. Raises NotFound."""
    with open_runs().write() as session:
        annotations.unhide(session, public_id)
    say(f"Run {public_id} is no longer hidden.")


def delete_run(public_id: str, is_confirmed: bool) -> None:
    """Deletes a run; asks first unless `is_confirmed`. Raises Cancelled when the answer is no."""
    database = open_runs()
    with database.read() as session:
        deletion = removal.run_deletion_summary(session, public_id)
    if not is_confirmed:
        _confirm(public_id, deletion)
    with database.write() as session:
        removal.delete_run(session, public_id)
    say(f"Run {public_id} was deleted.")


def _confirm(public_id: str, deletion: removal.DeletionSummary) -> None:
    """Raises Cancelled for any answer but yes, and BadInput without a terminal to ask in."""
    if not sys.stdin.isatty():
        raise BadInput("There is no terminal to ask in: confirm with --yes.")
    parts = [plural(deletion.samples, "sample"), plural(deletion.measurements, "measurement")]
    parts += ["its configuration, which no other run uses"] if deletion.configs else []
    parts += [f"the baseline of {baseline}" for baseline in deletion.baselines]
    say(f"Deleting run {public_id} also deletes: {', '.join(parts)}. Shared pages stay.", err=True)
    if not typer.confirm("Delete it?", err=True):
        raise Cancelled("The run was not deleted.")
