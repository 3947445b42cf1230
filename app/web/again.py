"""Running the same again: what the form asks for, and what would settle a comparison."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlmodel import Session

from app.db.runs import MAX_QUEUED_AT_ONCE, newest_configs, runs_by_id
from app.db.tables import Config, Run, Server
from app.results.compare import Comparison
from app.results.compare.words import runs_to_settle
from app.stats.verdict import Verdict


class Again(NamedTuple):
    """One side of a comparison that is to be measured again."""

    letter: str
    fields: Mapping[str, str]
    """Of the form."""
    runs: int
    is_current: bool
    """The server still had this configuration when it was measured last: otherwise it measures something else."""


def again_fields(run: Run, server: Server, config: Config | None) -> dict[str, str]:
    """What the form needs to ask for the same run: only what is there."""
    plan = {key: run.plan.get(key) for key in ("repetitions", "warmups", "model")}
    offered = [model.get("id") for model in server.facts.get("models", ())]
    if plan["model"] is None and config is not None and len(offered) > 1:
        # of several models, another one may have come first since
        measured = config.settings.get("model_id")
        plan["model"] = measured if measured in offered else None
    asked = {"server": server.slug, "suite": run.suite_key, **plan}
    return {key: str(value) for key, value in asked.items() if value is not None}


def settling_runs(session: Session, found: Comparison) -> dict[int, list[Again]]:
    """By the place of a subject whose verdict is inconclusive: which runs would settle it, of it and of the base.

    Of two of one configuration there is one; a disturbed side is to be measured once. Archived servers are left out.
    """
    counts = {pair.place: _counts(found, pair.place) for pair in found.pairs if pair.verdict is Verdict.INCONCLUSIVE}
    if not any(counts.values()):
        return {}
    runs_of_subjects = runs_by_id(session, {subject.public_id for subject in found.subjects})
    newest = newest_configs(session, {run.server_id for run in runs_of_subjects.values()})
    settling: dict[int, list[Again]] = {}
    for place, of_sides in counts.items():
        seen = set()
        for side, runs in of_sides.items():
            run = runs_of_subjects[found.subjects[side].public_id]
            server, model = run.server, run.model
            what = (server.id, run.config_id, run.suite_sha256)
            if server.archived_at is None and what not in seen:
                seen.add(what)
                chosen = model.id if model and run.plan.get("model") else None  # a server of several loads it anew
                is_current = newest.get((run.server_id, chosen)) == run.config_id
                fields = again_fields(run, server, run.config)
                again = Again(found.subjects[side].letter, fields, min(runs, MAX_QUEUED_AT_ONCE), is_current)
                settling.setdefault(place, []).append(again)
    return settling


def _counts(found: Comparison, place: int) -> dict[int, int]:
    """How many runs of which side, by its place."""
    sides = (0, place)
    if any(found.subjects[side].unsound for side in sides):
        return {side: 1 for side in sides if found.subjects[side].unsound}
    runs = runs_to_settle(found.main_ratios(place))
    return dict.fromkeys(sides, runs) if runs else {}
