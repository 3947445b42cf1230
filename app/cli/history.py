"""`roofmark updates` and `roofmark note`: what happened in the history."""

from dataclasses import replace
from typing import Annotated

import typer

from app import engines
from app.cli.output import Json, print_json, say
from app.cli.runs import open_runs
from app.core.units import format_date
from app.db import dated_notes
from app.results.history.news import engine_updates
from app.results.history.updates import Update, update_words
from app.results.run_filter import RunFilter
from app.schemas.history import notes_document, updates_document
from app.suites import DEFAULT_SUITE

commands = typer.Typer()
note_group = typer.Typer(
    name="note", help="Manage notes in the history, such as a new power supply.", no_args_is_help=True
)
commands.add_typer(note_group)

NoteId = Annotated[int, typer.Argument(metavar="NOTE", help="Number of a note, as `roofmark note list` shows it.")]


@commands.command("updates")
def print_updates(
    machine: Annotated[str | None, typer.Option(help="Only updates on this machine (slug).")] = None,
    model: Annotated[str | None, typer.Option(help="Only by runs of this model.")] = None,
    engine: Annotated[str | None, typer.Option(help="Only updates of this engine.")] = None,
    suite: Annotated[str, typer.Option(help="By the runs of this suite.")] = DEFAULT_SUITE,
    since: Annotated[str | None, typer.Option(metavar="DAY", help="Only updates on this day (UTC) or later.")] = None,
    until: Annotated[str | None, typer.Option(metavar="DAY", help="Only updates on this day (UTC) or earlier.")] = None,
    as_json: Json = False,
) -> None:
    """List engine updates, and how they changed TTFT, prefill and decode."""
    parameters = {"machine": machine, "model": model, "engine": engine, "since": since, "until": until}
    where = replace(RunFilter.parse(parameters), suite=suite)
    with open_runs().read() as session:
        updates = engine_updates(session, where)
    if as_json:
        print_json(updates_document(updates))
        return
    if not updates:
        say("No engine update was measured before and after.", err=True)
    for update in reversed(updates):
        say(_line(update))


def _line(update: Update) -> str:
    verdict = "" if update.shifts else ": no certain change"
    clearest = update.clearest
    return (
        f"{format_date(update.at)}  {update.machine}  {update_words(update, engines.titles())}{verdict}  "
        f"(roofmark compare {clearest.before} {clearest.after})"
    )


@note_group.command("add")
def add_note(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What happened, such as: new PSU.")],
    at: Annotated[str, typer.Option(metavar="WHEN", help="Day or moment, in UTC, such as 2026-06-03.")],
    machine: Annotated[str | None, typer.Option(help="The machine (slug) it is about; all without it.")] = None,
) -> None:
    """Add a note to the history."""
    with open_runs().write() as session:
        note = dated_notes.add_note(session, text, dated_notes.parse_moment(at), machine)
        say(f"Note {note.id}: {note.text}, {format_date(note.at)}.")


@note_group.command("list")
def list_notes(as_json: Json = False) -> None:
    """List the notes of the history."""
    with open_runs().read() as session:
        notes = dated_notes.list_notes(session)
        document = notes_document(notes)
    if as_json:
        print_json(document)
        return
    if not notes:
        say('No note yet: add one with `roofmark note add --at DAY "new PSU"`.', err=True)
    for note in document["notes"]:
        say(f"{note['id']}  {note['at'][:10]}  {note['machine'] or 'all machines'}  {note['text']}")


@note_group.command("delete")
def delete_note(note_id: NoteId) -> None:
    """Delete a note."""
    with open_runs().write() as session:
        dated_notes.delete_note(session, note_id)
    say(f"Note {note_id} was deleted.")
