"""`roofmark compare` and `roofmark baseline`."""

from collections.abc import Sequence

import typer

from app import engines
from app.cli.common import open_runs, print_json, say
from app.cli.verdicts import comparison_text
from app.core.errors import BadInput
from app.core.units import read_share
from app.db import baselines
from app.results.compare import compare, to_json
from app.stats.verdict import Verdict

EXIT_NOT_COMPARABLE = 2
"""Exit code of --fail-on where runs cannot be compared: that is no success."""


def print_comparison(
    names: Sequence[str], fail_on: Sequence[str], keys: Sequence[str], same_within: str | None, as_json: bool
) -> None:
    """Prints a comparison. Exits with 1 if a verdict is in `fail_on`; a mixed one counts as better and as worse."""
    unknown = next((verdict for verdict in fail_on if verdict not in set(Verdict)), None)
    if unknown is not None:
        raise BadInput(f"--fail-on takes {', '.join(Verdict)}, not {unknown!r}.")
    limit = _share(same_within) if same_within is not None else None
    database = open_runs()
    with database.read() as session:
        comparison = compare(session, names, engines.titles(), tuple(dict.fromkeys(keys)), limit=limit)
    if as_json:
        print_json(to_json(comparison))
    else:
        say(comparison_text(comparison))
    verdicts = {pair.verdict for pair in comparison.pairs}
    if Verdict.MIXED in verdicts:
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


def set_baseline(public_id: str) -> None:
    """Makes a run the baseline of its machine, model and suite. Raises NotFound, Conflict."""
    with open_runs().write() as session:
        pinned = baselines.pin(session, public_id)
        say(f"Later runs of {pinned.model_name} with the suite {pinned.suite_key} are compared with {public_id}.")


def clear_baseline(public_id: str) -> None:
    """Stops comparing later runs with this run. Raises NotFound."""
    with open_runs().write() as session:
        baselines.unpin(session, public_id)
    say(f"Run {public_id} is no longer a baseline.")


def list_baselines() -> None:
    """Prints the baselines."""
    with open_runs().read() as session:
        pinned = baselines.list_baselines(session)
    if not pinned:
        say("No baseline yet: set one with `roofmark baseline set RUN`.", err=True)
    for baseline in pinned:
        hidden = " · hidden, so nothing is compared with it" if baseline.hidden_at else ""
        say(f"{baseline.public_id}  {baseline.machine} · {baseline.model} · {baseline.suite_key}{hidden}")
