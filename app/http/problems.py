"""What a server's error answer means, as one sentence; its page is never echoed, only a short message of its own."""

import re

import httpcore

from app.errors import ServerProblem, Trouble
from app.http.text import ServerText, is_html

HTML_PAGE = "An HTML page came back: check the URL or the login."


def is_loading(status: int, message: str | None) -> bool:
    return (
        status == 503
        and message is not None
        and re.search(r"\bload(ing)?\b|starting|not ready", message, re.I) is not None
    )


def status_problem(status: int, content_type: str, body: bytes, *, path: str, text: ServerText) -> ServerProblem:
    """What an HTTP status of 300 or more says."""
    message = text.message_of(body, content_type)
    if status in (401, 403):
        sentence = "The server rejected the API key." if text.api_key else "The server wants an API key."
        return ServerProblem(sentence, Trouble.NEEDS_KEY)
    if 300 <= status < 400:
        return ServerProblem(
            f"The server redirects elsewhere (HTTP {status}): enter the address it leads to.", Trouble.NOT_LLM
        )
    if is_loading(status, message):
        return ServerProblem("The server is still loading its model.", Trouble.LOADING)
    if is_html(content_type, body):
        trouble = Trouble.SERVER_ERROR if status >= 500 else Trouble.NOT_LLM
        return ServerProblem(f"HTTP {status}: {HTML_PAGE}", trouble)
    said = f": {message.rstrip('.')}." if message else "."
    if status in (404, 405, 501):
        return ServerProblem(f"The server has no {path} (HTTP {status}){said}", Trouble.NOT_LLM)
    if status == 429:
        return ServerProblem(f"The server is busy (HTTP 429){said}", Trouble.BUSY)
    return ServerProblem(f"The server answered HTTP {status}{said}", Trouble.SERVER_ERROR)


def transport_problem(error: Exception, timeout_s: float) -> ServerProblem:
    """A fault between connecting and the end of the headers (connecting itself is told by `network`)."""
    if isinstance(error, httpcore.TimeoutException):
        return ServerProblem(f"The server did not answer within {timeout_s:g} s.", Trouble.TIMEOUT)
    if isinstance(error, httpcore.RemoteProtocolError) and "without sending" not in str(error):
        return ServerProblem("The server does not answer in HTTP.", Trouble.NOT_LLM)
    return ServerProblem("The server closed the connection without an answer.", Trouble.SERVER_ERROR)


def broken_answer(error: Exception, path: str) -> ServerProblem:
    """A fault while the body of an answer was being read."""
    if isinstance(error, httpcore.TimeoutException):
        return ServerProblem(f"The answer to {path} did not come to its end in time.", Trouble.TIMEOUT)
    return ServerProblem(f"The connection was lost during the answer to {path}.", Trouble.SERVER_ERROR)
