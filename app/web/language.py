"""The reader's language: their own choice in a cookie, else what the browser asks for."""

from typing import Annotated

from fastapi import APIRouter, Form
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core import i18n
from app.core.errors import BadInput
from app.core.i18n import _
from app.web.paths import home_path, is_for_programs, local_path, path_for

COOKIE = "roofmark_language"
MAX_AGE_S = 365 * 86400

router = APIRouter(include_in_schema=False)


class LanguageMiddleware:
    """Pure ASGI: sets the language of pages; responses to programs are in English."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_for_programs(request := Request(scope)):
            await self.app(scope, receive, send)
            return

        async def send_varying(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.add_vary_header("accept-language, cookie")
            await send(message)

        with i18n.use(request_language(request)):
            await self.app(scope, receive, send_varying)


def request_language(request: Request) -> str:
    """The reader's choice from the cookie, else the browser's preference; English for programs."""
    if is_for_programs(request):
        return i18n.ENGLISH
    chosen = request.cookies.get(COOKIE, "")
    return chosen if chosen in i18n.LANGUAGES else i18n.accepted(request.headers.get("accept-language", ""))


@router.post("/language", name="choose_language")
def choose_language(
    request: Request, language: Annotated[str, Form()] = "", back: Annotated[str, Form()] = ""
) -> Response:
    if language not in i18n.LANGUAGES:
        raise BadInput(_("Roofmark has no translation into that language."))
    answer = RedirectResponse(local_path(back) or path_for(request, "overview"), status_code=303)
    answer.set_cookie(COOKIE, language, MAX_AGE_S, path=home_path(request), httponly=True, samesite="lax")
    return answer


def return_address(request: Request) -> str:
    """The address to return to after choosing a language; the overview after a form, which has no address."""
    if request.method != "GET":
        return path_for(request, "overview")
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")
