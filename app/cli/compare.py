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

INCOMPARABLE = 2
"""With --fail-on, a question that cannot be answered is no success."""


def compare_them(
    names: Sequence[str], fail_on: Sequence[str], keys: Sequence[str], same_within: str | None, as_json: bool
) -> None:
    """Exits with 1 when one of the verdicts is among `fail_on`; a mixed one is both better and worse."""
    wrong = next((word for word in fail_on if word not in set(Verdict)), None)
    if wrong is not None:
        raise BadInput(f"--fail-on takes {', '.join(Verdict)}; {wrong!r} is none of them.")
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
        raise typer.Exit(INCOMPARABLE)


def _share(text: str) -> float:
    try:
        share = read_share(text)
    except ValueError as error:
        raise BadInput(f"--same-within is a share such as 1% or 0.01; {text!r} is none.") from error
    if not 0 < share < 1:
        raise BadInput(f"--same-within lies between 0 and 100 %; {text!r} does not.")
    return share


def set_baseline(public_id: str) -> None:
    with open_runs().write() as session:
        pinned = baselines.pin(session, public_id)
        say(f"Later runs of {pinned.model_name} with the suite {pinned.suite_key} are compared with {public_id}.")


def clear_baseline(public_id: str) -> None:
    with open_runs().write() as session:
        baselines.unpin(session, public_id)
    say(f"Run {public_id} is no baseline any more.")


def list_baselines() -> None:
    with open_runs().read() as session:
        found = baselines.list_baselines(session)
    if not found:
        say("No baseline yet: pin a run with `roofmark baseline set RUN`.", err=True)
    for each in found:
        hidden = " · hidden, so nothing is compared with it" if each.hidden_at else ""
        say(f"{each.public_id}  {each.machine} · {each.model} · {each.suite_key}{hidden}")
