from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from app.core.errors import BadInput, NotFound
from app.core.i18n import _
from app.db import suites
from app.suites import BUILT_IN, Suite
from app.web import flash
from app.web.deps import Form, ReadSession, WriteSession
from app.web.forms import Fields
from app.web.paths import path_for
from app.web.templates import render

router = APIRouter(include_in_schema=False)


@router.get("/suites", name="suites")
def list_suites(request: Request, session: ReadSession) -> Response:
    return render(
        request,
        "suites.html",
        suites=suites.list_suites(session),
        archived=suites.list_suites(session, archived=True),
        built_in=BUILT_IN,
    )


@router.get("/suites/new", name="new_suite")
def new_suite(request: Request) -> Response:
    form = Fields([("output_tokens", "128"), ("repetitions", "5"), ("warmups", "1")])
    return render(request, "suite_form.html", form=form, suite=None, error=None)


@router.post("/suites", name="add_suite")
def add_suite(request: Request, session: WriteSession, form: Form) -> Response:
    try:
        added = suites.save_suite(session, form.text("title", _("The title"), 120), _definition(form))
    except BadInput as error:
        return render(request, "suite_form.html", status=error.http_status, form=form, suite=None, error=error)
    return _to(request, added.key)


@router.get("/suites/{key}", name="suite")
def show_suite(request: Request, session: ReadSession, key: str) -> Response:
    archived = next(
        (archived_suite for archived_suite in suites.list_suites(session, archived=True) if archived_suite.key == key),
        None,
    )
    suite = archived or _suite(session, key)
    return render(request, "suite.html", suite=suite, is_own=key not in BUILT_IN, is_archived=archived is not None)


@router.get("/suites/{key}/edit", name="edit_suite")
def edit_suite(request: Request, session: ReadSession, key: str) -> Response:
    suite = _own_suite(session, key)
    (case,) = suite.cases
    form = Fields(
        [
            ("title", suite.title),
            ("prompt", case.prompt),
            ("output_tokens", str(case.point.output_tokens)),
            ("repetitions", str(suite.repetitions)),
            ("warmups", str(suite.warmups)),
        ]
    )
    return render(request, "suite_form.html", form=form, suite=suite, error=None)


@router.post("/suites/{key}", name="save_suite")
def save_suite(request: Request, session: WriteSession, form: Form, key: str) -> Response:
    suite = _own_suite(session, key)
    try:
        suites.save_suite(session, form.text("title", _("The title"), 120), _definition(form), key)
    except BadInput as error:
        return render(request, "suite_form.html", status=error.http_status, form=form, suite=suite, error=error)
    return _to(request, key)


@router.post("/suites/{key}/archive", name="archive_suite")
def archive_suite(request: Request, session: WriteSession, key: str) -> Response:
    suites.archive_suite(session, _own_suite(session, key).key)
    return flash.redirect_with_flash(request, path_for(request, "suite", key=key), "archive_suite", key)


@router.post("/suites/{key}/restore", name="restore_suite")
def restore_suite(request: Request, session: WriteSession, key: str) -> Response:
    suites.archive_suite(session, key, archived=False)
    return _to(request, key)


def _to(request: Request, key: str) -> Response:
    return RedirectResponse(path_for(request, "suite", key=key), status_code=303)


def _suite(session: ReadSession, key: str) -> Suite:
    try:
        return suites.suite(session, key)
    except BadInput as error:  # an address that names nothing, not a typing error
        raise NotFound(str(error)) from error


def _own_suite(session: ReadSession, key: str) -> Suite:
    if key in BUILT_IN:
        raise BadInput(_("{key!r} is built in and stays as it is: add a suite of your own.", key=key))
    return _suite(session, key)


def _definition(form: Fields) -> dict[str, str]:
    return {key: form.get(key) for key in ("prompt", "output_tokens", "repetitions", "warmups")}
