"""The overview: the newest results, the fastest configurations, and what is running."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.core.configuration import runs_elsewhere
from app.db import machines, runs, servers
from app.db.tables import now
from app.results.ceiling import ConfigCeiling, config_ceilings
from app.results.compare import standings
from app.results.run_list import Row, decode_trends, latest_per_config
from app.suites import USUAL
from app.web.deps import ReadSession
from app.web.progress import progress_now
from app.web.recent_changes import recent_changes
from app.web.templates import render

router = APIRouter(include_in_schema=False)


@router.get("/", name="overview")
def show_overview(request: Request, session: ReadSession) -> Response:
    rows = latest_per_config(session, archived=False)
    archived_rows = latest_per_config(session, archived=True)
    counts = runs.counts_by_status(session)
    comparable = _comparable(rows)
    with_decode = [row for row in comparable if row.decode.value is not None]
    with_ttft = [row for row in comparable if row.ttft.value is not None]
    ceilings = config_ceilings(session) if rows else {}
    known_servers = servers.list_servers(session)
    from app.charts import sparkline  # loads the figures: not at start

    return render(
        request,
        "overview.html",
        changes=recent_changes(session, now()) if rows else [],
        trends=decode_trends(session) if rows else {},
        ceilings=ceilings,
        sparkline=sparkline,
        rows=rows,
        archived_rows=archived_rows,
        standings=standings(session, [row.public_id for row in [*rows, *archived_rows]]),
        fastest=max(with_decode, key=lambda row: row.decode.value or 0, default=None),
        quickest=min(with_ttft, key=lambda row: row.ttft.value or 0, default=None),
        nearest=_highest_share(comparable, ceilings),
        counts=counts,
        n_runs=sum(counts.values()),
        progresses=progress_now(session),
        has_machine=bool(known_servers or machines.list_machines(session)),
        servers=known_servers,
    )


def _highest_share(
    rows: Sequence[Row], ceilings: Mapping[tuple[int, str], ConfigCeiling]
) -> tuple[Row, ConfigCeiling] | None:
    """The row with the highest share of its ceiling, and that ceiling."""
    pairs = [
        (row, ceiling) for row in rows if row.config_id and (ceiling := ceilings.get((row.config_id, row.suite_key)))
    ]
    return max(pairs, key=lambda pair: pair[1].mbu, default=None)


def _comparable(rows: Sequence[Row]) -> list[Row]:
    """The rows of one prompt, since speeds at different lengths are not comparable; without models that ran on another
    host."""
    reference = next((row for row in rows if row.suite_key == USUAL), rows[0] if rows else None)
    return [
        row
        for row in rows
        if reference and row.suite_sha256 == reference.suite_sha256 and not runs_elsewhere(row.settings)
    ]
