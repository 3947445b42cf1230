"""The list of runs, and the form that queues one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from app.core.errors import RoofmarkError
from app.core.i18n import N_, _
from app.db import runs as stored_runs
from app.db import servers, suites
from app.db.runs import MAX_NOTE_CHARS, MAX_QUEUED_AT_ONCE
from app.db.saved_views import views_of
from app.metrics import HEADLINE_METRICS
from app.results import run_columns, run_list
from app.results.compare import standings
from app.results.run_columns import DEFAULT_COLUMNS, Column, chosen_columns, csv_blocks
from app.results.run_list import DEFAULT_SORT, group_title
from app.results.wrong_runs import wrong_runs
from app.suites import DEFAULT_SUITE
from app.web.deps import DatabaseDep, FilterDep, Form, ReadSession, RunnerDep
from app.web.filter_choices import filter_choices
from app.web.forms import Fields, WrongField
from app.web.paths import path_for
from app.web.progress import progress_now
from app.web.rerun import rerun_fields
from app.web.run_form import SETTING, Chosen, changed_settings, chosen_of, last_used, order_words, plan_of
from app.web.templates import render

PER_PAGE = 50
GROUP_TITLES = {
    "model": N_("Model and quantization"),
    "machine": N_("Machine"),
    "server": N_("Server"),
    "suite": N_("Suite"),
    "configuration": N_("Configuration"),
    "status": N_("State"),
}
"""The groups of results.run_list.GROUPS, with titles."""

router = APIRouter(include_in_schema=False)


@router.get("/runs", name="runs")
def list_runs(
    request: Request,
    session: ReadSession,
    where: FilterDep,
    sort: str = DEFAULT_SORT,
    order: Annotated[str, Query(pattern="^(asc|desc)$")] = "desc",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    group: str = "",
    columns: Annotated[Sequence[str], Query()] = (),
) -> Response:
    """Lists runs; all state of the list is in its address."""
    offered = run_columns.columns(session)
    chosen = chosen_columns(columns, offered)
    keys = list(dict.fromkeys((*HEADLINE_METRICS, *(column.metric for column in chosen if column.metric))))
    rows, total = run_list.list_runs(session, where, sort, order == "desc", page, PER_PAGE, keys, group=group)
    path = path_for(request, "runs")
    chosen_keys = tuple(column.key for column in chosen)
    state = {"sort": sort, "order": order, "group": group, "page": page, "columns": chosen_keys}
    defaults = {"sort": DEFAULT_SORT, "order": "desc", "page": 1}
    if set(chosen_keys) == set(DEFAULT_COLUMNS):
        state["columns"] = ()

    def url(**changed: object) -> str:
        """The address of this list with `changed` parameters; defaults are left out."""
        parameters = {**where.active, **state, **changed}
        query = {key: value for key, value in parameters.items() if value and value != defaults.get(key)}
        return f"{path}?{urlencode(query, doseq=True)}" if query else path

    public_ids = [row.public_id for row in rows]
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
        sorts=_sorts(offered.values()),
        group=group,
        groups=GROUP_TITLES,
        group_title=group_title,
        columns=chosen,
        offered=offered,
        page=page,
        n_pages=max(1, -(-total // PER_PAGE)),
        url=url,
        csv_query=urlencode(where.active),
        progresses=progress_now(session),
        standings=standings(session, public_ids),
        wrong=wrong_runs(session, public_ids),
    )
    response.headers["hx-push-url"] = url()
    return response


def _sorts(offered: Iterable[Column]) -> list[tuple[str, str]]:
    """What the list may be sorted by, with titles."""
    sortable = [(column.sort, column.title) for column in offered if column.sort]
    return [("model", _("Model")), *sortable]


@router.get("/runs.csv", name="runs_csv")
def runs_csv(database: DatabaseDep, where: FilterDep) -> Response:
    """All runs that match, whatever page is shown."""

    def blocks() -> Iterator[str]:
        with database.read() as session:
            yield from csv_blocks(session, where)

    headers = {"content-disposition": 'attachment; filename="roofmark-runs.csv"'}
    return StreamingResponse(blocks(), media_type="text/csv", headers=headers)


@router.get("/runs/new", name="new_run")
def new_run(request: Request, session: ReadSession) -> Response:
    """The form, filled in from the address; `like` names a run that is measured again with a change."""
    form = Fields(request.query_params.multi_items())
    if not form.all("suite"):
        form = Fields([*form.items(), ("suite", DEFAULT_SUITE)])
    return _form(request, session, form)


@router.get("/runs/new/checks", name="run_checks")
def check_run(request: Request, session: ReadSession) -> Response:
    """The part of the form that depends on the server and the model."""
    form = _without_settings(Fields(request.query_params.multi_items()))
    chosen = chosen_of(session, servers.server(session, form.get("server")), form)
    return render(request, "_run_checks.html", chosen=chosen, form=chosen.form, wrong="")


def _without_settings(form: Fields) -> Fields:
    """Without what was typed for another server or model."""
    return Fields([(key, value) for key, value in form.items() if not key.startswith(SETTING)])


@router.get("/runs/new/plan", name="run_plan")
def show_plan(request: Request, session: ReadSession) -> Response:
    """What the chosen runs take, and which points they leave out."""
    form = Fields(request.query_params.multi_items())
    chosen = chosen_of(session, servers.server(session, form.get("server")), form)
    return render(request, "_run_plan.html", is_partial=True, **_plan(session, chosen, form))


@router.post("/runs", name="add_run")
def add_run(request: Request, database: DatabaseDep, runner: RunnerDep, form: Form) -> Response:
    """Queues `runs` runs of each suite, one of one by default, and redirects to the first."""
    try:
        count = form.integer("runs", _("The number of runs"))
        server = form.required("server", _("The server"), 80)
        form.required("suite", _("The suite"), 60)
        with database.read() as session:
            settings = changed_settings(session, form)
        first, *_others = runner.queue(
            server,
            form.all("suite"),
            1 if count is None else count,
            repetitions=form.integer("repetitions", _("Repetitions")),
            warmups=form.integer("warmups", _("Warm-ups")),
            model=form.text("model", _("The model"), 300) or None,
            note=form.text("note", _("The note"), MAX_NOTE_CHARS),
            settings=settings,
        )
    except RoofmarkError as error:
        with database.read() as session:
            return _form(request, session, form, error)
    return RedirectResponse(path_for(request, "run", public_id=first), status_code=303)


@router.post("/runs/{public_id}/again", name="run_again")
def run_again(request: Request, database: DatabaseDep, runner: RunnerDep, public_id: str) -> Response:
    """Queues one run of the same server, model, suite and counts, with the settings of today, and redirects to it."""
    with database.read() as session:
        run = stored_runs.run(session, public_id)
        fields = Fields(rerun_fields(run, run.server, run.config).items())
    (again,) = runner.queue(
        fields.get("server"),
        fields.get("suite"),
        1,
        repetitions=fields.integer("repetitions", _("Repetitions")),
        warmups=fields.integer("warmups", _("Warm-ups")),
        model=fields.get("model") or None,
        note="",
    )
    return RedirectResponse(path_for(request, "run", public_id=again), status_code=303)


def _form(request: Request, session: Session, form: Fields, error: RoofmarkError | None = None) -> Response:
    all_servers = servers.list_servers(session)
    by_slug = {server.slug: server for server in all_servers}
    server = by_slug.get(form.get("server")) or last_used(session, all_servers)
    chosen = chosen_of(session, server, form) if server else None
    return render(
        request,
        "run_form.html",
        status=error.http_status if error else 200,
        form=chosen.form if chosen else form,
        error=error,
        wrong=error.field if isinstance(error, WrongField) else "",
        servers=all_servers,
        chosen=chosen,
        suites=suites.list_suites(session),
        most_runs=MAX_QUEUED_AT_ONCE,
        is_partial=False,
        **(_plan(session, chosen, form) if chosen else {}),
    )


def _plan(session: Session, chosen: Chosen, form: Fields) -> dict[str, Any]:
    plan = plan_of(session, chosen, form)
    return {"plan": plan, "order": order_words(plan)}
