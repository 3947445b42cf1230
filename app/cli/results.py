"""Commands for what is kept, declared as the others are."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.groups import Json

commands = typer.Typer()


@commands.command()
def runs(
    machine: Annotated[str | None, typer.Option(help="Only this machine, by its slug.")] = None,
    server: Annotated[str | None, typer.Option(help="Only this server, by its slug.")] = None,
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    suite: Annotated[str | None, typer.Option(help="Only this suite.")] = None,
    status: Annotated[str | None, typer.Option(help="Only runs in this state.")] = None,
    engine: Annotated[str | None, typer.Option(help="Only this engine, such as vllm.")] = None,
    config: Annotated[str | None, typer.Option(help="Only this configuration, by its fingerprint.")] = None,
    label: Annotated[str | None, typer.Option(help="Only runs with this label.")] = None,
    since: Annotated[str | None, typer.Option(metavar="DAY", help="Started on this day or later, UTC.")] = None,
    until: Annotated[str | None, typer.Option(metavar="DAY", help="Started on this day or earlier, UTC.")] = None,
    hidden: Annotated[str | None, typer.Option(help="only hidden runs, or without them.")] = None,
    text: Annotated[
        str | None, typer.Option("--text", "--search", help="Words of notes, labels, settings, ...")
    ] = None,
    sort: Annotated[str, typer.Option(help="queued, started, model, ttft, prefill, decode, ...")] = "queued",
    ascending: Annotated[bool, typer.Option("--ascending", help="Smallest or oldest first.")] = False,
    page: Annotated[int, typer.Option(min=1)] = 1,
    per_page: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Runs to a page.")] = 20,
    as_json: Json = False,
) -> None:
    """List runs with their triple."""
    from app.cli.show import list_them
    from app.results.run_filter import RunFilter

    asked = {
        **{"status": status, "machine": machine, "server": server, "model": model, "suite": suite, "config": config},
        **{"engine": engine, "text": text, "label": label, "hidden": hidden, "since": since, "until": until},
    }
    list_them(RunFilter.parse(asked), sort, not ascending, page, per_page, as_json)


@commands.command()
def show(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run; or latest, previous, baseline.")],
    as_json: Json = False,
) -> None:
    """Show one run."""
    from app.cli.show import show as run_it

    run_it(run_id, as_json)


@commands.command()
def share(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Id of a run; several are compared. Or, in quotes, the address of a page with a button Share.",
        ),
    ],
    title: Annotated[str, typer.Option("--title", help="A title of your own.")] = "",
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include", help="Make this public too: note, labels, prompt, machine or flags; may be repeated."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write one HTML file instead of making a link.")] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a post for a forum instead of making a link.")
    ] = False,
) -> None:
    """Make a snapshot of a result public: print its link, or write it to a file without one."""
    from app.cli.share import share as run_it

    run_it(what, title, include or [], html, as_markdown)


@commands.command()
def label(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run.")],
    act: Annotated[Literal["add", "remove"], typer.Argument(help="What to do with the labels.")],
    labels: Annotated[list[str], typer.Argument(metavar="LABEL...", help="Words of your own.")],
) -> None:
    """Add labels to a run, or remove them."""
    from app.cli.annotate import label as run_it

    run_it(run_id, act, labels)


@commands.command()
def hide(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, in a sentence.", prompt=True)],
) -> None:
    """Leave a run out of histories and statistics, with a reason."""
    from app.cli.annotate import hide as run_it

    run_it(run_id, reason)


@commands.command()
def unhide(run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of a hidden run.")]) -> None:
    """Take a hidden run back into histories and statistics."""
    from app.cli.annotate import unhide as run_it

    run_it(run_id)


@commands.command()
def delete(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a run, after saying what goes with it."""
    from app.cli.annotate import delete as run_it

    run_it(run_id, is_sure=yes)


@commands.command()
def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="2 to 8 run ids, the first one as the base; or latest, previous, baseline; config:RUN takes all runs "
            "of that run's configuration together.",
        ),
    ],
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", help="Exit with 1 on this verdict: better, worse, mixed, same or inconclusive."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Metric to compare, such as decode_tokens_per_s; else the triple."),
    ] = None,
    same_within: Annotated[
        str | None,
        typer.Option(
            "--same-within", metavar="SHARE", help="A change within this share counts as the same, such as 1%."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare runs: what differs, ratios with 95 % intervals, and verdicts."""
    from app.cli.compare import compare_them

    compare_them(names, fail_on or [], metric or [], same_within, as_json)
