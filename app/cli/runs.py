"""The commands for stored runs: `runs`, `show`, `label`, `hide`, `unhide` and `delete`."""

import sys
import time
from collections.abc import Mapping
from textwrap import shorten
from typing import Annotated, Literal

import typer

from app import engines
from app.cli.output import Json, print_json, say
from app.cli.startup import open_with_log
from app.cli.table import table
from app.cli.text import run_text
from app.core.config_settings import remote_host
from app.core.errors import BadInput, Cancelled, StorageError
from app.core.settings import Settings
from app.core.units import format_age, format_number, plural
from app.db import annotations, removal
from app.db import runs as stored_runs
from app.db.database import Database
from app.db.tables import RUN_STATES
from app.measure.runner import Runner
from app.metrics import HEADLINE_METRICS, metrics
from app.results.compare.observations import resolve_run_id
from app.results.run_filter import RunFilter
from app.results.run_list import SORTS, RunRow, list_runs
from app.results.wrong_runs import WrongRun, wrong_runs
from app.schemas.run_document import run_document, runs_document
from app.suites import BUILT_IN

LONGEST_WAIT_S = 10.0
"""A command that only reads spends at most this long on recomputing earlier runs."""
LONGEST_NOTE = 40
_NUMERIC = ("TTFT ms", "Prefill tok/s", "Decode tok/s")

commands = typer.Typer()

RunName = Annotated[str, typer.Argument(metavar="RUN", help="ID of a run, or: latest, previous, baseline.")]
"""A run as `resolve_run_id` reads it."""


def open_runs() -> Database:
    """Opens the database for a command about runs: ends runs whose worker died, and recomputes outdated numbers."""
    settings = Settings()
    database = open_with_log(settings)
    try:
        runner = Runner(database, settings)
        runner.dispatch()
        _bring_up_to_date(runner)
    except StorageError as error:  # a database that cannot be written can still be read
        say(f"roofmark: {error}", err=True)
    return database


def _bring_up_to_date(runner: Runner) -> None:
    """Recomputes outdated runs, the newest first, for `LONGEST_WAIT_S`; `roofmark serve` does the rest."""
    ends_at = time.monotonic() + LONGEST_WAIT_S
    while not runner.is_measuring() and runner.bring_up_to_date():
        if time.monotonic() > ends_at:
            say("Older runs still show numbers of an earlier version; `roofmark serve` recomputes them.", err=True)
            return


@commands.command("show")
def print_run(name: RunName, as_json: Json = False) -> None:
    """Show a run."""
    with open_runs().read() as session:
        document = run_document(session, resolve_run_id(session, name))
    if as_json:
        print_json(document)
    else:
        say(run_text(document))


# --- the list --------------------------------------------------------------------------------------------------------


@commands.command("runs")
def print_runs(
    machine: Annotated[str | None, typer.Option(help="Only runs on this machine (slug).")] = None,
    server: Annotated[str | None, typer.Option(help="Only runs of this server (slug).")] = None,
    model: Annotated[str | None, typer.Option(help="Only runs of this model.")] = None,
    suite: Annotated[
        str | None, typer.Option(help=f"Only runs of this suite: {', '.join(BUILT_IN)}, or your own.")
    ] = None,
    status: Annotated[str | None, typer.Option(help=f"Only runs in this state: {', '.join(RUN_STATES)}.")] = None,
    engine: Annotated[
        str | None, typer.Option(help=f"Only runs of this engine: {', '.join(sorted(engines.titles()))}.")
    ] = None,
    config: Annotated[str | None, typer.Option(help="Only runs of this configuration (fingerprint).")] = None,
    label: Annotated[str | None, typer.Option(help="Only runs with this label.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DAY", help="Only runs started on this day (UTC) or later.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DAY", help="Only runs started on this day (UTC) or earlier.")
    ] = None,
    hidden: Annotated[str | None, typer.Option(metavar="only|without", help="Only hidden runs, or all others.")] = None,
    text: Annotated[
        str | None, typer.Option("--text", "--search", help="Only runs that mention these words anywhere.")
    ] = None,
    sort: Annotated[str, typer.Option(help=f"Sort by {', '.join(SORTS)}.")] = "queued",
    ascending: Annotated[bool, typer.Option("--ascending", help="Smallest or oldest first.")] = False,
    page: Annotated[int, typer.Option(min=1, help="Page of the list.")] = 1,
    per_page: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Runs per page.")] = 20,
    as_json: Json = False,
) -> None:
    """List runs with TTFT, prefill and decode."""
    parameters = {
        **{"status": status, "machine": machine, "server": server, "model": model, "suite": suite, "config": config},
        **{"engine": engine, "text": text, "label": label, "hidden": hidden, "since": since, "until": until},
    }
    run_filter = RunFilter.parse(parameters)
    with open_runs().read() as session:
        keys = tuple(metrics()) if as_json else HEADLINE_METRICS
        rows, total = list_runs(session, run_filter, sort, not ascending, page, per_page, keys)
        wrong = wrong_runs(session, [row.public_id for row in rows])
    if as_json:
        print_json(runs_document(rows, total, page, per_page, wrong))
    elif not rows:
        say(_empty_list(total, run_filter), err=True)
    else:
        say(_table(rows, wrong))


def _empty_list(total: int, run_filter: RunFilter) -> str:
    if total:
        return "This page of the list is empty."
    if run_filter != RunFilter():
        return "No run matches these filters."
    return "No runs yet: measure a server with `roofmark run --url 127.0.0.1:8080`."


def _suite(row: RunRow) -> str:
    """Names the suite; if it has several points, also the one that the numbers are of."""
    points_measured, points_in_suite = row.points
    if points_in_suite == 1:
        return row.suite_key
    partial = f", {points_measured} of {points_in_suite} points" if points_measured < points_in_suite else ""
    return f"{row.suite_key} at {row.main_prompt_tokens:,}{partial}"


def _engine(row: RunRow) -> str | None:
    return engines.titles().get(row.engine, row.engine) if row.engine else None


def _elsewhere(row: RunRow) -> str:
    host = remote_host(row.settings)
    return f"runs at {host}, not here" if host else ""


def _remarks(row: RunRow, wrong: WrongRun | None) -> str:
    hidden = f"hidden: {row.hidden_reason}" if row.hidden_at else ""
    return " · ".join(filter(None, [hidden, wrong.brief if wrong else "", *row.run_labels, row.note]))


def _table(rows: list[RunRow], wrong: Mapping[str, WrongRun]) -> str:
    head = ("Run", "When", "State", "Model", "Configuration", "Server", "Suite", *_NUMERIC, "Note")
    body = [
        (
            row.public_id,
            format_age(row.started_at or row.queued_at),
            row.status,
            " ".join(filter(None, [row.model, row.quantization])),
            " · ".join(filter(None, [_engine(row), row.engine_version, _elsewhere(row), row.particulars])),
            row.server,
            _suite(row),
            *(format_number(row.metrics[key].value) for key in HEADLINE_METRICS),
            shorten(_remarks(row, wrong.get(row.public_id)), LONGEST_NOTE, placeholder=" …"),
        )
        for row in rows
    ]
    return table(head, body, numeric=[head.index(title) for title in _NUMERIC])


# --- changes ---------------------------------------------------------------------------------------------------------


@commands.command("label")
def change_labels(
    name: RunName,
    action: Annotated[Literal["add", "remove"], typer.Argument(metavar="add|remove", help="Add or remove.")],
    labels: Annotated[list[str], typer.Argument(metavar="LABEL...", help="One or more labels.")],
) -> None:
    """Add labels to a run, or remove them."""
    changed = annotations.clean_labels(labels)
    with open_runs().write() as session:
        run = stored_runs.run(session, resolve_run_id(session, name))
        remaining = [label for label in run.labels if label not in changed]
        after = [*run.labels, *changed] if action == "add" else remaining
        stored = annotations.set_labels(session, run.public_id, after).labels
    say(", ".join(stored) or "The run has no labels.")


@commands.command("hide")
def hide_run(
    name: RunName, reason: Annotated[str, typer.Option("--reason", help="Why, in a sentence.", prompt=True)]
) -> None:
    """Exclude a run from histories and statistics, with a reason."""
    with open_runs().write() as session:
        public_id = resolve_run_id(session, name)
        annotations.hide(session, public_id, reason)
    say(f"Run {public_id} is hidden. `roofmark unhide {public_id}` undoes this.")


@commands.command("unhide")
def unhide_run(public_id: Annotated[str, typer.Argument(metavar="RUN", help="ID of a hidden run.")]) -> None:
    """Include a hidden run in histories and statistics again."""
    with open_runs().write() as session:  # no word names a hidden run, so only an ID is read
        annotations.unhide(session, public_id)
    say(f"Run {public_id} is no longer hidden.")


@commands.command("delete")
def delete_run(
    name: RunName, yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False
) -> None:
    """Delete a run, after showing what is deleted with it."""
    database = open_runs()
    with database.read() as session:
        public_id = resolve_run_id(session, name)
        deletion = removal.run_deletion_summary(session, public_id)
    if not yes:
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
