"""Checks of every request (host, origin, size), headers of every response, and HEAD."""

import ipaddress
import logging
import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core.errors import BadInput
from app.core.i18n import N_, _
from app.core.settings import Settings
from app.web.paths import is_public

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 20_000_000
"""Enough for the longest prompt of a suite, percent-encoded."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # not no-referrer: with that, browsers send `Origin: null` with the page's own forms
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
PUBLIC_HEADERS = HEADERS | {"referrer-policy": "no-referrer", "x-robots-tag": "noindex"}
"""For public pages, which have no forms."""

_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": 80, "https": 443}

RefusalResponse = Callable[[Request, int, str], Response]


def check_listen(settings: Settings) -> None:
    """Raises BadInput for an address other than loopback without a password, unless the settings allow that."""
    if is_loopback(settings.host) or settings.password is not None or settings.allow_no_password:
        return
    raise BadInput(
        f"Listening on {settings.host} lets others in: set ROOFMARK_PASSWORD, "
        "or ROOFMARK_ALLOW_NO_PASSWORD=true if that is meant."
    )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:  # a name, not an IP address
        return host.lower() == "localhost"


def allowed_hosts(settings: Settings) -> frozenset[str]:
    """Host names, without port, that requests may contain: the protection against DNS rebinding."""
    public = urlsplit(settings.public_url).hostname or "localhost"
    named = ("localhost", "127.0.0.1", "::1", settings.host, public, *settings.allowed_hosts)
    return frozenset(host.strip("[]").lower() for host in named)


class SecurityMiddleware:
    """Pure ASGI, outermost: refuses unknown hosts, foreign origins and large bodies, and sets headers on all responses.

    An unexpected exception becomes a response of one sentence here; its traceback goes to the log.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], root_path: str, refuse: RefusalResponse) -> None:
        self.app = app
        self.hosts = hosts
        self.root_path = root_path
        self.refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False
        scope["root_path"] = self.root_path

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                _set_headers(MutableHeaders(scope=message), PUBLIC_HEADERS if is_public(request) else HEADERS)
            await send(message)

        async def send_unless_too_large(message: Message) -> None:
            if not body.is_too_large:  # frameworks answer 400 to any trouble with a body
                await send_with_headers(message)

        request = Request(scope)
        refusal = self._refusal(scope)
        if refusal is not None:
            await self.refuse(request, *refusal)(scope, receive, send_with_headers)
            return
        body = _LimitedBody(receive)
        try:
            await self.app(scope, body, send_unless_too_large)
        except Exception:
            if not body.is_too_large:
                log.exception("%s %s failed", scope["method"], scope["path"])
                if started:
                    raise
                await self.refuse(request, 500, _UNEXPECTED)(scope, receive, send_with_headers)
        if body.is_too_large and not started:
            await self.refuse(request, 413, _too_large())(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        own = _authority(scope["scheme"], headers.getlist("host"))
        if own is None:
            return 400, _("The request has no valid Host header.")
        if own[1] not in self.hosts:
            return 403, _(
                "Roofmark does not answer under the name {name}: add it to ROOFMARK_ALLOWED_HOSTS.", name=own[1]
            )
        if scope["method"] not in SAFE_METHODS and not _is_same_origin(headers, own):
            return 403, _("The request came from another site, so nothing was changed.")
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            return 400, _("The request has no valid Content-Length.")
        return (413, _too_large()) if int(length) > MAX_BODY_BYTES else None


_MEGABYTES = MAX_BODY_BYTES // 1_000_000


def _too_large() -> str:
    return _("The request is larger than {megabytes} MB.", megabytes=_MEGABYTES)


_UNEXPECTED = N_("An unexpected error occurred; see Roofmark's log.")


class _TooLarge(Exception):
    pass


class _LimitedBody:
    """Counts the received bytes, since a chunked body has no Content-Length."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._n_bytes = 0
        self.is_too_large = False

    async def __call__(self) -> Message:
        message = await self._receive()
        self._n_bytes += len(message.get("body", b""))
        if self._n_bytes > MAX_BODY_BYTES:
            self.is_too_large = True
            raise _TooLarge
        return message


def _set_headers(headers: MutableHeaders, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        headers[name] = value
    # measurements are never cached; static files are cached, but revalidated
    headers.setdefault("cache-control", "no-cache" if "etag" in headers else "no-store")


def _is_same_origin(headers: Headers, own: tuple[str, str, int | None]) -> bool:
    origins, site = headers.getlist("origin"), headers.get("sec-fetch-site")
    if not origins:
        return site is None  # no browser sent this: browsers add one of the two
    if len(origins) > 1 or site not in (None, "same-origin", "none"):
        return False
    scheme, separator, authority = origins[0].lower().partition("://")
    return bool(separator) and _authority(scheme, [authority]) == own


def _authority(scheme: str, values: list[str]) -> tuple[str, str, int | None] | None:
    """Scheme, host and port of one `host[:port]`; None when it is anything else."""
    match = _AUTHORITY.fullmatch(values[0].lower()) if len(values) == 1 else None
    if match is None:
        return None
    port = match["port"]
    return scheme, match["host"].strip("[]"), int(port) if port else _DEFAULT_PORTS.get(scheme)


class HeadMiddleware:
    """Pure ASGI: every route with GET answers HEAD too, without starting a stream."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_start(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body"})
                response_scope.cancel()

        with anyio.CancelScope() as response_scope:
            await self.app({**scope, "method": "GET"}, receive, send_start)
