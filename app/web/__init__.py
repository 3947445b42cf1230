"""The web process: pages, JSON API and live progress. It never measures.

`create_app` is the factory for uvicorn: `uvicorn --factory app.web:create_app`.
"""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.staticfiles import StaticFiles

import app
from app.core import files
from app.core.settings import Settings
from app.db.database import Database
from app.db.migrate import migrate
from app.measure.runner import Runner
from app.web import api, errors, history_api, language, login, progress
from app.web.language import LanguageMiddleware
from app.web.pages import (
    annotations,
    ceiling,
    chosen_runs,
    compare,
    configs,
    context,
    dated_notes,
    devices,
    explore,
    history,
    leaderboard,
    machines,
    model_speeds,
    models,
    overview,
    reference,
    removal,
    run,
    runs,
    saved_views,
    servers,
    shared,
    shares,
    suites,
)
from app.web.paths import routes_by_name
from app.web.security import HeadMiddleware, SecurityMiddleware, allowed_hosts, check_listen

PAGES = (
    overview,
    chosen_runs,
    runs,
    run,
    annotations,
    configs,
    context,
    history,
    dated_notes,
    saved_views,
    compare,
    explore,
    ceiling,
    devices,
    machines,
    leaderboard,
    model_speeds,
    models,
    servers,
    suites,
    removal,
    shares,
    shared,
    reference,
)
"""In matching order: `/runs/new` before `/runs/{public_id}`, `/machines/devices` before `/machines/{slug}`,
`/models/named` before `/models/{model_id}`."""
COMPRESSION_LEVEL = 5
"""Pages shrink to a fifth or a tenth within a few milliseconds; higher levels gain little. No page contains a secret
beside text from its address, so that compressed lengths reveal nothing. Streams are not compressed."""


def create_app(settings: Settings | None = None, runner: Runner | None = None) -> FastAPI:
    """The application. `settings` default to the environment, `runner` to one with these settings. Raises BadInput for
    unsafe settings, StorageError for an unusable data folder."""
    settings = settings or Settings()
    check_listen(settings)
    web = FastAPI(
        title="Roofmark",
        version=app.__version__,
        docs_url=None,  # FastAPI's pages load from a CDN; ours is pages/reference.py
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        lifespan=_lifespan,
    )
    web.state.settings = settings
    web.state.database = Database(settings.effective_database_url, settings.session_info)
    web.state.stopping = Event()  # set when the server stops: open streams would delay it
    web.state.runner = runner or Runner(web.state.database, settings)
    for part in (login, language, api, history_api, progress, *PAGES):
        # as they are: include_router makes another route of each, which takes 40 ms and the memory again
        web.router.routes.extend(part.router.routes)
    web.mount("/static", StaticFiles(directory=files.STATIC), name="static")
    web.state.routes = routes_by_name(web)
    errors.install(web)
    web.add_middleware(HeadMiddleware)
    web.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=COMPRESSION_LEVEL)
    if settings.password is not None:  # middleware added last runs first
        web.state.sessions = login.Sessions(settings)
        web.add_middleware(login.AuthMiddleware, password=settings.password.get_secret_value())
        web.add_middleware(
            SessionMiddleware,
            secret_key=login.session_key(settings),
            session_cookie="roofmark",
            same_site="strict",
            path=settings.root_path.rstrip("/") or "/",
        )
    web.add_middleware(LanguageMiddleware)
    web.add_middleware(
        SecurityMiddleware,
        hosts=allowed_hosts(settings),
        root_path=settings.root_path.rstrip("/"),
        refuse=errors.refusal,
    )
    return web


@asynccontextmanager
async def _lifespan(web: FastAPI) -> AsyncIterator[None]:
    database: Database = web.state.database
    await run_in_threadpool(migrate, database, files.MIGRATIONS)
    gc.freeze()  # imported modules live as long as the process
    # pages are served while the engines are still being loaded
    watching = asyncio.create_task(run_in_threadpool(web.state.runner.watch))
    try:
        yield
    finally:
        await watching
        await run_in_threadpool(web.state.runner.stop_watching)
        database.dispose()
