"""What speculative decoding did in a run, as its server counted it."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlmodel import Session, col

from app.core.samples import Status, Workload
from app.db.query_cache import cached_query
from app.db.tables import Measurement, SampleRow
from app.results.token_counts import Place, newest_runs


class Drafts(NamedTuple):
    """Of all samples of one point."""

    drafted: int
    """0 where the server says that it drafted nothing."""
    accepted: int
    decoded: int
    """Output tokens after the first one of each sample."""

    @property
    def passes(self) -> int:
        """Readings of the weights: each gives one token, and those drafted ones that were right."""
        return self.decoded - self.accepted

    @property
    def drafted_per_pass(self) -> float:
        return self.drafted / self.passes

    @property
    def accepted_per_pass(self) -> float:
        return self.accepted / self.passes


def drafts_of(session: Session, run_ids: Collection[int]) -> dict[tuple[int, Workload], Drafts]:
    """By run and point; missing where the server does not tell whether it drafts."""
    if not run_ids:
        return {}
    trace = col(SampleRow.record)["trace"]
    server = trace["server"]
    drafted, accepted = server["draft_tokens"].as_integer(), server["draft_accepted_tokens"].as_integer()
    query = select(
        col(SampleRow.run_id), col(SampleRow.point), drafted, accepted, trace["output_tokens"].as_integer()
    ).where(
        col(SampleRow.run_id).in_(run_ids),
        col(SampleRow.is_warmup).is_(False),
        col(SampleRow.status) == Status.OK.value,
        drafted.is_not(None),
    )
    drafts: dict[tuple[int, Workload], Drafts] = {}
    for run_id, point, n_drafted, n_accepted, n_output in session.execute(query):
        key = run_id, Workload(**point)
        before = drafts.get(key, Drafts(0, 0, 0))
        now = n_drafted, n_accepted or 0, max(0, (n_output or 0) - 1)
        drafts[key] = Drafts(*(total + count for total, count in zip(before, now, strict=True)))
    return {key: of_point for key, of_point in drafts.items() if of_point.passes > 0}


@cached_query(maxsize=1)
def newest_drafts(session: Session) -> dict[Place, Drafts]:
    """Of the newest done run of each configuration and suite that drafts, by machine, configuration and point."""
    places = newest_runs(session)
    drafts = drafts_of(session, drafting_among(session, list(places)))
    return {Place(*places[run_id], point): own for (run_id, point), own in sorted(drafts.items(), key=_run_id)}


def drafting_among(session: Session, run_ids: Sequence[int]) -> Sequence[int]:
    """Those with speculative decoding: samples are read for them alone."""
    accepting = select(col(Measurement.run_id)).where(
        col(Measurement.run_id).in_(run_ids),
        col(Measurement.metric) == "draft_acceptance",
        col(Measurement.value).is_not(None),
    )
    return session.execute(accepting).scalars().all() if run_ids else []


def _run_id(item: tuple[tuple[int, Workload], Drafts]) -> int:
    return item[0][0]
