"""One configuration: its settings, what changed, its runs, and a note."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.db import configs
from app.results.ceiling import config_ceilings
from app.results.previous import previous_of_config
from app.results.run_filter import RunFilter
from app.results.run_list import list_runs
from app.results.wrong_runs import wrong_runs
from app.web.deps import ReadSession
from app.web.templates import engine_titles, render

LATEST_RUNS = 20

router = APIRouter(include_in_schema=False)


@router.get("/configs/{fingerprint}", name="config")
def show_config(request: Request, session: ReadSession, fingerprint: str, server: str = "") -> Response:
    """`server` selects one of the servers that measured the configuration; the newest by default."""
    config = configs.config(session, fingerprint, server or None)
    rows, total = list_runs(
        session, RunFilter(config=config.fingerprint, server=config.server.slug), per_page=LATEST_RUNS
    )
    return render(
        request,
        "config.html",
        config=config,
        model=config.model,
        server=config.server,
        machine=config.server.machine,
        other_servers=configs.other_servers(session, config),
        previous=previous_of_config(session, config, engine_titles()),
        rows=rows,
        total=total,
        wrong=wrong_runs(session, [row.public_id for row in rows]),
        newest=next((row.public_id for row in rows if row.status == "done" and row.hidden_at is None), None),
        suites=sorted({row.suite_key for row in rows}),
        ceilings_by_suite={
            suite: ceiling
            for (config_id, suite), ceiling in config_ceilings(session, config.server.machine_id).items()
            if config_id == config.id
        },
    )
