"""One run: its metrics, its samples, how it was measured, and what was different before."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.db import restarts, runs
from app.results import hardware
from app.results.load_run import load_run
from app.web import restart_form
from app.web.deps import Form, ReadSession, WriteSession
from app.web.paths import path_for
from app.web.run_page import run_page
from app.web.templates import render

router = APIRouter(include_in_schema=False)


@router.get("/runs/{public_id}", name="run")
def show_run(request: Request, session: ReadSession, public_id: str, point: str | None = None) -> Response:
    """Shows a run; `point` is the key of the workload whose charts are shown, the suite's main workload by default."""
    page = run_page(load_run(session, public_id), point, request.query_params)
    return render(request, "run.html", page=page)


@router.post("/runs/{public_id}/hardware", name="refreeze_hardware")
def refreeze_hardware(request: Request, session: WriteSession, public_id: str) -> Response:
    """Replaces the run's frozen hardware by what is known of the machine today, at a person's request."""
    hardware.refreeze(session, runs.run(session, public_id))
    return RedirectResponse(path_for(request, "run", public_id=public_id) + "#ceiling-title", status_code=303)


@router.post("/runs/{public_id}/restart", name="answer_restart")
def answer_restart(request: Request, session: WriteSession, form: Form, public_id: str) -> Response:
    """Stores what a person changed when they restarted the server before this run; `server` is the slug of the page to
    go back to, the run's own where it is empty."""
    restarts.answer(session, public_id, restart_form.parse_answer(form))
    slug = form.get("server")
    path = path_for(request, "server", slug=slug) if slug else path_for(request, "run", public_id=public_id)
    return RedirectResponse(path, status_code=303)
