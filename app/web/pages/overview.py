"""The newest figures at a glance."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.core.config_settings import remote_host
from app.db import machines, runs, servers
from app.db.tables import now
from app.metrics import metrics
from app.results.ceiling import ConfigCeiling, config_ceilings
from app.results.compare import standings
from app.results.run_list import RunRow, decode_trends, latest_per_config
from app.suites import DEFAULT_SUITE
from app.web.deps import ReadSession
from app.web.progress import progress_now
from app.web.shifts import news
from app.web.templates import render

router = APIRouter(include_in_schema=False)


@router.get("/", name="overview")
def show_overview(request: Request, session: ReadSession) -> Response:
    latest = latest_per_config(session)
    rows = [row for row in latest if not row.is_archived]
    archived_rows = [row for row in latest if row.is_archived]
    counts = runs.counts_by_status(session)
    comparable = _comparable(rows)
    roofs = config_ceilings(session) if rows else {}
    known_servers = servers.list_servers(session)
    from app.charts import sparkline  # loads the figures: not at start

    return render(
        request,
        "overview.html",
        shifts=news(session, now()) if rows else [],
        trends=decode_trends(session) if rows else {},
        roofs=roofs,
        sparkline=sparkline,
        rows=rows,
        archived_rows=archived_rows,
        standings=standings(session, [row.public_id for row in latest]),
        fastest=_best(comparable, "decode_tokens_per_s"),
        quickest=_best(comparable, "ttft_ms"),
        nearest=_nearest(comparable, roofs),
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


def _nearest(
    rows: Sequence[RunRow], roofs: Mapping[tuple[int, str], ConfigCeiling]
) -> tuple[RunRow, ConfigCeiling] | None:
    """The row with the highest share of its ceiling, and that ceiling."""
    found = [(row, roof) for row in rows if row.config_id and (roof := roofs.get((row.config_id, row.suite_key)))]
    return max(found, key=lambda pair: pair[1].mbu, default=None)


def _comparable(rows: Sequence[RunRow]) -> list[RunRow]:
    """Of rows, newest first, those of one prompt: speeds at different lengths are different things. What ran elsewhere
    is no result of a machine here."""
    reference = next((row for row in rows if row.suite_key == DEFAULT_SUITE), rows[0] if rows else None)
    return [
        row
        for row in rows
        if reference and row.suite_sha256 == reference.suite_sha256 and not remote_host(row.settings)
    ]
