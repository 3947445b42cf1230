"""What was checked before and after a run, in sentences: good news as checks, bad news as warnings."""

from collections.abc import Sequence
from typing import Any

from app.core.i18n import _
from app.core.samples import Sample, Status
from app.core.server_metrics import ServerMetric
from app.core.units import plural
from app.engines.base import FROM_LOG, LOG_OVERLAP, Counters
from app.measure.bench import BusyCheck, Prepared, foreign_work
from app.measure.runner import sensing
from app.metrics.sensors import BUSY_CPU_SHARE
from app.metrics.server_vs_client import stated
from app.results.compare import soundness


def before(prepared: Prepared, warnings: Sequence[str], load_share: float | None) -> dict[str, Any]:
    """`load_share`: what other programs take of this machine's processors where the server is on it, else None."""
    found: dict[str, Any] = {
        "warnings": list(warnings),
        "left_out": [{"point": case.point.key, "reason": sentence} for case, sentence in prepared.left_out],
        "checks": list(
            dict.fromkeys(
                _(
                    "The server's tokenizer counts {counted:,} tokens in the prompt of about {planned:,}.",
                    counted=counted,
                    planned=case.point.prompt_tokens,
                )
                for case, counted in prepared.cases
                if counted is not None
            )
        ),
        "cpu_load_share_before": load_share,
        "unsound": [],
    }
    if load_share is None:
        return found
    if load_share >= BUSY_CPU_SHARE:
        found["unsound"].append(soundness.machine_busy("before", load_share))
        found["warnings"].append(
            _(
                "This machine was busy before the run ({share:.0f} % of its processor): background load slows a server "
                "on the same machine down.",
                share=100 * load_share,
            )
        )
    else:
        found["checks"].append(
            _(
                "This machine, also the server's, was not busy before the run: {share:.0f} % of its processor.",
                share=100 * load_share,
            )
        )
    return found


def after(
    known: dict[str, Any],
    taken: Sequence[Sample],
    began: Counters | None,
    ended: Counters | None,
    notes: Sequence[str] = (),
    counted: Sequence[ServerMetric] = (),
    busy_check: BusyCheck | None = None,
) -> dict[str, Any]:
    """`known` with what the samples, the server's own counters and its `notes` afterwards say about the whole run.

    `counted` is kept as `server`, with what the server stated of each answer besides. `unsound` gets what disturbed the
    run after it had started.
    """
    checks, warnings = list(known.get("checks", ())), list(known.get("warnings", ()))
    unsound = [*known.get("unsound", ()), *sensing.disturbances(taken)]
    complete = [sample for sample in taken if sample.trace.status is Status.OK]
    measured = [sample for sample in complete if not sample.is_warmup]
    cached = [sample.trace.cached_tokens for sample in measured]
    if cached and all(count == 0 for count in cached):
        checks.append(_("No prompt token came from the server's cache."))
    if measured and all(sample.trace.output_tokens == sample.point.output_tokens for sample in measured):
        checks.append(_("Every sample has exactly the asked output length."))
    models = list(dict.fromkeys(sample.trace.model for sample in taken if sample.trace.model))
    if len(models) > 1:
        warnings.append(
            _(
                "The server answered with different models during the run: {models}. Measure each by itself.",
                models=", ".join(models),
            )
        )
        unsound.append(soundness.models_changed(models))
    warnings += [note for note in notes if note not in warnings]
    warnings += sensing.warnings(taken)
    if busy_check is not None and (busy_check.pauses or busy_check.rounds):
        _judge_foreign_load(busy_check.disturbance(), checks, warnings, unsound)
    if sentence := told_by_log(complete):
        checks.append(sentence)
    if sentence := overlap_in_log(complete):
        warnings.append(sentence)
    _judge_counters(taken, began, ended, checks, warnings, unsound)
    told = {each.name for each in counted}
    server = [*counted, *(each for each in stated(taken) if each.name not in told)]
    return {
        **known,
        "checks": checks,
        "warnings": warnings,
        "unsound": unsound,
        "server": [each.to_json() for each in server],
    }


def _judge_counters(
    taken: Sequence[Sample],
    began: Counters | None,
    ended: Counters | None,
    checks: list[str],
    warnings: list[str],
    unsound: list[soundness.Disturbance],
) -> None:
    """Whether the server restarted, or worked for somebody else."""
    if began is not None and ended is not None and ended.began_anew(began):
        warnings.append(
            _("The server's counters began anew during the run, as after a restart: what it counted of it is unknown.")
        )
        unsound.append(soundness.server_restarted())
    others = foreign_work([sample.trace for sample in taken], began, ended)
    if others:
        warnings.append(
            _(
                "The server processed {others} for somebody else during the run: measure again "
                "while nobody else uses it.",
                others=others,
            )
        )
    elif others is not None:
        checks.append(_("The server's own counters saw no other request during the run."))
    if others or any("concurrent" in sample.flags for sample in taken if not sample.is_warmup):
        unsound.append(soundness.server_shared())


def _judge_foreign_load(
    share: float | None, checks: list[str], warnings: list[str], unsound: list[soundness.Disturbance]
) -> None:
    if share is None:
        checks.append(_("No other program kept this machine busy during the run."))
        return
    unsound.append(soundness.machine_busy("during", share))
    warnings.append(
        _(
            "Other programs used up to {share:.0f} % of this machine's processor during the run: stop them and measure "
            "again.",
            share=100 * share,
        )
    )


def overlap_in_log(complete: Sequence[Sample]) -> str | None:
    """For how many samples the log's figures may be another request's, or hold its time."""
    raws = [sample.trace.server.raw for sample in complete if sample.trace.server is not None]
    overlapping = sum(LOG_OVERLAP in raw for raw in raws)
    if not overlapping:
        return None
    return _(
        "In the server's log other requests ran at the same time as {samples}: their times hold one another's, and "
        "which line is whose is known by their order only.",
        samples=plural(overlapping, "sample"),
    )


def told_by_log(complete: Sequence[Sample]) -> str | None:
    """For how many samples the server's log has lines, and which figures came from there alone."""
    raws = [sample.trace.server.raw for sample in complete if sample.trace.server is not None]
    told = [raw[FROM_LOG] for raw in raws if FROM_LOG in raw]
    if not told:
        return None
    names = dict.fromkeys(name.replace("_", " ") for each in told for name in each)
    said = {"samples": plural(len(told), "sample"), "all": len(complete)}
    if not names and len(told) == len(complete):
        return _("The server's log tells of {samples}, no more than its answers do.", samples=said["samples"])
    if not names:
        return _("The server's log tells of {samples} of {all}, no more than its answers do.", **said)
    return _(
        "The server's log tells of {samples} of {all} what its answers did not: {names}.",
        names=", ".join(names),
        **said,
    )
