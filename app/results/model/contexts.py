"""Decode against context: of each quantization one configuration at all lengths at which it was measured."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlmodel import Session, col

from app.ceiling.decode import CurvePoint, against_context, contexts_up_to
from app.core.samples import Workload
from app.db.database import cached_query
from app.db.tables import Measurement, Run
from app.results.ceiling import Decode, Placement, decode_of
from app.results.run_filter import NOT_HIDDEN

NEWEST_RUNS = 5
"""The newest runs of each configuration and suite of which the median is taken."""
SHORTEST_CURVE = 8_192
MARGIN = 1.25
"""A curve goes so much beyond the longest context that was measured."""


class ContextPoint(NamedTuple):
    """The median decode speed of a configuration at one mean context."""

    context: int
    tokens_per_s: float
    runs: int


@dataclass(frozen=True)
class ContextCurve:
    """Decode against context of one configuration; both sides in order of context."""

    title: str
    public_id: str
    """Its newest run."""
    points: Sequence[ContextPoint]
    ceiling: Sequence[CurvePoint] = ()
    """Empty where the ceiling is unknown."""


class Measured(NamedTuple):
    """What one configuration measured with one stream."""

    config_id: int
    public_id: str
    """Its newest run."""
    points: Sequence[ContextPoint]


def measured_contexts(session: Session, config_ids: Collection[int]) -> Mapping[int, Measured]:
    """Returns the decode speeds of some configurations by context, in one query."""
    return _measured(session, frozenset(config_ids))


@cached_query(maxsize=4)
def _measured(session: Session, config_ids: frozenset[int]) -> Mapping[int, Measured]:
    newest_first: list[Any] = [col(Run.started_at).desc(), col(Run.id).desc()]
    age = func.row_number().over(partition_by=[col(Run.config_id), col(Run.suite_key)], order_by=newest_first)
    is_counted = (col(Run.config_id).in_(config_ids), col(Run.status) == "done", NOT_HIDDEN)
    aged = select(col(Run.id), age.label("age")).where(*is_counted).subquery()
    query = (
        select(col(Run.config_id), col(Run.public_id), col(Measurement.point_key), col(Measurement.value))
        .join(aged, aged.c.id == col(Run.id))
        .join(Measurement, col(Measurement.run_id) == col(Run.id))
        .where(
            aged.c.age <= NEWEST_RUNS,
            col(Measurement.metric) == "decode_tokens_per_s",
            col(Measurement.is_shown).is_(True),
            col(Measurement.point_key).like("%/%/1/%"),
            col(Measurement.value) > 0,
        )
        .order_by(*newest_first)
    )
    newest: dict[int, str] = {}
    values: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for config_id, public_id, point_key, value in session.execute(query):
        newest.setdefault(config_id, public_id)
        values[config_id][Workload.from_key(point_key).mean_context()].append(value)
    return {
        config_id: Measured(
            config_id,
            newest[config_id],
            [ContextPoint(context, median(of), len(of)) for context, of in sorted(by_context.items())],
        )
        for config_id, by_context in values.items()
    }


def chosen(measured: Mapping[int, Measured], config_ids: Collection[int], best_config_id: int) -> Measured | None:
    """Returns the fastest of those configurations that were measured at several contexts; where none was, the best
    one."""
    several = [measured[key] for key in config_ids if key in measured and len(measured[key].points) > 1]
    return max(several, key=lambda candidate: candidate.points[0].tokens_per_s, default=measured.get(best_config_id))


def curve(title: str, measured: Measured, decode: Decode, placement: Placement | None, longest: int) -> ContextCurve:
    """Returns the measured points of a configuration under its ceiling, which goes up to `longest` tokens."""
    ceiling: Sequence[CurvePoint] = ()
    if placement is not None:
        ceiling = against_context(
            placement.geometry,
            lambda decode_step: decode_of(placement, decode_step, decode.drafts),
            placement.kv,
            contexts_up_to(longest, pieces=16),
        )
    return ContextCurve(title, measured.public_id, measured.points, ceiling)
