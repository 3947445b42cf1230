"""Declares the commands for stored runs: list, show, share, annotate, delete, compare."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.groups import Json
from app.cli.help_texts import ListingCommand

commands = typer.Typer()


@commands.command(cls=ListingCommand)
def runs(
    machine: Annotated[str | None, typer.Option(help="Only runs on this machine (slug).")] = None,
    server: Annotated[str | None, typer.Option(help="Only runs of this server (slug).")] = None,
    model: Annotated[str | None, typer.Option(help="Only runs of this model.")] = None,
    suite: Annotated[str | None, typer.Option(help="Only runs of this suite: {suites}, or your own.")] = None,
    status: Annotated[str | None, typer.Option(help="Only runs in this state: {states}.")] = None,
    engine: Annotated[str | None, typer.Option(help="Only runs of this engine: {engines}.")] = None,
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
    sort: Annotated[str, typer.Option(help="Sort by {sorts}.")] = "queued",
    ascending: Annotated[bool, typer.Option("--ascending", help="Smallest or oldest first.")] = False,
    page: Annotated[int, typer.Option(min=1, help="Page of the list.")] = 1,
    per_page: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Runs per page.")] = 20,
    as_json: Json = False,
) -> None:
    """List runs with TTFT, prefill and decode."""
    from app.cli.show import print_runs
    from app.results.run_filter import RunFilter

    parameters = {
        **{"status": status, "machine": machine, "server": server, "model": model, "suite": suite, "config": config},
        **{"engine": engine, "text": text, "label": label, "hidden": hidden, "since": since, "until": until},
    }
    print_runs(RunFilter.parse(parameters), sort, not ascending, page, per_page, as_json)


@commands.command()
def show(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="ID of a run, or: latest, previous, baseline.")],
    as_json: Json = False,
) -> None:
    """Show a run."""
    from app.cli.show import print_run

    print_run(run_id, as_json)


@commands.command(cls=ListingCommand)
def share(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="ID of a run; several are compared. Or the URL, in quotes, of a page with a Share button.",
        ),
    ],
    title: Annotated[str, typer.Option("--title", help="Title of the shared page.")] = "",
    include: Annotated[
        list[str] | None,
        typer.Option("--include", help="Also make this public (repeatable): {share options}."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one HTML file instead of a link.")
    ] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a forum instead of a link.")
    ] = False,
) -> None:
    """Share a snapshot of a result: as a link, an HTML file or Markdown."""
    from app.cli.share import share_results

    share_results(targets, title, include or [], html, as_markdown)


@commands.command()
def label(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="ID of a run.")],
    action: Annotated[Literal["add", "remove"], typer.Argument(metavar="add|remove", help="Add or remove.")],
    labels: Annotated[list[str], typer.Argument(metavar="LABEL...", help="One or more labels.")],
) -> None:
    """Add labels to a run, or remove them."""
    from app.cli.annotate import change_labels

    change_labels(run_id, action, labels)


@commands.command()
def hide(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="ID of a run.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, in a sentence.", prompt=True)],
) -> None:
    """Exclude a run from histories and statistics, with a reason."""
    from app.cli.annotate import hide_run

    hide_run(run_id, reason)


@commands.command()
def unhide(run_id: Annotated[str, typer.Argument(metavar="RUN", help="ID of a hidden run.")]) -> None:
    """Include a hidden run in histories and statistics again."""
    from app.cli.annotate import unhide_run

    unhide_run(run_id)


@commands.command()
def delete(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="ID of a run.")],
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
) -> None:
    """Delete a run, after showing what is deleted with it."""
    from app.cli.annotate import delete_run

    delete_run(run_id, is_confirmed=yes)


@commands.command(cls=ListingCommand)
def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="2 to 8 run IDs, the first is the base. Or: latest, previous, baseline, or config:RUN for all runs of "
            "that run's configuration.",
        ),
    ],
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", help="Exit with 1 on this verdict (repeatable): {verdicts}."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Metric to compare (repeatable) instead of TTFT, prefill and decode: {metrics}."),
    ] = None,
    same_within: Annotated[
        str | None,
        typer.Option("--same-within", metavar="SHARE", help="Call a change within this share the same, such as 1%."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare runs: what differs, ratios with 95 % intervals, and verdicts."""
    from app.cli.compare import print_comparison

    print_comparison(names, fail_on or [], metric or [], same_within, as_json)
