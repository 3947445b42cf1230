"""Repeating runs: the fields of the form, and the runs that would settle a comparison."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlmodel import Session

from app.db.runs import MAX_QUEUED_AT_ONCE, newest_configs, runs_by_id
from app.db.tables import Config, Run, Server
from app.results.compare import Comparison
from app.results.compare.result import runs_to_settle
from app.stats.verdict import Verdict


class Rerun(NamedTuple):
    """A side of a comparison to measure again."""

    name: str
    """What the comparison calls it."""
    fields: Mapping[str, str]
    """Fields of the form that queues the runs."""
    runs: int
    is_current: bool
    """Whether the server's newest run had this configuration; otherwise a run would measure another one."""


def rerun_fields(run: Run, server: Server, config: Config | None) -> dict[str, str]:
    """Form fields that queue the same run again; without those that have no value."""
    plan = {key: run.plan.get(key) for key in ("repetitions", "warmups", "model")}
    model_ids = [model.get("id") for model in server.facts.get("models", ())]
    if plan["model"] is None and config is not None and len(model_ids) > 1:
        # with several models, another one may be the first today
        model_id = config.settings.get("model_id")
        plan["model"] = model_id if model_id in model_ids else None
    fields = {"server": server.slug, "suite": run.suite_key, **plan}
    return {key: str(value) for key, value in fields.items() if value is not None}


def settling_runs(session: Session, comparison: Comparison) -> dict[int, list[Rerun]]:
    """The runs that would settle inconclusive verdicts, by the place of the subject: its own and those of the base.

    Two sides of one configuration count once; a disturbed side needs one run. Archived servers are left out.
    """
    counts = {
        pair.place: _counts(comparison, pair.place) for pair in comparison.pairs if pair.verdict is Verdict.INCONCLUSIVE
    }
    if not any(counts.values()):
        return {}
    compared_runs = runs_by_id(session, {subject.public_id for subject in comparison.subjects})
    newest = newest_configs(session, {run.server_id for run in compared_runs.values()})
    settling: dict[int, list[Rerun]] = {}
    for place, run_counts in counts.items():
        seen = set()
        for side, runs in run_counts.items():
            run = compared_runs[comparison.subjects[side].public_id]
            server, model = run.server, run.model
            identity = (server.id, run.config_id, run.suite_sha256)
            if server.archived_at is None and identity not in seen:
                seen.add(identity)
                # a server with several models reloads it
                model_id = model.id if model and run.plan.get("model") else None
                is_current = newest.get((run.server_id, model_id)) == run.config_id
                fields = rerun_fields(run, server, run.config)
                rerun = Rerun(comparison.subjects[side].name, fields, min(runs, MAX_QUEUED_AT_ONCE), is_current)
                settling.setdefault(place, []).append(rerun)
    return settling


def _counts(comparison: Comparison, place: int) -> dict[int, int]:
    """The number of runs to measure, by the place of the side."""
    sides = (0, place)
    if any(comparison.subjects[side].unsound for side in sides):
        return {side: 1 for side in sides if comparison.subjects[side].unsound}
    runs = runs_to_settle(comparison.main_ratios(place))
    return dict.fromkeys(sides, runs) if runs else {}
