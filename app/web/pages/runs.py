"""The list of runs, and the form that queues one."""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.config_settings import SETTINGS
from app.core.errors import RoofmarkError
from app.core.i18n import _
from app.db import servers, suites
from app.db.runs import MAX_NOTE_CHARS, MAX_QUEUED_AT_ONCE
from app.db.saved_views import views_of
from app.db.tables import Server
from app.results import run_list
from app.results.compare import standings
from app.results.run_list import DEFAULT_SORT
from app.suites import DEFAULT_SUITE
from app.web.deps import DatabaseDep, FilterDep, Form, ReadSession, RunnerDep
from app.web.filter_choices import filter_choices
from app.web.forms import Fields
from app.web.paths import path_for
from app.web.progress import progress_now
from app.web.templates import render

PER_PAGE = 50

router = APIRouter(include_in_schema=False)


@router.get("/runs", name="runs")
def list_runs(
    request: Request,
    session: ReadSession,
    where: FilterDep,
    sort: str = DEFAULT_SORT,
    order: Annotated[str, Query(pattern="^(asc|desc)$")] = "desc",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    rows, total = run_list.list_runs(session, where, sort, order == "desc", page, PER_PAGE)
    path = path_for(request, "runs")
    state = {"sort": sort, "order": order, "page": page}
    defaults = {"sort": DEFAULT_SORT, "order": "desc", "page": 1}

    def url(**changed: object) -> str:
        """The address of this list with `changed` parameters; defaults are left out."""
        parameters = {**where.active, **state, **changed}
        query = {key: value for key, value in parameters.items() if value and value != defaults.get(key)}
        return f"{path}?{urlencode(query)}" if query else path

    response = render(
        request,
        "runs.html",
        saved_views=views_of(session, "runs"),
        rows=rows,
        total=total,
        where=where,
        choices=filter_choices(session),
        sort=sort,
        order=order,
        page=page,
        n_pages=max(1, -(-total // PER_PAGE)),
        url=url,
        progresses=progress_now(session),
        standings=standings(session, [row.public_id for row in rows]),
    )
    response.headers["hx-push-url"] = url()
    return response


@router.get("/runs/new", name="new_run")
def new_run(
    request: Request,
    database: DatabaseDep,
    runner: RunnerDep,
    server: str = "",
    suite: str = DEFAULT_SUITE,
    repetitions: str = "",
    warmups: str = "",
    model: str = "",
    runs: str = "",
) -> Response:
    """The form, filled in from the address; the note starts empty."""
    counts = {"repetitions": repetitions, "warmups": warmups, "runs": runs}
    fields = {"server": server, "suite": suite, "model": model, **counts}
    return _form(request, database, runner, Fields(fields.items()))


@router.get("/runs/new/checks", name="run_checks")
def check_run(
    request: Request, database: DatabaseDep, runner: RunnerDep, server: str = "", suite: str = DEFAULT_SUITE
) -> Response:
    """The part of the form that depends on server and suite."""
    form = Fields([("server", server), ("suite", suite)])
    with database.read() as session:
        chosen = servers.server(session, server) if server else None
    return render(request, "_run_checks.html", form=form, **_checks(runner, chosen, suite))


@router.post("/runs", name="add_run")
def add_run(request: Request, database: DatabaseDep, runner: RunnerDep, form: Form) -> Response:
    """Queues `runs` runs, one by default, and redirects to the first."""
    try:
        count = form.integer("runs", _("The number of runs"))
        first, *_others = runner.queue(
            form.required("server", _("The server"), 80),
            form.required("suite", _("The suite"), 60),
            1 if count is None else count,
            repetitions=form.integer("repetitions", _("Repetitions")),
            warmups=form.integer("warmups", _("Warm-ups")),
            model=form.text("model", _("The model"), 300) or None,
            note=form.text("note", _("The note"), MAX_NOTE_CHARS),
        )
    except RoofmarkError as error:
        return _form(request, database, runner, form, error)
    return RedirectResponse(path_for(request, "run", public_id=first), status_code=303)


def _form(
    request: Request, database: DatabaseDep, runner: RunnerDep, form: Fields, error: RoofmarkError | None = None
) -> Response:
    with database.read() as session:
        all_servers = servers.list_servers(session)
        offered = suites.list_suites(session)
    chosen = next(
        (server for server in all_servers if server.slug == form.get("server")), all_servers[0] if all_servers else None
    )
    return render(
        request,
        "run_form.html",
        status=error.http_status if error else 200,
        form=form,
        error=error,
        servers=all_servers,
        chosen=chosen,
        suites=offered,
        most_runs=MAX_QUEUED_AT_ONCE,
        **_checks(runner, chosen, form.get("suite")),
    )


def _checks(runner: RunnerDep, server: Server | None, suite: str) -> dict[str, Any]:
    if server is None:
        return {"server": None, "models": [], "unknown": [], "warnings": [], "refusal": None}
    try:
        warnings, refusal = runner.preflight(server.slug, suite), None
    except RoofmarkError as problem:
        warnings, refusal = [], problem
    settings = {**server.facts.get("settings", {}), **server.settings}
    return {
        "server": server,
        "models": server.facts.get("models", []),
        "unknown": [
            _(setting.title) for setting in SETTINGS.values() if setting.is_in_form and setting.key not in settings
        ],
        "warnings": warnings,
        "refusal": refusal,
    }
