"""The overview: recent changes, the newest results, the fastest configurations, and what is running."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import Response

from app.charts import sparkline
from app.core.config_settings import remote_host
from app.db import configs, machines, runs, servers
from app.db.tables import now
from app.metrics import HEADLINE_METRICS, metrics
from app.results import hardware
from app.results.ceiling import ConfigCeiling, config_ceilings
from app.results.compare import standings
from app.results.history.level_shifts import SeriesDrift, Shift, drift_words, drifts, is_worse, shift_words, shifts
from app.results.history.series import newest
from app.results.naming import distinct_titles
from app.results.run_list import RunRow, decode_trends, latest_per_config
from app.suites import DEFAULT_SUITE
from app.web.deps import ReadSession
from app.web.progress import progress_now
from app.web.templates import engine_titles, render

RECENT = timedelta(days=30)
MAX_RUNS_PER_SERIES = 64
"""The most runs of each configuration and suite."""


class RecentChange(NamedTuple):
    sentence: str
    config: str
    fingerprint: str
    before: str
    after: str
    """The public ids of the runs before and after a shift; for a drift, of the first and the newest run."""
    is_worse: bool
    is_drift: bool


def recent_changes(session: Session, moment: datetime) -> list[RecentChange]:
    """The shifts that began within RECENT before `moment` and still hold, and the drifts whose last run lies within it;
    of servers that are not archived, worse ones first."""
    points = newest(session, MAX_RUNS_PER_SERIES)
    timelines = hardware.timelines(session).all_changes()
    since = moment - RECENT
    changes: list[Shift | SeriesDrift] = [
        *(drift for drift in drifts(points, len(HEADLINE_METRICS), timelines) if drift.until >= since),
        *(
            shift
            for shift in shifts(points, len(HEADLINE_METRICS), timelines)
            if shift.still_holds and shift.at >= since
        ),
    ]
    if not changes:
        return []
    described = configs.describe(session)
    titles = distinct_titles({key: described[key] for key in points.used_configs}, engine_titles())
    recent = [
        _recent_change(change, titles[change.config_id], described[change.config_id].fingerprint)
        for change in reversed(changes)
    ]
    return sorted(recent, key=lambda change: not change.is_worse)


def _recent_change(change: Shift | SeriesDrift, config: str, fingerprint: str) -> RecentChange:
    triple = [metrics()[key] for key in HEADLINE_METRICS]
    worse = any(is_worse(metric_change, triple[metric_change.place]) for metric_change in change.metrics)
    if isinstance(change, SeriesDrift):
        sentence, first, last, is_drift = drift_words(change, triple), change.first, change.last, True
    else:
        sentence, first, last, is_drift = shift_words(change, triple), change.before, change.after, False
    return RecentChange(sentence[:1].upper() + sentence[1:], config, fingerprint, first, last, worse, is_drift)


router = APIRouter(include_in_schema=False)


@router.get("/", name="overview")
def show_overview(request: Request, session: ReadSession) -> Response:
    latest = latest_per_config(session)
    rows = [row for row in latest if not row.is_archived]
    archived_rows = [row for row in latest if row.is_archived]
    counts = runs.counts_by_status(session)
    comparable = _comparable(rows)
    ceilings = config_ceilings(session) if rows else {}
    known_servers = servers.list_servers(session)
    return render(
        request,
        "overview.html",
        changes=recent_changes(session, now()) if rows else [],
        trends=decode_trends(session) if rows else {},
        ceilings=ceilings,
        sparkline=sparkline,
        rows=rows,
        archived_rows=archived_rows,
        standings=standings(session, [row.public_id for row in latest]),
        fastest=_best(comparable, "decode_tokens_per_s"),
        quickest=_best(comparable, "ttft_ms"),
        nearest=_highest_share(comparable, ceilings),
        counts=counts,
        n_runs=sum(counts.values()),
        progresses=progress_now(session),
        has_machine=bool(known_servers or machines.list_machines(session)),
        servers=known_servers,
    )


def _best(rows: Sequence[RunRow], key: str) -> RunRow | None:
    """The row with the best value of a metric."""
    with_value = [row for row in rows if row.metrics[key].value is not None]
    choose = max if metrics()[key].better == "higher" else min
    return choose(with_value, key=lambda row: row.metrics[key].value or 0, default=None)


def _highest_share(
    rows: Sequence[RunRow], ceilings: Mapping[tuple[int, str], ConfigCeiling]
) -> tuple[RunRow, ConfigCeiling] | None:
    """The row with the highest share of its ceiling, and that ceiling."""
    pairs = [
        (row, ceiling) for row in rows if row.config_id and (ceiling := ceilings.get((row.config_id, row.suite_key)))
    ]
    return max(pairs, key=lambda pair: pair[1].mbu, default=None)


def _comparable(rows: Sequence[RunRow]) -> list[RunRow]:
    """The rows of one prompt, since speeds at different lengths are not comparable; without models that ran on another
    host."""
    reference = next((row for row in rows if row.suite_key == DEFAULT_SUITE), rows[0] if rows else None)
    return [
        row
        for row in rows
        if reference and row.suite_sha256 == reference.suite_sha256 and not remote_host(row.settings)
    ]
