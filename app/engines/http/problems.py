"""What a server's error answer means, as one sentence; its page is never echoed, only a short message of its own."""

import re

import httpcore

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import N_, _
from app.engines.http.text import ServerText, is_html

HTML_PAGE = N_("An HTML page came back: check the URL or the login.")


def is_loading(status: int, message: str | None) -> bool:
    return (
        status == 503
        and message is not None
        and re.search(r"\bload(ing)?\b|starting|not ready", message, re.I) is not None
    )


def status_problem(status: int, content_type: str, body: bytes, *, path: str, text: ServerText) -> ServerError:
    """What an HTTP status of 300 or more says."""
    message = text.message_of(body, content_type)
    if status in (401, 403):
        sentence = _("The server rejected the API key.") if text.api_key else _("The server wants an API key.")
        return ServerError(sentence, ServerErrorKind.NEEDS_KEY)
    if 300 <= status < 400:
        return ServerError(
            _("The server redirects elsewhere (HTTP {status}): enter the address it leads to.", status=status),
            ServerErrorKind.NOT_LLM,
        )
    if is_loading(status, message):
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


def with_words(said: str, words: str | None) -> str:
    """A sentence, with the server's own words where it gave some."""
    return _("{said}: {words}.", said=said, words=words.rstrip(".")) if words else _("{sentence}.", sentence=said)


def transport_problem(error: Exception, timeout_s: float) -> ServerError:
    """A fault between connecting and the end of the headers (connecting itself is told by `network`)."""
    if isinstance(error, httpcore.TimeoutException):
        return ServerError(
            _("The server did not answer within {seconds:g} s.", seconds=timeout_s), ServerErrorKind.TIMEOUT
        )
    if isinstance(error, httpcore.RemoteProtocolError) and "without sending" not in str(error):
        return ServerError(_("The server does not answer in HTTP."), ServerErrorKind.NOT_LLM)
    return ServerError(_("The server closed the connection without an answer."), ServerErrorKind.SERVER_ERROR)


def broken_answer(error: Exception, path: str) -> ServerError:
    """A fault while the body of an answer was being read."""
    if isinstance(error, httpcore.TimeoutException):
        return ServerError(
            _("The answer to {path} did not come to its end in time.", path=path), ServerErrorKind.TIMEOUT
        )
    return ServerError(
        _("The connection was lost during the answer to {path}.", path=path), ServerErrorKind.SERVER_ERROR
    )
