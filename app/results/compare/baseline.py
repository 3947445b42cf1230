"""Compares runs with their pinned baselines: the verdict at the main point, cheap enough for a list of runs."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from sqlmodel import Session

from app.core.configuration import Snapshot, model_names
from app.core.i18n import _
from app.db.baselines import BaselineSide, baseline_pairs
from app.db.tables import Run
from app.results.compare.eligibility import refusal_reason_runs
from app.results.compare.scatter import Judged, MainVerdict, Values, main_verdicts
from app.results.compare.soundness import unsound_by_run
from app.results.run_history import HistoryScope
from app.stats.runs import RunScatter
from app.stats.verdict import Ratio, Verdict


@dataclass(frozen=True)
class Standing:
    """The comparison of a run with its baseline."""

    baseline_id: str
    """The public id of the baseline."""
    is_baseline: bool
    """Whether the run is the baseline itself."""
    verdict: Verdict | None = None
    """The verdict over the headline metrics; None when there is a reason, or for the baseline itself."""
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    """The ratios to the baseline by headline metric; only metrics that both have from the same source."""
    unsound: tuple[str, ...] = ()
    """What disturbed one of the two, so that the verdict can only be inconclusive."""
    scatters: Mapping[str, RunScatter] = field(default_factory=dict)
    """How much runs of one configuration differ on this machine, by metric."""
    values: Mapping[str, Values] = field(default_factory=dict)
    """The source and the values of both, by metric."""
    reason: str = ""


def standings(session: Session, public_ids: Collection[str]) -> dict[str, Standing]:
    """Returns the comparisons of runs with their baselines by public id, in a handful of queries.

    Runs without a baseline, unfinished runs and runs from before the baseline are missing: a baseline is for what comes
    after it.
    """
    pairs = _with_baseline(session, public_ids)
    compared = _comparable(pairs)
    unsound = unsound_by_run(session, {side.public_id for pair in compared for side in pair}) if compared else {}
    verdicts = main_verdicts(session, compared, unsound)
    return {run.public_id: _standing(run, base, verdicts) for run, base in pairs}


def standing(session: Session, public_id: str) -> Standing | None:
    """Returns the comparison of one run; None without a baseline to compare with."""
    return standings(session, [public_id]).get(public_id)


class RunVerdicts(NamedTuple):
    """All verdicts on one run."""

    standing: Standing | None
    """The comparison with its baseline; None without one."""
    previous: MainVerdict | None
    """The comparison with the run before its configuration changed; None without one."""
    unsound: tuple[str, ...]
    """What disturbed the run."""


def verdicts_of_run(session: Session, run: Run, before: Run | None) -> RunVerdicts:
    """Returns all verdicts on one run.

    `before` is the newest run of the previous configuration with the same suite, if there is one.
    """
    pairs = _with_baseline(session, [run.public_id])
    compared = _comparable(pairs)
    why_not = refusal_reason_runs(before, run) if before else ""
    if before and not why_not:
        compared.append((Judged.of(before), Judged.of(run)))
    unsound = unsound_by_run(session, {run.public_id, *(side.public_id for pair in compared for side in pair)})
    verdicts = main_verdicts(session, compared, unsound)
    previous = None
    if before:
        assert before.id is not None
        assert run.id is not None
        previous = MainVerdict(None, {}, reason=why_not) if why_not else verdicts[before.id, run.id]
    standings_of_run = [_standing(side, base, verdicts) for side, base in pairs]
    return RunVerdicts(next(iter(standings_of_run), None), previous, unsound.get(run.public_id, ()))


def _with_baseline(session: Session, public_ids: Collection[str]) -> list[tuple[BaselineSide, BaselineSide]]:
    return [(run, base) for run, base in baseline_pairs(session, public_ids) if _is_compared(run, base)]


def _comparable(pairs: Collection[tuple[BaselineSide, BaselineSide]]) -> list[tuple[Judged, Judged]]:
    return [
        (_judged(base), _judged(run)) for run, base in pairs if run.run_id != base.run_id and not _refusal(run, base)
    ]


def to_json(standing: Standing | None) -> dict[str, Any] | None:
    """Returns the JSON form of a standing, as the document of a run holds it."""
    if standing is None:
        return None
    return {**asdict(standing), "values": {key: values._asdict() for key, values in standing.values.items()}}


def _is_compared(run: BaselineSide, base: BaselineSide) -> bool:
    if run.run_id == base.run_id:
        return True
    is_later = run.started_at is not None and base.started_at is not None and run.started_at > base.started_at
    return run.is_compared and is_later


def _refusal(run: BaselineSide, base: BaselineSide) -> str:
    if not base.is_compared:
        return _("The baseline is hidden from statistics.")
    if run.suite_sha256 != base.suite_sha256:
        return _("The suite has changed since the baseline: its prompt or lengths are different now.")
    if _is_another_model(run, base):
        return _("The baseline is of another model of that name, {model}.", model=base.model_id)
    return ""


def _is_another_model(run: BaselineSide, base: BaselineSide) -> bool:
    """Whether the two are different models by their ids on one server; ids of different servers are not comparable."""
    if run.server_id != base.server_id or None in (run.model_id, base.model_id):
        return False
    sides = [Snapshot("", None, side.model, side.quantization, {"model_id": side.model_id}) for side in (run, base)]
    name, base_name = model_names(sides)
    return name != base_name


def _judged(side: BaselineSide) -> Judged:
    return Judged(side.run_id, side.public_id, HistoryScope(side.machine_id, side.suite_key), side.main_point_key)


def _standing(run: BaselineSide, base: BaselineSide, verdicts: Mapping[tuple[int, int], MainVerdict]) -> Standing:
    if run.run_id == base.run_id:
        return Standing(base.public_id, is_baseline=True)
    if reason := _refusal(run, base):
        return Standing(base.public_id, is_baseline=False, reason=reason)
    main = verdicts[base.run_id, run.run_id]
    return Standing(base.public_id, is_baseline=False, **{f.name: getattr(main, f.name) for f in fields(main)})
