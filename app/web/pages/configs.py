"""One configuration: what is frozen, what changed before it, what it measured, and a person's note."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.db import configs
from app.results.ceiling import config_ceilings
from app.results.previous import previous_of_config
from app.results.run_filter import RunFilter
from app.results.run_list import list_runs
from app.web.deps import ReadSession
from app.web.templates import engine_titles, render

LATEST_RUNS = 20

router = APIRouter(include_in_schema=False)


@router.get("/configs/{fingerprint}", name="config")
def show_config(request: Request, session: ReadSession, fingerprint: str, server: str = "") -> Response:
    """The same configuration may have been measured on several servers: `server` says which, the newest without it."""
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
        elsewhere=configs.other_servers(session, config),
        previous=previous_of_config(session, config, engine_titles()),
        rows=rows,
        total=total,
        newest=next((row.public_id for row in rows if row.status == "done" and row.hidden_at is None), None),
        suites=sorted({row.suite_key for row in rows}),
        ceilings={
            suite: roof
            for (config_id, suite), roof in config_ceilings(session, config.server.machine_id).items()
            if config_id == config.id
        },
    )
