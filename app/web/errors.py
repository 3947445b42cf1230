"""Error responses of one sentence each: a page, an htmx fragment, or JSON under /api and for addresses in .json."""

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.core import i18n
from app.core.errors import NotFound, RoofmarkError
from app.core.i18n import N_, _
from app.schemas.base import ErrorDocument
from app.web import language
from app.web.paths import is_public, route_path
from app.web.templates import is_partial, render

log = logging.getLogger(__name__)

_SENTENCES = {
    404: N_("There is nothing at this address."),
    405: N_("This address does not accept that kind of request."),
}
_HEADINGS = {
    403: N_("Refused"),
    404: N_("Not found"),
    500: N_("An error"),
    502: N_("The server does not answer correctly"),
}
_HEADING = N_("Not possible")
_INVALID = {
    "greater_than_equal": N_("{title} must be at least {ge}."),
    "int_parsing": N_("{title} must be a whole number."),
    "less_than_equal": N_("{title} must be at most {le}."),
    "missing": N_("{title} is missing."),
    "string_pattern_mismatch": N_("{title} is not one of its possible values."),
}
"""By the type of Pydantic's error of a value in an address or a form."""


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documentation of errors with these statuses."""
    return {status: {"model": ErrorDocument, "description": HTTPStatus(status).phrase} for status in statuses}


def install(web: FastAPI) -> None:
    web.add_exception_handler(RoofmarkError, _known)
    web.add_exception_handler(RequestValidationError, _invalid)
    web.add_exception_handler(HTTPException, _http)


def wants_json(request: Request) -> bool:
    path = route_path(request)
    return path == "/api" or path.startswith("/api/")


def response(request: Request, status: int, sentence: str) -> Response:
    if wants_json(request) or route_path(request).endswith(".json"):
        return JSONResponse({"error": {"message": sentence}}, status_code=status)
    template = "share_error.html" if is_public(request) else "_error.html" if is_partial(request) else "error.html"
    return render(request, template, status=status, sentence=sentence, heading=_(_HEADINGS.get(status, _HEADING)))


def refusal(request: Request, status: int, sentence: str) -> Response:
    """A response in the reader's language, for middleware that runs before the language is set."""
    with i18n.use(language.request_language(request)):
        return response(request, status, i18n.localized(_(sentence)))


def _known(request: Request, error: Exception) -> Response:
    assert isinstance(error, RoofmarkError)
    if error.__cause__ is not None and not isinstance(error, NotFound):  # not worth a log entry
        log.warning("%s", error, exc_info=error)
    return response(request, error.http_status, i18n.localized(error.message))  # a share is read in English


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:] if isinstance(part, str))
    if where and not wants_json(request) and (template := _INVALID.get(first["type"])):
        return response(request, 422, _(template, title=where, **first.get("ctx", {})))
    what = f"{where}: {first['msg']}" if where else first["msg"]
    return response(request, 422, f"{what[0].upper()}{what[1:]}.")


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = _SENTENCES.get(error.status_code, HTTPStatus(error.status_code).phrase + ".")
    made = response(request, error.status_code, _(sentence))
    made.headers.update(error.headers or {})
    return made
