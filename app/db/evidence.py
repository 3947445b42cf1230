"""What says whether the figures of runs can be trusted, without unpacking any sample."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlmodel import Session, col, select

from app.db.tables import Measurement, Run

EVIDENCE_PARTS = ("unsound", "cpu_load_share_before", "warnings")
"""Of `Run.evidence`, what tells of disturbances."""


class UnsoundEvidence(NamedTuple):
    """What is stored of a run that may make its figures unsound."""

    evidence: dict[str, Any]
    """The parts of `Run.evidence` that tell of disturbances."""
    variation: dict[str, float]
    """Coefficient of variation of the repetitions at the main point by metric, where it is known."""


def unsound_evidence(
    session: Session, public_ids: Collection[str], metrics: Collection[str]
) -> dict[str, UnsoundEvidence]:
    """The evidence of each run by public id, in one query; `metrics` are those whose variation is read."""
    columns: list[Any] = [
        Run.public_id,
        *(col(Run.evidence)[part] for part in EVIDENCE_PARTS),
        Measurement.metric,
        col(Measurement.standard_deviation) / col(Measurement.value),
    ]
    query = (
        select(*columns)
        .outerjoin(
            Measurement,
            (col(Measurement.run_id) == col(Run.id))
            & (col(Measurement.point_key) == col(Run.main_point_key))
            & col(Measurement.metric).in_(metrics)
            & col(Measurement.is_shown)
            & (col(Measurement.value) > 0),
        )
        .where(col(Run.public_id).in_(public_ids))
    )
    rows: dict[str, UnsoundEvidence] = {}
    for public_id, *parts, metric, variation in session.exec(query):
        row = rows.setdefault(public_id, UnsoundEvidence(stored_parts(parts), {}))
        if variation is not None:
            row.variation[metric] = variation
    return rows


def stored_parts(values: Sequence[Any]) -> dict[str, Any]:
    """The EVIDENCE_PARTS that a run has, by name."""
    return {part: value for part, value in zip(EVIDENCE_PARTS, values, strict=True) if value is not None}
