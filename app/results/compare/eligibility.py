"""Whether two results may be compared, and if not, why."""

from collections.abc import Sequence

from app.core.i18n import N_, _
from app.core.samples import Workload
from app.db.tables import Run

OUTPUT_TOLERANCE = 0.1
"""Answers whose measured lengths differ by more than this share do not have the same output length."""

_NOT_DONE = {
    "queued": N_("Run {id} is not finished yet."),
    "running": N_("Run {id} is not finished yet."),
    "failed": N_("Run {id} failed before it was finished."),
    "cancelled": N_("Run {id} was cancelled before it was finished."),
    "interrupted": N_("Run {id} was interrupted before it was finished."),
}


def refusal_reason_run(run: Run) -> str:
    """Returns why nothing can be compared with this run; empty when something can."""
    if run.hidden_at is not None:
        reason = f": {run.hidden_reason.rstrip('.。')}" if run.hidden_reason else ""
        return _("Run {id} is hidden from statistics{reason}.", id=run.public_id, reason=reason)
    return _(_NOT_DONE[run.status], id=run.public_id) if run.status in _NOT_DONE else ""


def refusal_reason_runs(base: Run, compared: Run) -> str:
    """Returns why two runs have no verdict whatever they measured; empty when they may have one."""
    return refusal_reason_run(base) or refusal_reason_run(compared) or refusal_reason_pair(base, compared)


def refusal_reason_pair(base: Run, compared: Run) -> str:
    """Returns why two finished runs have no verdict; empty when they have."""
    if base.suite_sha256 == compared.suite_sha256:
        return ""
    if base.suite_key != compared.suite_key:
        return _("They ran different suites: {base} and {compared}.", base=base.suite_key, compared=compared.suite_key)
    return _("The suite {suite} changed between them: its prompt or lengths are different now.", suite=base.suite_key)


def refusal_reason_point(workload: Workload, measured: Sequence[Workload]) -> str:
    """Returns why a result that measured some workloads has nothing at this one; empty when it has."""
    if workload in measured:
        return ""
    nearest = next((near for near in measured if near.prompt_tokens == workload.prompt_tokens), None)
    if nearest is not None:
        for part in ("output_tokens", "concurrency", "depth"):
            requested, actual = getattr(workload, part), getattr(nearest, part)
            if requested != actual:
                part_title = _({"output_tokens": N_("output length")}.get(part, part))
                return _(
                    "Its {part} is {actual:,} here, not {requested:,}.",
                    part=part_title,
                    actual=actual,
                    requested=requested,
                )
    return _("It did not measure this point.")


def refusal_reason_lengths(base_tokens: float | None, compared_tokens: float | None) -> str:
    """Returns why answers with two mean lengths are not compared (engines may end them early); empty when they are."""
    if not base_tokens or not compared_tokens:
        return ""
    ratio = compared_tokens / base_tokens
    if abs(ratio - 1) <= OUTPUT_TOLERANCE and abs(1 / ratio - 1) <= OUTPUT_TOLERANCE:
        return ""
    return _(
        "The answers differ in length: {base:,.0f} and {compared:,.0f} tokens.",
        base=base_tokens,
        compared=compared_tokens,
    )
