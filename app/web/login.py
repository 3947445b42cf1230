"""Login with the one password: as a session in the browser, or as a bearer token for programs."""

import asyncio
import hashlib
import hmac
import secrets
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.core.errors import StorageError
from app.core.i18n import _
from app.core.secrets import Secrets
from app.core.settings import Settings
from app.schemas.base import HealthDocument
from app.web import errors
from app.web.paths import is_public, local_path, path_for, route_path
from app.web.templates import is_logged_in, render

OPEN_PATHS = frozenset({"/health", "/login", "/language"})
MIN_DELAY_S, MAX_DELAY_S = 0.05, 3.0

router = APIRouter()


def session_key(settings: Settings) -> str:
    """The key that signs session cookies; changing the password changes it, which ends all sessions."""
    assert settings.password is not None
    password = settings.password.get_secret_value()
    return Secrets(settings).derive(f"session {hashlib.sha256(password.encode()).hexdigest()}")


class Sessions:
    """The token that every session contains; logging out renews it, which ends all sessions, stolen ones too."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.data_dir / "sessions"
        try:
            self.token = self._path.read_text(encoding="ascii")
        except OSError:  # no file yet: nobody is logged in
            self.token = ""
        if not self.token:
            self.renew()

    def renew(self) -> None:
        self.token = secrets.token_urlsafe(16)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(self.token, encoding="ascii")
        except OSError as error:
            raise StorageError(
                _("The file {path} cannot be written: {why}.", path=self._path, why=_(str(error.strerror)))
            ) from error


class AuthMiddleware:
    """Pure ASGI, inside the session middleware: requires the password, except on OPEN_PATHS and public pages."""

    def __init__(self, app: ASGIApp, password: str) -> None:
        self.app = app
        self._passwords = PasswordChecker(password)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        scope["passwords"] = self._passwords
        path = route_path(request)
        if path in OPEN_PATHS or path.startswith("/static/") or is_public(request) or is_logged_in(request):
            await self.app(scope, receive, send)
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and await self._passwords.match(token.strip().encode("latin-1")):
            await self.app(scope, receive, send)
            return
        await _login_required(request)(scope, receive, send)


class PasswordChecker:
    """Compares in constant time; consecutive wrong guesses wait in a queue, each longer than the one before."""

    def __init__(self, password: str) -> None:
        self._digest = hashlib.sha256(password.encode()).digest()
        self._failures = 0
        self._queue = asyncio.Lock()

    async def match(self, guess: bytes) -> bool:
        if hmac.compare_digest(hashlib.sha256(guess).digest(), self._digest):
            self._failures = 0
            return True
        async with self._queue:
            await asyncio.sleep(min(MAX_DELAY_S, MIN_DELAY_S * 2 ** min(self._failures, 10)))
            self._failures += 1
        return False


def _login_required(request: Request) -> Response:
    if errors.wants_json(request):
        response = errors.response(request, 401, "This needs the password: send it as `Authorization: Bearer …`.")
        response.headers["www-authenticate"] = "Bearer"
        return response
    came_for = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    target = path_for(request, "login")
    if request.method == "GET" and request.headers.get("hx-request") != "true":
        return RedirectResponse(f"{target}?next={quote(came_for, safe='')}", status_code=303)
    response = errors.response(request, 401, _("Your session has ended: log in again."))
    response.headers["hx-redirect"] = target
    return response


@router.get("/login", name="login", include_in_schema=False)
def show_login(request: Request, next: str = "") -> Response:
    if is_logged_in(request):
        return RedirectResponse(local_path(next) or path_for(request, "overview"), status_code=303)
    return render(request, "login.html", next=next, wrong=False)


@router.post("/login", include_in_schema=False)
async def log_in(
    request: Request, password: Annotated[str, Form()] = "", next: Annotated[str, Form()] = ""
) -> Response:
    home = path_for(request, "overview")
    passwords: PasswordChecker | None = request.scope.get("passwords")
    if passwords is None:  # no password is set
        return RedirectResponse(home, status_code=303)
    if not await passwords.match(password.encode()):
        return render(request, "login.html", status=401, next=next, wrong=True)
    request.session["token"] = request.app.state.sessions.token
    return RedirectResponse(local_path(next) or home, status_code=303)


@router.post("/logout", name="logout", include_in_schema=False)
def log_out(request: Request) -> Response:
    if "session" in request.scope:
        request.session.clear()
        request.app.state.sessions.renew()
    return RedirectResponse(path_for(request, "login"), status_code=303)


@router.get("/health", name="health", summary="Check the server", tags=["server"], response_model=HealthDocument)
def health() -> dict[str, str]:
    """Answers as soon as pages are served; needs no password."""
    return {"status": "ok"}
