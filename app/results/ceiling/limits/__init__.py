"""What limits a result: rules over what was measured, each with its evidence and what to change first.

A rule without evidence gives nothing; where no rule applies, the result says what is unknown.

evidence  what a rule reads and what it returns
ttft      the rules of TTFT
decode    the rules of decode
machine   the rules about the machine: GPUs held back, a busy processor, swapping
streams   what several streams do to each other
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from app.core.i18n import joined
from app.core.samples import Sample, Workload
from app.metrics.overlap import with_prefill_overlaps
from app.results.ceiling.cards import Unknown
from app.results.ceiling.limits import decode, ttft
from app.results.ceiling.limits.evidence import ORDER, Evidence, Limit
from app.results.ceiling.points import RunCeiling
from app.results.hardware import gpu_share_of

__all__ = ["Evidence", "Limit", "Limits", "limits", "limits_of_run"]


@dataclass(frozen=True)
class Limits:
    """What limits a result, and what no rule explains."""

    findings: tuple[Limit, ...]
    """The limits; what to change first comes first."""
    unknown: tuple[str, ...]
    """Sentences about TTFT or decode where no rule applies: what is known, or what would have to be known."""


def limits(evidence: Evidence) -> Limits:
    """Runs all rules over the evidence of one point."""
    findings = [*ttft.rules(evidence), *decode.rules(evidence)]
    unknown = [
        *(() if any(limit.of == "TTFT" for limit in findings) else ttft.unknown(evidence)),
        *(() if any(limit.of == "Decode" for limit in findings) else decode.unknown(evidence)),
    ]
    return Limits(tuple(sorted(findings, key=lambda limit: ORDER.index(limit.key))), tuple(unknown))


def limits_of_run(
    samples: Sequence[Sample],
    point: Workload,
    ceiling: RunCeiling | Unknown | None,
    evidence: Mapping[str, Any] = MappingProxyType({}),
    engine: str = "",
) -> Limits:
    """Returns what limits one point of a run.

    `samples` are all of the run's; `evidence` is what the run stored about its machine; `engine` is the engine's key.
    """
    samples = with_prefill_overlaps(samples)
    run_ceiling = ceiling if isinstance(ceiling, RunCeiling) else None
    return limits(
        Evidence(
            samples=[sample for sample in samples if sample.point == point],
            ceiling=run_ceiling.at(point) if run_ceiling else None,
            placement=run_ceiling.placement if run_ceiling else None,
            no_ceiling=joined(ceiling.reason, ceiling.remedy) if isinstance(ceiling, Unknown) else "",
            alone=[sample for sample in samples if sample.point == replace(point, concurrency=1) != point],
            cpu_load_share_before=evidence.get("cpu_load_share_before"),
            on_cards_share=gpu_share_of(evidence),
            engine=engine,
        )
    )
