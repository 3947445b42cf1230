"""Every run beside its pinned baseline: the verdict at its main point, cheap enough for a list of runs."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlmodel import Session

from app.compare.result import overall
from app.compare.statistics import Ratio, ratio
from app.i18n import _
from app.metrics import TRIPLE, metrics
from app.store.baselines import Repetitions, Side, beside_baselines, main_repetitions


@dataclass(frozen=True)
class Standing:
    """How a run stands beside its baseline."""

    baseline_id: str
    """The public id of the baseline."""
    is_baseline: bool
    """The run is the baseline itself."""
    verdict: str | None = None
    """Of the triple: better, worse, same, inconclusive or mixed; None has a reason, or is the baseline's own."""
    ratios: Mapping[str, Ratio | None] | None = None
    """By metric of the triple, over the baseline; None where both have no figure from the same source."""
    reason: str = ""


def standings(session: Session, public_ids: Collection[str]) -> dict[str, Standing]:
    """Of runs, by public id. Missing are those without a baseline, those that did not finish, and those from before
    the baseline was measured: a baseline is for what comes after it. Three queries, however many runs."""
    pairs = [(run, base) for run, base in beside_baselines(session, public_ids) if _is_compared(run, base)]
    compared = [(run, base) for run, base in pairs if run.run_id != base.run_id and not _refusal(run, base)]
    known = main_repetitions(session, {side.run_id for pair in compared for side in pair}) if compared else {}
    return {run.public_id: _standing(run, base, known) for run, base in pairs}


def standing(session: Session, public_id: str) -> Standing | None:
    return standings(session, [public_id]).get(public_id)


def to_json(found: Standing | None) -> dict[str, Any] | None:
    """As the document of a run holds it."""
    return asdict(found) if found else None


def _is_compared(run: Side, base: Side) -> bool:
    if run.run_id == base.run_id:
        return True
    is_later = run.started_at is not None and base.started_at is not None and run.started_at > base.started_at
    return run.is_compared and is_later


def _refusal(run: Side, base: Side) -> str:
    if not base.is_compared:
        return _("The baseline is hidden from statistics.")
    if run.suite_sha256 != base.suite_sha256:
        return _("The suite was changed since the baseline: its prompt or its lengths are others now.")
    if run.main_point_key != base.main_point_key:
        return _("The baseline was measured at another point.")
    return ""


def _standing(run: Side, base: Side, known: Mapping[tuple[int, str], Repetitions]) -> Standing:
    if run.run_id == base.run_id:
        return Standing(base.public_id, is_baseline=True)
    if reason := _refusal(run, base):
        return Standing(base.public_id, is_baseline=False, reason=reason)
    ratios = {key: _ratio(key, known.get((base.run_id, key)), known.get((run.run_id, key))) for key in TRIPLE}
    verdict = overall(each.verdict for each in ratios.values() if each is not None and each.verdict is not None)
    reason = "" if verdict else _("Both have no figures that could be compared.")
    return Standing(base.public_id, False, verdict, ratios, reason)


def _ratio(key: str, base: Repetitions | None, other: Repetitions | None) -> Ratio | None:
    if base is None or other is None or base.source != other.source:
        return None
    return ratio(base.values, other.values, metrics()[key].better)
