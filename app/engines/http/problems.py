"""Every fault of talking to a server as one sentence. A server's page is never echoed, only its short error message."""

import os
import re
import ssl
from functools import lru_cache
from pathlib import Path

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import N_, _, joined
from app.engines.http.text import TextCleaner, is_html

_LOADING = re.compile(r"\bload(ing)?\b|starting|not ready", re.IGNORECASE)
_ABOUT_KEYS = re.compile(
    r"\bkeys?\b|token|auth|forbidden|denied|permission|credential|log ?in|sign ?in|password|not allowed", re.IGNORECASE
)
"""Words of a refusal for want of a key; any other has a reason of its own."""
HTML_PAGE = N_("An HTML page came back: check the URL or the login.")
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104  # compared with, never bound


class BodyError(Exception):
    """The body of an answer did not arrive whole: its connection was lost, or what came is no HTTP."""


class BodyTimeout(BodyError):
    """The server was silent for longer than the limit allows."""


class BodyUndecodable(BodyError):
    """The body is not compressed in the way that its header says."""


def forbidden_address() -> ServerError:
    return ServerError(
        _("That address is link-local or a cloud's metadata service: no model server can be measured there."),
        ServerErrorKind.FORBIDDEN_ADDRESS,
    )


def resolve_problem(host: str) -> ServerError:
    """The error of a name that cannot be resolved."""
    hint = ""
    if host.lower() == "host.docker.internal":
        hint = _("On Linux, start the container with --add-host=host.docker.internal:host-gateway.")
    return ServerError(joined(_("The name {host} cannot be resolved.", host=host), hint), ServerErrorKind.UNREACHABLE)


def connect_problem(host: str, port: int, cause: BaseException | None) -> ServerError:
    """The error of a connection that the operating system did not establish, for the reason `cause`."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(cause, TimeoutError):
        return ServerError(_("{place} did not answer the connection in time.", place=place), ServerErrorKind.TIMEOUT)
    if isinstance(cause, ConnectionRefusedError):
        sentence = _("Nothing listens on {place}: the connection was refused.", place=place)
        return ServerError(joined(sentence, _container_hint(host, port)), ServerErrorKind.REFUSED)
    why = _(str(getattr(cause, "strerror", None) or cause))
    return ServerError(_("{place} cannot be reached: {why}.", place=place, why=why), ServerErrorKind.UNREACHABLE)


def _container_hint(host: str, port: int) -> str:
    if host.lower() not in _LOCAL_NAMES or not in_container():
        return ""
    return _(
        "Inside a container, {host} is the container itself: use http://host.docker.internal:{port} "
        "(with extra_hosts: host.docker.internal:host-gateway) and let the server listen "
        "on 0.0.0.0 (Ollama: OLLAMA_HOST=0.0.0.0).",
        host=host,
        port=port,
    )


@lru_cache(maxsize=1)
def in_container() -> bool:
    """Whether this process runs in a container of Docker or Podman."""
    return "container" in os.environ or any(Path(path).exists() for path in ("/.dockerenv", "/run/.containerenv"))


def tls_problem(cause: BaseException | None) -> ServerError:
    """The error of a TLS handshake that failed for the reason `cause`."""
    if isinstance(cause, TimeoutError):
        return ServerError(_("The TLS handshake was not answered in time."), ServerErrorKind.TIMEOUT)
    if isinstance(cause, ssl.SSLCertVerificationError):
        sentence = _("The server's TLS certificate is not trusted: {words}.", words=cause.verify_message)
    elif isinstance(cause, ssl.SSLError):
        sentence = _("The server does not speak TLS there: try http:// instead of https://.")
    else:
        sentence = _("The server closed the connection during the TLS handshake.")
    return ServerError(sentence, ServerErrorKind.UNREACHABLE)


def body_problem(error: BodyError, path: str) -> ServerError:
    """The error of an answer whose body did not come whole."""
    if isinstance(error, BodyTimeout):
        return ServerError(
            _("The answer to {path} did not come to its end in time.", path=path), ServerErrorKind.TIMEOUT
        )
    return ServerError(
        _("The connection was lost during the answer to {path}.", path=path), ServerErrorKind.SERVER_ERROR
    )


def status_problem(status: int, content_type: str, body: bytes, *, path: str, cleaner: TextCleaner) -> ServerError:
    """The error that an answer with an HTTP status of 300 or more means."""
    message = cleaner.message_in_body(body, content_type)
    if status == 403 and message is not None and not _ABOUT_KEYS.search(message):
        return ServerError(with_words(_("The server refuses this (HTTP 403)"), message), ServerErrorKind.SERVER_ERROR)
    if status in (401, 403):
        sentence = _("The server rejected the API key.") if cleaner.api_key else _("The server wants an API key.")
        return ServerError(sentence, ServerErrorKind.NEEDS_KEY)
    if 300 <= status < 400:
        return ServerError(
            _("The server redirects elsewhere (HTTP {status}): enter the address it leads to.", status=status),
            ServerErrorKind.NOT_LLM,
        )
    if status == 503 and message is not None and _LOADING.search(message):
        return ServerError(_("The server is still loading its model."), ServerErrorKind.LOADING)
    if is_html(content_type, body):
        trouble = ServerErrorKind.SERVER_ERROR if status >= 500 else ServerErrorKind.NOT_LLM
        return ServerError(_("HTTP {status}: {why}", status=status, why=_(HTML_PAGE)), trouble)
    if status in (404, 405, 501):
        return ServerError(
            with_words(_("The server has no {path} (HTTP {status})", path=path, status=status), message),
            ServerErrorKind.NOT_LLM,
        )
    if status == 429:
        return ServerError(with_words(_("The server is busy (HTTP 429)"), message), ServerErrorKind.BUSY)
    return ServerError(
        with_words(_("The server answered HTTP {status:d}", status=status), message), ServerErrorKind.SERVER_ERROR
    )


def with_words(sentence: str, words: str | None) -> str:
    """`sentence`, which has no full stop yet, followed by the server's own words if there are any."""
    if not words:
        return _("{sentence}.", sentence=sentence)
    return _("{sentence}: {words}.", sentence=sentence, words=words.rstrip("."))
