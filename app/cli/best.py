"""`roofmark best`: the leaderboard in a terminal."""

from typing import Annotated

import typer

from app import engines
from app.cli.output import Json, print_json, say
from app.cli.runs import open_runs
from app.cli.table import table
from app.core.units import format_age, format_number
from app.metrics import HEADLINE_METRICS, metrics
from app.results.compare.words import change_words
from app.results.leaderboard import (
    GROUPINGS,
    SORTS,
    LeaderboardView,
    Row,
    RowGroup,
    document,
    leaderboard,
    verdict_words,
)
from app.results.run_filter import RunFilter
from app.suites import BUILT_IN

commands = typer.Typer()


@commands.command("best")
def print_best(
    by: Annotated[
        str,
        typer.Option(
            help=f"What is best: {', '.join(metrics()[key].alias for key in HEADLINE_METRICS)}, or any metric."
        ),
    ] = "decode",
    machine: Annotated[str | None, typer.Option(help="Only runs on this machine (slug).")] = None,
    model: Annotated[str | None, typer.Option(help="Only runs of this model.")] = None,
    suite: Annotated[str | None, typer.Option(help=f"The suite: {', '.join(BUILT_IN)}, or your own.")] = None,
    engine: Annotated[
        str | None, typer.Option(help=f"Only runs of this engine: {', '.join(sorted(engines.titles()))}.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Only runs with this label.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DAY", help="Only runs started on this day (UTC) or later.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DAY", help="Only runs started on this day (UTC) or earlier.")
    ] = None,
    sort: Annotated[str, typer.Option(help=f"Sort by {', '.join(SORTS)}.")] = "best",
    group: Annotated[str, typer.Option(help=f"Group by {', '.join(GROUPINGS)}.")] = "",
    as_json: Json = False,
) -> None:
    """Show the best result of each model, quantization and machine."""
    where = RunFilter.parse(
        {
            "machine": machine,
            "model": model,
            "suite": suite,
            "engine": engine,
            "label": label,
            "since": since,
            "until": until,
        }
    )
    view = LeaderboardView.parse({"by": by, "sort": sort, "group": group}, where)
    with open_runs().read() as session:
        board = leaderboard(session, view)
    if as_json:
        print_json(document(board))
        return
    if not board.rows:
        say("No run matches these filters." if where.active else "No runs yet.", err=True)
        return
    for sentence in verdict_words(board):
        say(sentence)
    for rows in board.groups(engines.titles()):
        say(f"\n{_group_text(rows, view)}")


def _group_text(group: RowGroup, view: LeaderboardView) -> str:
    head = (
        "Model", "Machine", f"Best {view.metric.unit}".strip(), "Configuration", "Latest", "Against best",
        "Since the build before", "Runs", "Last measured", "Run",
    )  # fmt: skip
    lines = table(head, [_cells(row, view) for row in group.rows], numeric={2, 4, 7})
    return f"{group.title}\n{lines}" if view.group else lines


def _cells(row: Row, view: LeaderboardView) -> tuple[str, ...]:
    engine = engines.titles().get(row.engine, row.engine)
    elsewhere = f"runs at {row.remote_host}, not here" if row.remote_host else ""
    ratio = row.latest.against_best
    against = (
        "the best"
        if ratio is None
        else change_words(view.by, ratio.value)
        if row.latest.is_worse
        else "no clear change"
    )
    return (
        row.title,
        row.machine,
        format_number(row.best.value),
        " · ".join(filter(None, [engine, row.engine_version, elsewhere, row.particulars])),
        format_number(row.latest.value),
        against,
        _change(row, view),
        f"{row.runs:,}",
        format_age(row.latest.at),
        row.best.public_id,
    )


def _change(row: Row, view: LeaderboardView) -> str:
    change = row.change
    if change is None:
        return ""
    words = change_words(view.by, change.change.ratio) if change.is_certain else "no clear change"
    return f"{change.old_version} → {change.new_version}: {words}"
