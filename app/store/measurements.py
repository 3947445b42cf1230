from collections.abc import Collection, Sequence

from sqlalchemy import exists, false, or_
from sqlmodel import Session, col, delete, select

from app.metrics import Measured, measure, metrics
from app.models import Measurement, Run, SampleRow
from app.samples import Point
from app.store.samples import samples_of


def derive(session: Session, run_id: int) -> None:
    """Computes the numbers of a run from its samples; always all of them anew."""
    _replace(session, run_id, measure(samples_of(session, run_id)))


def outdated(session: Session, most: int, after: int = 0) -> Sequence[int]:
    """Ids of up to `most` runs with a number of an older formula and with the samples to compute it anew.

    In order; only those that are larger than `after`.
    """
    older = [
        (col(Measurement.metric) == metric.key) & (col(Measurement.formula_version) < metric.formula_version)
        for metric in metrics().values()
        if metric.formula_version > 1
    ]
    run_id = col(Run.id)
    measured = exists().where(col(Measurement.run_id) == run_id, or_(false(), *older))
    sampled = exists().where(col(SampleRow.run_id) == run_id)
    found = select(run_id).where(run_id > after, measured, sampled).order_by(run_id).limit(most)
    return session.execute(found).scalars().all()


def _replace(session: Session, run_id: int, measured: Sequence[Measured]) -> None:
    session.exec(delete(Measurement).where(col(Measurement.run_id) == run_id))
    session.add_all(
        Measurement(
            run_id=run_id,
            point_key=each.point.key,
            metric=each.metric,
            source=each.source,
            unit=each.unit,
            is_shown=each.is_shown,
            value=each.value,
            low=each.low,
            high=each.high,
            minimum=each.minimum,
            maximum=each.maximum,
            standard_deviation=each.standard_deviation,
            left_out=each.left_out,
            sample_count=each.samples,
            null_reason=each.null_reason,
            formula_version=each.formula_version,
        )
        for each in measured
    )


def measurements_of(session: Session, run_id: int) -> list[Measured]:
    return measurements_by_run(session, [run_id]).get(run_id, [])


def measurements_by_run(
    session: Session, run_ids: Collection[int], metrics: Collection[str] | None = None
) -> dict[int, list[Measured]]:
    """Of all metrics or of some. Runs without any are missing."""
    query = select(Measurement).where(col(Measurement.run_id).in_(run_ids)).order_by(col(Measurement.id))
    if metrics is not None:
        query = query.where(col(Measurement.metric).in_(metrics))
    measured: dict[int, list[Measured]] = {}
    for row in session.exec(query).all():
        measured.setdefault(row.run_id, []).append(_measured(row))
    return measured


def _measured(row: Measurement) -> Measured:
    return Measured(
        point=Point.from_key(row.point_key),
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
