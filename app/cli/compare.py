"""`roofmark compare` and `roofmark baseline`."""

from typing import Annotated

import typer

from app import engines
from app.cli.output import Json, print_json, say
from app.cli.runs import RunName, open_runs
from app.cli.verdicts import comparison_text
from app.core.errors import BadInput
from app.core.units import read_share
from app.db import baselines
from app.metrics import metrics
from app.results.compare import compare, to_json
from app.results.compare.observations import resolve_run_id
from app.stats.verdict import Verdict

EXIT_NOT_COMPARABLE = 2
"""Exit code of --fail-on where runs cannot be compared: that is no success."""


commands = typer.Typer()
baseline_group = typer.Typer(
    name="baseline", help="Manage the runs that later runs are compared with.", no_args_is_help=True
)
commands.add_typer(baseline_group)


@commands.command("compare")
def print_comparison(
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
        typer.Option("--fail-on", help=f"Exit with 1 on this verdict (repeatable): {', '.join(Verdict)}."),
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="Metric to compare (repeatable) instead of TTFT, prefill and decode: " + ", ".join(metrics()) + ".",
        ),
    ] = None,
    same_within: Annotated[
        str | None,
        typer.Option("--same-within", metavar="SHARE", help="Call a change within this share the same, such as 1%."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare runs: what differs, ratios with 95 % intervals, and verdicts."""
    fail_on = fail_on or []
    unknown = next((verdict for verdict in fail_on if verdict not in set(Verdict)), None)
    if unknown is not None:
        raise BadInput(f"--fail-on takes {', '.join(Verdict)}, not {unknown!r}.")
    limit = _share(same_within) if same_within is not None else None
    database = open_runs()
    with database.read() as session:
        comparison = compare(session, names, engines.titles(), tuple(dict.fromkeys(keys or [])), limit=limit)
    if as_json:
        print_json(to_json(comparison))
    else:
        say(comparison_text(comparison))
    verdicts = {pair.verdict for pair in comparison.pairs}
    if Verdict.MIXED in verdicts:  # it counts as better and as worse
        verdicts |= {Verdict.BETTER, Verdict.WORSE}
    if not verdicts.isdisjoint(fail_on):
        raise typer.Exit(1)
    if fail_on and any(pair.reason_not_comparable for pair in comparison.pairs):
        raise typer.Exit(EXIT_NOT_COMPARABLE)


def _share(text: str) -> float:
    try:
        share = read_share(text)
    except ValueError as error:
        raise BadInput(f"--same-within takes a share such as 1% or 0.01, not {text!r}.") from error
    if not 0 < share < 1:
        raise BadInput(f"--same-within must be between 0 and 100 %, not {text!r}.")
    return share


@baseline_group.command("set")
def set_baseline(name: RunName) -> None:
    """Compare later runs of the same machine, model and suite with this run."""
    with open_runs().write() as session:
        public_id = resolve_run_id(session, name)
        row = baselines.pin(session, public_id)
        say(f"Later runs of {row.model_name} with the suite {row.suite_key} are compared with {public_id}.")


@baseline_group.command("list")
def list_baselines() -> None:
    """List the baselines."""
    with open_runs().read() as session:
        listed_baselines = baselines.list_baselines(session)
    if not listed_baselines:
        say("No baseline yet: set one with `roofmark baseline set RUN`.", err=True)
    for row in listed_baselines:
        hidden = " · hidden, so nothing is compared with it" if row.hidden_at else ""
        say(f"{row.public_id}  {row.machine} · {row.model} · {row.suite_key}{hidden}")


@baseline_group.command("clear")
def clear_baseline(name: RunName) -> None:
    """Stop comparing later runs with this run."""
    with open_runs().write() as session:
        public_id = resolve_run_id(session, name)
        baselines.unpin(session, public_id)
    say(f"Run {public_id} is no longer a baseline.")
