"""Archiving and deleting: the pages that ask before, with the consequences, and deleting itself."""

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.core.errors import Conflict
from app.core.i18n import _, enumerated, noun
from app.core.units import plural
from app.db import machines, removal, runs, servers
from app.db.tables import ENDED_STATES
from app.results.run_filter import RunFilter
from app.results.run_list import count_runs
from app.web import flash
from app.web.deps import ReadSession, WriteSession
from app.web.paths import path_for
from app.web.templates import render

router = APIRouter(include_in_schema=False)


@router.get("/servers/{slug}/archive", name="confirm_archive_server")
def confirm_archive_server(request: Request, session: ReadSession, slug: str) -> Response:
    consequences = [
        _("It leaves the list of servers and cannot be measured until it is restored. Queued runs on it will fail."),
        _fate_of_runs(count_runs(session, RunFilter(server=slug))),
    ]
    return _confirm_archive(request, "server", slug, servers.server(session, slug).name, consequences)


@router.get("/machines/{slug}/archive", name="confirm_archive_machine")
def confirm_archive_machine(request: Request, session: ReadSession, slug: str) -> Response:
    consequences = [
        _(
            "It leaves the list of machines, and nothing can be measured on it until it is restored. "
            "Queued runs on it will fail."
        ),
        _fate_of_runs(count_runs(session, RunFilter(machine=slug))),
    ]
    return _confirm_archive(request, "machine", slug, machines.machine(session, slug).name, consequences)


def _confirm_archive(request: Request, kind: str, slug: str, name: str, consequences: Sequence[str]) -> Response:
    """Shows the page that asks before archiving; `kind` is server or machine, as in the names of the routes."""
    return render(
        request,
        "archive.html",
        name=name,
        action=path_for(request, f"archive_{kind}", slug=slug),
        back=path_for(request, kind, slug=slug),
        consequences=consequences,
    )


def _fate_of_runs(n_runs: int) -> str:
    if not n_runs:
        return _("It has no runs.")
    runs_stay = _("Its run stays") if n_runs == 1 else _("Its {n_runs:,} runs stay", n_runs=n_runs)
    return _(
        "{runs} in the list of runs and in the history; the overview leaves them out.",
        runs=runs_stay,
    )


@router.get("/runs/{public_id}/delete", name="confirm_delete_run")
def confirm_delete_run(request: Request, session: ReadSession, public_id: str) -> Response:
    run = runs.run(session, public_id)
    if run.status not in ENDED_STATES:
        raise Conflict(_("The run waits or is being measured: cancel it first."))
    losses = removal.run_deletion_summary(session, public_id)
    return _confirm_delete(
        request, "run", _("run {public_id}", public_id=public_id), losses, "delete_run", public_id=public_id
    )


@router.post("/runs/{public_id}/delete", name="delete_run")
def delete_run(request: Request, session: WriteSession, public_id: str) -> Response:
    removal.delete_run(session, public_id)
    return flash.redirect_with_flash(request, path_for(request, "runs"), "delete_run", public_id)


@router.get("/servers/{slug}/delete", name="confirm_delete_server")
def confirm_delete_server(request: Request, session: ReadSession, slug: str) -> Response:
    server = servers.server(session, slug)
    removal.refuse_in_use(server)
    return _confirm_delete(
        request,
        "server",
        _("the server {name}", name=server.name),
        removal.server_deletion_summary(session, slug),
        "delete_server",
        slug=slug,
    )


@router.post("/servers/{slug}/delete", name="delete_server")
def delete_server(request: Request, session: WriteSession, slug: str) -> Response:
    removal.delete_server(session, slug)
    return flash.redirect_with_flash(request, path_for(request, "servers"), "delete_server", slug)


@router.get("/machines/{slug}/delete", name="confirm_delete_machine")
def confirm_delete_machine(request: Request, session: ReadSession, slug: str) -> Response:
    machine = machines.machine(session, slug)
    removal.refuse_in_use(machine)
    return _confirm_delete(
        request,
        "machine",
        _("the machine {name}", name=machine.name),
        removal.machine_deletion_summary(session, slug),
        "delete_machine",
        slug=slug,
    )


@router.post("/machines/{slug}/delete", name="delete_machine")
def delete_machine(request: Request, session: WriteSession, slug: str) -> Response:
    removal.delete_machine(session, slug)
    return flash.redirect_with_flash(request, path_for(request, "machines"), "delete_machine", slug)


def _confirm_delete(
    request: Request, kind: str, name: str, losses: removal.DeletionSummary, route: str, **path_params: str
) -> Response:
    """Shows the page that asks before deleting; `kind` is run, server or machine, and the name of the page that shows
    it. The question and the button name what goes."""
    with_it = (
        [(losses.samples, noun("sample"))]
        if kind == "run"
        else [(losses.servers, noun("server")), (losses.runs, noun("run")), (losses.configs, noun("configuration"))]
    )
    lost = enumerated(plural(count, singular) for count, singular in with_it if count)
    return render(
        request,
        "delete.html",
        kind=kind,
        question=_("Delete {name} with its {lost}?", name=name, lost=lost) if lost else _("Delete {name}?", name=name),
        button=_button(kind, plural(losses.runs, noun("run")) if losses.runs and kind != "run" else ""),
        losses=losses,
        action=path_for(request, route, **path_params),
        back=path_for(request, kind, **path_params),
    )


def _button(kind: str, lost_runs: str) -> str:
    if kind == "run":
        return _("Delete the run")
    if kind == "server":
        return _("Delete the server and its {runs}", runs=lost_runs) if lost_runs else _("Delete the server")
    return _("Delete the machine and its {runs}", runs=lost_runs) if lost_runs else _("Delete the machine")
