"""Deleting: a page that says what goes with it, and the button on it that does it."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.errors import Conflict
from app.i18n import _
from app.models import ENDED_STATES
from app.store import machines, removal, runs, servers
from app.web import done
from app.web.deps import Reading, Writing
from app.web.paths import path_for
from app.web.render import render

router = APIRouter(include_in_schema=False)


@router.get("/runs/{public_id}/delete", name="confirm_delete_run")
def confirm_delete_run(request: Request, session: Reading, public_id: str) -> Response:
    run = runs.run(session, public_id)
    if run.status not in ENDED_STATES:
        raise Conflict(_("The run waits or is being measured: cancel it first."))
    goes = removal.goes_with_run(session, public_id)
    return _ask(request, "run", _("run {public_id}", public_id=public_id), goes, "delete_run", public_id=public_id)


@router.post("/runs/{public_id}/delete", name="delete_run")
def delete_run(request: Request, session: Writing, public_id: str) -> Response:
    removal.delete_run(session, public_id)
    return done.then(request, path_for(request, "runs"), "delete_run", public_id)


@router.get("/servers/{slug}/delete", name="confirm_delete_server")
def confirm_delete_server(request: Request, session: Reading, slug: str) -> Response:
    server = servers.server(session, slug)
    removal.refuse_in_use(server)
    return _ask(request, "server", server.name, removal.goes_with_server(session, slug), "delete_server", slug=slug)


@router.post("/servers/{slug}/delete", name="delete_server")
def delete_server(request: Request, session: Writing, slug: str) -> Response:
    removal.delete_server(session, slug)
    return done.then(request, path_for(request, "servers"), "delete_server", slug)


@router.get("/machines/{slug}/delete", name="confirm_delete_machine")
def confirm_delete_machine(request: Request, session: Reading, slug: str) -> Response:
    machine = machines.machine(session, slug)
    removal.refuse_in_use(machine)
    return _ask(request, "machine", machine.name, removal.goes_with_machine(session, slug), "delete_machine", slug=slug)


@router.post("/machines/{slug}/delete", name="delete_machine")
def delete_machine(request: Request, session: Writing, slug: str) -> Response:
    removal.delete_machine(session, slug)
    return done.then(request, path_for(request, "machines"), "delete_machine", slug)


def _ask(request: Request, what: str, name: str, goes: removal.Goes, route: str, **named: str) -> Response:
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
