"""What limits a result: rules from what was measured, each naming its evidence and what to change first.

A rule that has no evidence says nothing; where no rule speaks, it is said what is not known.

base    what a rule sees, and what it says
ttft    the rules of TTFT
decode  the rules of decode
streams what several streams do to each other
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

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
    findings: tuple[Limit, ...]
    """What to change first comes first."""
    unknown: tuple[str, ...]
    """Of TTFT and of decode, where no rule speaks: what is known all the same, or what would have to be known."""


def limits(seen: Evidence) -> Limits:
    found = [*ttft.rules(seen), *decode.rules(seen)]
    unknown = [
        *(() if any(each.of == "TTFT" for each in found) else ttft.unknown(seen)),
        *(() if any(each.of == "Decode" for each in found) else decode.unknown(seen)),
    ]
    return Limits(tuple(sorted(found, key=lambda each: ORDER.index(each.key))), tuple(unknown))


def limits_of_run(
    taken: Sequence[Sample],
    point: Workload,
    roof: RunCeiling | Unknown | None,
    evidence: Mapping[str, Any] = MappingProxyType({}),
    engine: str = "",
) -> Limits:
    """Of one point of a run. `taken`: all of the run's samples; `evidence`: the run's; `engine`: its key."""
    taken = with_prefill_overlaps(taken)
    known = roof if isinstance(roof, RunCeiling) else None
    return limits(
        Evidence(
            samples=[sample for sample in taken if sample.point == point],
            ceiling=known.at(point) if known else None,
            placement=known.placement if known else None,
            no_ceiling=f"{roof.reason} {roof.remedy}" if isinstance(roof, Unknown) else "",
            alone=[sample for sample in taken if sample.point == replace(point, concurrency=1) != point],
            cpu_load_share_before=evidence.get("cpu_load_share_before"),
            on_cards_share=gpu_share_of(evidence),
            engine=engine,
        )
    )
