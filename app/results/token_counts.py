"""Tokens and drafts counted in runs, averaged by the database: as `metrics.token_times` does, for many runs at once."""

import json
from collections.abc import Collection, Sequence
from statistics import median
from typing import Any, NamedTuple

from sqlalchemy import Text, cast, func, select
from sqlmodel import Session, col

from app.core.samples import Status, Workload
from app.db.database import cached_query
from app.db.tables import Measurement, Run, SampleRow
from app.metrics import is_sound
from app.metrics.token_times import TokenCounts
from app.results.run_filter import NOT_HIDDEN


def token_counts(session: Session, run_ids: Collection[int]) -> dict[tuple[int, Workload], TokenCounts]:
    """Returns the mean counts by run and point; a point without a whole answer is missing."""
    if not run_ids:
        return {}
    record = col(SampleRow.record)
    trace, point = record["trace"], cast(col(SampleRow.point), Text)
    means = [func.avg(trace[key].as_integer()) for key in TokenCounts._fields]
    rows = session.execute(
        select(col(SampleRow.run_id), point, *means)
        .where(
            col(SampleRow.run_id).in_(run_ids),
            col(SampleRow.is_warmup).is_(False),
            col(SampleRow.status) == Status.OK.value,
            record["reuses_cache"].as_boolean().is_not(True),
        )
        .group_by(col(SampleRow.run_id), point)
    ).all()
    return {
        (run_id, Workload(**json.loads(document))): TokenCounts(
            *(None if mean is None else float(mean) for mean in values)
        )
        for run_id, document, *values in rows
    }


@cached_query(maxsize=8)
def answer_lengths(session: Session, run_ids: frozenset[int]) -> dict[tuple[int, str], float]:
    """Returns the median length of the usable answers in tokens, by run and point key."""
    if not run_ids:
        return {}
    record = col(SampleRow.record)
    columns: Sequence[Any] = [
        *(col(SampleRow.run_id), cast(col(SampleRow.point), Text), col(SampleRow.status)),
        *(cast(col(SampleRow.flags), Text), record["trace"]["output_tokens"].as_integer()),
    ]
    conditions = (col(SampleRow.run_id).in_(run_ids), col(SampleRow.is_warmup).is_(False))
    lengths: dict[tuple[int, str], list[int]] = {}
    for run_id, document, status, flags, tokens in session.execute(select(*columns).where(*conditions)):
        if tokens is not None and is_sound(status, json.loads(flags)):
            lengths.setdefault((run_id, document), []).append(tokens)
    return {(run_id, Workload(**json.loads(document)).key): median(of) for (run_id, document), of in lengths.items()}


class Place(NamedTuple):
    """The machine, configuration and point of a measurement."""

    machine_id: int
    config_id: int
    point: Workload


@cached_query(maxsize=1)
def newest_token_counts(session: Session) -> dict[Place, TokenCounts]:
    """Returns the counts of the newest finished run of each configuration and suite, by machine, configuration and
    point."""
    places = newest_runs(session)
    counts = token_counts(session, places.keys())
    return {Place(*places[run_id], point): means for (run_id, point), means in sorted(counts.items(), key=_run_id)}


@cached_query(maxsize=1)
def newest_runs(session: Session) -> dict[int, tuple[int, int]]:
    """Returns the newest finished run of each configuration and suite, with its machine and configuration."""
    newest = (
        select(func.max(col(Run.id)))
        .where(col(Run.status) == "done", col(Run.config_id).is_not(None), NOT_HIDDEN)
        .group_by(col(Run.machine_id), col(Run.config_id), col(Run.suite_key))
    )
    rows = session.execute(
        select(col(Run.id), col(Run.machine_id), col(Run.config_id))
        .where(col(Run.id).in_(newest))
        .order_by(col(Run.id))
    ).all()
    return {run_id: (machine_id, config_id) for run_id, machine_id, config_id in rows}


def _run_id(item: tuple[tuple[int, Workload], TokenCounts]) -> int:
    return item[0][0]


class Drafts(NamedTuple):
    """The drafts of all samples of one point."""

    drafted: int
    """The number of drafted tokens; 0 when the server reports that it drafted nothing."""
    accepted: int
    decoded: int
    """The number of output tokens after the first one of each sample."""

    @property
    def passes(self) -> int:
        """The readings of the weights: each gives one token and the accepted drafted ones."""
        return self.decoded - self.accepted

    @property
    def drafted_per_pass(self) -> float:
        return self.drafted / self.passes

    @property
    def accepted_per_pass(self) -> float:
        return self.accepted / self.passes


def drafts_of(session: Session, run_ids: Collection[int]) -> dict[tuple[int, Workload], Drafts]:
    """Returns the drafts by run and point; missing when the server does not report whether it drafts."""
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
    """Returns the drafts of the newest finished run of each configuration and suite that drafts, by machine,
    configuration and point."""
    places = newest_runs(session)
    drafts = drafts_of(session, drafting_among(session, list(places)))
    return {Place(*places[run_id], point): own for (run_id, point), own in sorted(drafts.items(), key=_drafts_run_id)}


def drafting_among(session: Session, run_ids: Sequence[int]) -> Sequence[int]:
    """Returns the configurations with speculative decoding: samples are read for them alone."""
    accepting = select(col(Measurement.run_id)).where(
        col(Measurement.run_id).in_(run_ids),
        col(Measurement.metric) == "draft_acceptance",
        col(Measurement.value).is_not(None),
    )
    return session.execute(accepting).scalars().all() if run_ids else []


def _drafts_run_id(item: tuple[tuple[int, Workload], Drafts]) -> int:
    return item[0][0]
