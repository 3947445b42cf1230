"""The checks before and after a run, in sentences: passed ones as checks, failed ones as warnings.

`unsound` holds what makes the result of a run doubtful, as data (see app.results.compare.soundness).
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from app.core.i18n import _, joined
from app.core.samples import Sample, Status
from app.core.server_metrics import ServerMetric
from app.core.units import format_bytes, plural
from app.db import restarts
from app.engines.base import DIFFERING, FROM_LOG, LOG_OVERLAP, Counters
from app.hardware.sensor_process import SensorProcess
from app.measure.interference import BusyCheck, disturbance, foreign_work
from app.measure.job import Prepared
from app.metrics.sensors import BUSY_CPU_SHARE, SWAPPED_BYTES, is_usual_limit, swapped, throttle_words
from app.metrics.server_vs_client import stated
from app.results.compare import soundness


def before(
    prepared: Prepared, warnings: Sequence[str], load_share: float | None, stated: str | None = None
) -> dict[str, Any]:
    """Returns the evidence of a run before its first request.

    `load_share` is what other programs take of this machine's processors where the server is on it, else None;
    `stated` says what of the configuration a person stated.
    """
    evidence: dict[str, Any] = {
        "warnings": list(warnings),
        "left_out": [{"point": case.point.key, "reason": sentence} for case, sentence in prepared.left_out],
        "checks": list(
            dict.fromkeys(
                _(
                    "The server's tokenizer counts {tokens:,} tokens in the prompt of about {planned:,}.",
                    tokens=prompt_tokens,
                    planned=case.point.prompt_tokens,
                )
                for case, prompt_tokens in prepared.cases
                if prompt_tokens is not None
            )
        ),
        "cpu_load_share_before": load_share,
        "unsound": [],
    }
    if stated is not None:
        evidence["checks"].append(stated)
    if load_share is None:
        return evidence
    if load_share >= BUSY_CPU_SHARE:
        evidence["unsound"].append(soundness.machine_busy("before", load_share))
        evidence["warnings"].append(
            _(
                "This machine was busy before the run ({share:.0f} % of its processor): background load slows a server "
                "on the same machine down.",
                share=100 * load_share,
            )
        )
    else:
        evidence["checks"].append(
            _(
                "This machine, also the server's, was not busy before the run: {share:.0f} % of its processor.",
                share=100 * load_share,
            )
        )
    return evidence


def after(
    evidence: dict[str, Any],
    samples: Sequence[Sample],
    counters_before: Counters | None,
    counters_after: Counters | None,
    notes: Sequence[str] = (),
    server_metrics: Sequence[ServerMetric] = (),
    busy_check: BusyCheck | None = None,
) -> dict[str, Any]:
    """Returns `evidence` with what samples, the server's counters and its `notes` show about the whole run.

    `server_metrics` are stored as `server`, with what the server stated with each answer. `unsound` gets what disturbed
    the run after its start.
    """
    checks, warnings = list(evidence.get("checks", ())), list(evidence.get("warnings", ()))
    unsound = [*evidence.get("unsound", ()), *sensor_disturbances(samples)]
    complete = [sample for sample in samples if sample.trace.status is Status.OK]
    measured = [sample for sample in complete if not sample.is_warmup]
    cached = [sample.trace.cached_tokens for sample in measured]
    if cached and all(count == 0 for count in cached):
        checks.append(_("No prompt token came from the server's cache."))
    if measured and all(sample.trace.output_tokens == sample.point.output_tokens for sample in measured):
        checks.append(_("Every sample has exactly the requested output length."))
    models = list(dict.fromkeys(sample.trace.model for sample in samples if sample.trace.model))
    if len(models) > 1:
        warnings.append(
            _(
                "The server answered with different models during the run: {models}. Measure each by itself.",
                models=", ".join(models),
            )
        )
        unsound.append(soundness.models_changed(models))
    warnings += [note for note in notes if note not in warnings]
    warnings += sensor_warnings(samples)
    if busy_check is not None and (busy_check.pauses or busy_check.rounds):
        _judge_foreign_load(busy_check, checks, warnings, unsound)
    _judge_log(complete, checks, warnings)
    _judge_counters(samples, counters_before, counters_after, checks, warnings, unsound)
    names = {metric.name for metric in server_metrics}
    metrics = [*server_metrics, *(metric for metric in stated(samples) if metric.name not in names)]
    return {
        **evidence,
        "checks": checks,
        "warnings": warnings,
        "unsound": unsound,
        "server": [metric.to_json() for metric in metrics],
    }


def counted(key: str, counters: Counters | None) -> dict[str, Any]:
    """What the server had counted, as evidence under `key`: a later run sees by it that the server was restarted (see
    db.restarts). Empty where it does not count."""
    if counters is None:
        return {}
    totals = {name: getattr(counters, name) for name in ("since", *restarts.COUNTED)}
    known = {name: value for name, value in totals.items() if value is not None and math.isfinite(value)}
    return {key: known} if known else {}


def _judge_counters(
    samples: Sequence[Sample],
    counters_before: Counters | None,
    counters_after: Counters | None,
    checks: list[str],
    warnings: list[str],
    unsound: list[soundness.Disturbance],
) -> None:
    """Adds whether the server restarted, or worked for another client."""
    if counters_before is not None and counters_after is not None and counters_after.was_reset(counters_before):
        warnings.append(
            _("The server's counters began anew during the run, as after a restart: what it counted of it is unknown.")
        )
        unsound.append(soundness.server_restarted())
    foreign = foreign_work([sample.trace for sample in samples], counters_before, counters_after)
    if foreign:
        warnings.append(
            _(
                "The server processed {others} for somebody else during the run: measure again "
                "while nobody else uses it.",
                others=foreign,
            )
        )
    elif foreign is not None:
        checks.append(_("The server's own counters saw no other request during the run."))
    if foreign or any("concurrent" in sample.flags for sample in samples if not sample.is_warmup):
        unsound.append(soundness.server_shared())


def _judge_foreign_load(
    busy_check: BusyCheck, checks: list[str], warnings: list[str], unsound: list[soundness.Disturbance]
) -> None:
    """Adds whether other programs kept the machine busy."""
    share = disturbance(busy_check.before, busy_check.pauses, busy_check.rounds)
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


def _judge_log(complete: Sequence[Sample], checks: list[str], warnings: list[str]) -> None:
    """Adds how many samples have lines in the server's log, which values came from it alone, and how many samples
    overlap other requests in it."""
    raws = [sample.trace.server.raw for sample in complete if sample.trace.server is not None]
    figures = [raw[FROM_LOG] for raw in raws if FROM_LOG in raw]
    if figures:
        checks.append(_log_coverage(figures, len(complete)))
    differing = [names for raw in raws if (names := raw.get(DIFFERING))]
    if differing:
        warnings.append(
            _(
                "The server's answer, its record and its log do not agree about {samples}: {names}.",
                samples=plural(len(differing), "sample"),
                names=_figure_names(differing),
            )
        )
    overlapping = sum(LOG_OVERLAP in raw for raw in raws)
    if overlapping:
        warnings.append(
            _(
                "In the server's log other requests ran at the same time as {samples}: their times include each "
                "other's, and lines are matched to requests by order only.",
                samples=plural(overlapping, "sample"),
            )
        )


def _log_coverage(figures: Sequence[Sequence[str]], total: int) -> str:
    """Returns a sentence on the log; `figures` holds for each sample in the log the values that came from it alone."""
    names = _figure_names(figures)
    samples = plural(len(figures), "sample")
    if names:
        return _(
            "The server's log adds values that the answers lack to {samples} of {all}: {names}.",
            names=names,
            samples=samples,
            all=total,
        )
    if len(figures) == total:
        return _("The server's log mentions {samples} and adds nothing to their answers.", samples=samples)
    return _(
        "The server's log mentions {samples} of {all} and adds nothing to their answers.", samples=samples, all=total
    )


def _figure_names(figures: Sequence[Sequence[str]]) -> str:
    return ", ".join(dict.fromkeys(name.replace("_", " ") for sample_figures in figures for name in sample_figures))


# --- the machine's sensors -------------------------------------------------------------------------------------------


def missing_sensors_reason(is_local: bool, process: SensorProcess | None, samples: Sequence[Sample]) -> str | None:
    """Returns why there are no sensor readings, as a key of app.charts.sensors.ABSENCES; None when there are some."""
    if process is None:
        return "off" if is_local else "elsewhere"
    if any(sample.sensors.get("at_ms") for sample in samples):
        return None
    return "short" if process.has_readings else "silent"


def sensor_warnings(samples: Sequence[Sample]) -> list[str]:
    """Returns one sentence for each sensor reading that means a slower server."""
    sentences = []
    throttles = sorted({reason for sample in samples for reason in sample.sensors.get("throttles", ())})
    if unusual := [reason for reason in throttles if not is_usual_limit(reason)]:
        sentences.append(
            _(
                "A GPU was throttled during the run ({why}): measure again when it is cool, or with a higher limit.",
                why=joined(*map(throttle_words, unusual), by=", "),
            )
        )
    swapped_bytes = swapped(samples)
    if swapped_bytes >= SWAPPED_BYTES:
        sentences.append(
            _(
                "This machine swapped {swapped} during the run: its memory is too small for the model and the other "
                "programs.",
                swapped=format_bytes(swapped_bytes),
            )
        )
    return sentences


def sensor_disturbances(samples: Sequence[Sample]) -> list[soundness.Disturbance]:
    """Returns what sensors showed to begin or end during the run, as `Run.evidence["unsound"]` holds it.

    A GPU that is throttled in every round is the usual state of the machine; one that is throttled in some makes the
    rounds unlike.
    """
    swapped_bytes = swapped(samples)
    disturbances = [soundness.swapped(swapped_bytes)] if swapped_bytes >= SWAPPED_BYTES else []
    rounds = [sample.sensors for sample in samples if not sample.is_warmup and sample.sensors.get("at_ms")]
    counts = Counter(
        reason for sensors in rounds for reason in sensors.get("throttles", ()) if not is_usual_limit(reason)
    )
    if partial := sorted(reason for reason, count in counts.items() if count < len(rounds)):
        disturbances.append(soundness.throttled(partial))
    return disturbances
