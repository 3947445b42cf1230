"""Deleting: a page that says what goes with it, and the button on it that does it."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.core.errors import Conflict
from app.core.i18n import _
from app.db import machines, removal, runs, servers
from app.db.tables import ENDED_STATES
from app.web import flash
from app.web.deps import ReadSession, WriteSession
from app.web.paths import path_for
from app.web.templates import render

router = APIRouter(include_in_schema=False)


@router.get("/runs/{public_id}/delete", name="confirm_delete_run")
def confirm_delete_run(request: Request, session: ReadSession, public_id: str) -> Response:
    run = runs.run(session, public_id)
    if run.status not in ENDED_STATES:
        raise Conflict(_("The run waits or is being measured: cancel it first."))
    goes = removal.run_deletion_summary(session, public_id)
    return _ask(request, "run", _("run {public_id}", public_id=public_id), goes, "delete_run", public_id=public_id)


@router.post("/runs/{public_id}/delete", name="delete_run")
def delete_run(request: Request, session: WriteSession, public_id: str) -> Response:
    removal.delete_run(session, public_id)
    return flash.redirect_with_flash(request, path_for(request, "runs"), "delete_run", public_id)


@router.get("/servers/{slug}/delete", name="confirm_delete_server")
def confirm_delete_server(request: Request, session: ReadSession, slug: str) -> Response:
    server = servers.server(session, slug)
    removal.refuse_in_use(server)
    return _ask(
        request, "server", server.name, removal.server_deletion_summary(session, slug), "delete_server", slug=slug
    )


@router.post("/servers/{slug}/delete", name="delete_server")
def delete_server(request: Request, session: WriteSession, slug: str) -> Response:
    removal.delete_server(session, slug)
    return flash.redirect_with_flash(request, path_for(request, "servers"), "delete_server", slug)


@router.get("/machines/{slug}/delete", name="confirm_delete_machine")
def confirm_delete_machine(request: Request, session: ReadSession, slug: str) -> Response:
    machine = machines.machine(session, slug)
    removal.refuse_in_use(machine)
    return _ask(
        request, "machine", machine.name, removal.machine_deletion_summary(session, slug), "delete_machine", slug=slug
    )


@router.post("/machines/{slug}/delete", name="delete_machine")
def delete_machine(request: Request, session: WriteSession, slug: str) -> Response:
    removal.delete_machine(session, slug)
    return flash.redirect_with_flash(request, path_for(request, "machines"), "delete_machine", slug)


def _ask(request: Request, what: str, name: str, goes: removal.DeletionSummary, route: str, **named: str) -> Response:
    """`what` is also the name of the page that shows the thing."""
    return render(
        request,
        "delete.html",
        what=what,
        name=name,
        goes=goes,
        action=path_for(request, route, **named),
        back=path_for(request, what, **named),
    )
