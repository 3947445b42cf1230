"""Stored measurements of runs, and the evidence of whether they can be trusted. Reading them unpacks no sample."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import exists, or_
from sqlmodel import Session, col, delete, select, update

from app.core.samples import Workload
from app.db.samples import refresh_flags, samples_of
from app.db.tables import ENDED_STATES, Measurement, Run, SampleRow
from app.metrics import MetricResult, compute_metrics, derivation_digest


def derive(session: Session, run_id: int) -> None:
    """Computes the numbers of a run from its samples; always all of them again."""
    _replace(session, run_id, compute_metrics(samples_of(session, run_id)))


def derive_anew(session: Session, run_id: int) -> None:
    """Derives an earlier run again with today's flag rules and formulas."""
    _replace(session, run_id, compute_metrics(refresh_flags(session, run_id)))


def outdated(session: Session, limit: int, before: int | None = None) -> Sequence[int]:
    """Returns the ids of up to `limit` ended runs that were derived with other formulas or flag rules, and have samples
    to derive them from; the newest first, only ids below `before`."""
    run_id = col(Run.id)
    is_sampled = exists().where(col(SampleRow.run_id) == run_id)
    digest, current = col(Run.metrics_digest), derivation_digest()
    # not `!=`, which uses no index; a query of its own, or SQLite would scan all runs in the requested order
    others = select(run_id).where(or_(digest.is_(None), digest < current, digest > current)).correlate(None)
    query = select(run_id).where(run_id.in_(others), col(Run.status).in_(ENDED_STATES), is_sampled)
    if before is not None:
        query = query.where(run_id < before)
    return session.execute(query.order_by(run_id.desc()).limit(limit)).scalars().all()


def _replace(session: Session, run_id: int, results: Sequence[MetricResult]) -> None:
    session.exec(delete(Measurement).where(col(Measurement.run_id) == run_id))
    session.exec(update(Run).where(col(Run.id) == run_id).values(metrics_digest=derivation_digest()))
    session.add_all(
        Measurement(
            run_id=run_id,
            point_key=result.point.key,
            metric=result.metric,
            source=result.source,
            unit=result.unit,
            is_shown=result.is_shown,
            value=result.value,
            low=result.low,
            high=result.high,
            minimum=result.minimum,
            maximum=result.maximum,
            standard_deviation=result.standard_deviation,
            left_out=result.left_out,
            sample_count=result.samples,
            null_reason=result.null_reason,
            formula_version=result.formula_version,
        )
        for result in results
    )


def measurements_of(session: Session, run_id: int) -> list[MetricResult]:
    return measurements_by_run(session, [run_id]).get(run_id, [])


def measurements_by_run(
    session: Session, run_ids: Collection[int], metrics: Collection[str] | None = None
) -> dict[int, list[MetricResult]]:
    """Returns the measurements of all metrics or of some, by run. Runs without any are missing."""
    query = select(Measurement).where(col(Measurement.run_id).in_(run_ids)).order_by(col(Measurement.id))
    if metrics is not None:
        query = query.where(col(Measurement.metric).in_(metrics))
    measured: dict[int, list[MetricResult]] = {}
    for row in session.exec(query).all():
        measured.setdefault(row.run_id, []).append(_measured(row))
    return measured


def measured_points(session: Session, run_ids: Collection[int], metrics: Collection[str]) -> dict[int, list[str]]:
    """Returns the keys of the points that runs measured, in order."""
    if not run_ids:
        return {}
    query = select(Measurement.run_id, Measurement.point_key).order_by(col(Measurement.id))
    points: dict[int, list[str]] = {}
    for run_id, point in session.exec(
        query.where(col(Measurement.run_id).in_(run_ids), col(Measurement.metric).in_(metrics))
    ):
        if point not in points.setdefault(run_id, []):
            points[run_id].append(point)
    return points


def _measured(row: Measurement) -> MetricResult:
    return MetricResult(
        point=Workload.from_key(row.point_key),
        metric=row.metric,
        source=row.source,  # type: ignore[arg-type]  # only Source values are ever written
        unit=row.unit,
        value=row.value,
        low=row.low,
        high=row.high,
        minimum=row.minimum,
        maximum=row.maximum,
        standard_deviation=row.standard_deviation,
        samples=row.sample_count,
        left_out=row.left_out,
        null_reason=row.null_reason,
        is_shown=row.is_shown,
        formula_version=row.formula_version,
    )


EVIDENCE_PARTS = ("unsound", "cpu_load_share_before", "warnings")
"""The keys of `Run.evidence` that show disturbances."""


class UnsoundEvidence(NamedTuple):
    """What is stored of a run that may make its figures unsound."""

    evidence: dict[str, Any]
    """The parts of `Run.evidence` that show disturbances."""
    variation: dict[str, float]
    """The coefficient of variation of the repetitions at the main point by metric, where it is known."""


def unsound_evidence(
    session: Session, public_ids: Collection[str], metrics: Collection[str]
) -> dict[str, UnsoundEvidence]:
    """Returns the evidence of each run by public id, in one query; `metrics` are those whose variation is read."""
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
    """Returns the EVIDENCE_PARTS that a run has, by name."""
    return {part: value for part, value in zip(EVIDENCE_PARTS, values, strict=True) if value is not None}
