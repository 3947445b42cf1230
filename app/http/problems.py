"""What a server's error answer means, as one sentence; its page is never echoed, only a short message of its own."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpcore

from app.errors import ServerProblem, Trouble

HTML_PAGE = "An HTML page came back: check the URL or the login."
_MESSAGE_CHARS = 300
_PLAIN_TEXT_CHARS = 80


def is_html(content_type: str, body: bytes) -> bool:
    head = body[:512].lstrip().lower()
    return "html" in content_type.lower() or head.startswith((b"<!doctype", b"<html", b"<head", b"<body"))


def load_json(data: bytes) -> Any:
    """The JSON value; broken UTF-8 becomes U+FFFD. Raises ValueError for everything that is not JSON."""
    try:
        return json.loads(data.decode("utf-8-sig", "replace"))
    except RecursionError as error:
        raise ValueError("JSON nested too deeply") from error


def message_of(body: bytes, content_type: str = "") -> str | None:
    """The server's own short message in an error body: `error` or `detail` in any of their shapes, or plain text."""
    if is_html(content_type, body):
        return None
    try:
        value = load_json(body)
    except ValueError:
        # what is no message by its form may be any page's text: no more than a status line's worth of it
        value = body.decode("utf-8", "replace").strip().partition("\n")[0][:_PLAIN_TEXT_CHARS]
    return error_message(value)


def error_message(value: Any) -> str | None:
    """The message in an error value: an object, a text, JSON inside a text, or a list of those."""
    text = "; ".join(dict.fromkeys(_messages(value)))
    text = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", text).split())
    if not text:
        return None
    return text if len(text) <= _MESSAGE_CHARS else text[: _MESSAGE_CHARS - 1] + "…"


def _messages(value: Any, depth: int = 8) -> Iterator[str]:
    if depth == 0:
        return
    if isinstance(value, str):
        if value.lstrip()[:1] in ("{", "[") and (inner := _parsed(value)) is not None:
            yield from _messages(inner, depth - 1)
        elif value.strip():
            yield value.strip()
    elif isinstance(value, list):
        for item in value[:5]:
            yield from _messages(item, depth - 1)
    elif isinstance(value, dict):
        place = value.get("loc")
        for key in ("error", "detail", "message", "msg", "error_description", "title"):
            if value.get(key) not in (None, "", [], {}) and not isinstance(value[key], bool | int | float):
                prefix = f"{'.'.join(map(str, place))}: " if isinstance(place, list) else ""
                yield from (prefix + text for text in _messages(value[key], depth - 1))
                return


def _parsed(text: str) -> Any:
    try:
        return load_json(text.encode("utf-8", "replace"))
    except ValueError:
        return None


def is_loading(status: int, message: str | None) -> bool:
    return (
        status == 503
        and message is not None
        and re.search(r"\bload(ing)?\b|starting|not ready", message, re.I) is not None
    )


def status_problem(status: int, content_type: str, body: bytes, *, path: str, has_key: bool) -> ServerProblem:
    """What an HTTP status of 300 or more says."""
    message = message_of(body, content_type)
    if status in (401, 403):
        sentence = "The server rejected the API key." if has_key else "The server wants an API key."
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
