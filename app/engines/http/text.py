"""The texts and JSON of a server, made safe to store and show: no API key of ours, valid Unicode, short messages."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

HIDDEN_KEY = "[API key]"
_MESSAGE_CHARS = 300
_PLAIN_TEXT_CHARS = 80
_MESSAGE_KEYS = ("error", "errors", "detail", "message", "msg", "error_description", "title")
# shorter keys are mostly placeholders, and parts of ordinary words
_SECRET_CHARS = 8
_EVENT = re.compile(rb"^(?:event:[^\r\n]*(?:\r\n|\r|\n))?data:")
# strings are passed over
_NOT_FINITE = re.compile(r'("(?:[^"\\]|\\.)*")|-?\b(?:nan|inf)\b(?:\((?:ind|snan)\))?')
# neither UTF-8 nor every database can hold them
_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")


def is_html(content_type: str, body: bytes) -> bool:
    """Whether a body is an HTML page, by its content type or its beginning."""
    head = body[:512].lstrip().lower()
    return "html" in content_type.lower() or head.startswith((b"<!doctype", b"<html", b"<head", b"<body"))


def parse_json(data: bytes) -> Any:
    """The JSON value as it stands; broken UTF-8 becomes U+FFFD. Raises ValueError for everything that is not JSON.

    A bare `nan` or `inf`, which is how C prints them, is null.

    >>> parse_json(b'{"ms": -nan, "text": "nan", "more": [inf, NaN]}')
    {'ms': None, 'text': 'nan', 'more': [None, nan]}
    """
    text = data.decode("utf-8-sig", "replace")
    try:
        try:
            return json.loads(text)
        except ValueError:
            if (repaired := _NOT_FINITE.sub(lambda match: match[1] or "null", text)) == text:
                raise
            return json.loads(repaired)
    except RecursionError as error:
        raise ValueError("JSON nested too deeply") from error


@dataclass(frozen=True)
class TextCleaner:
    """Cleans everything that a server sends before it is stored or shown. Some servers echo `api_key`: it is hidden."""

    api_key: str | None = field(default=None, repr=False)

    @cached_property
    def _key_pattern(self) -> re.Pattern[str] | None:
        if not self.api_key:
            return None
        key = re.escape(self.api_key)
        return re.compile(key if len(self.api_key) >= _SECRET_CHARS else rf"(?<![\w/-]){key}(?![\w/:-])")

    def clean(self, value: Any) -> Any:
        """`value`, any JSON value, without our key, lone surrogates and NUL in its texts."""
        if isinstance(value, str):
            text = _NOT_STORABLE.sub("\ufffd", value)
            return self._key_pattern.sub(HIDDEN_KEY, text) if self._key_pattern else text
        if isinstance(value, list):
            return [self.clean(item) for item in value]
        if isinstance(value, dict):
            return {self.clean(name): self.clean(item) for name, item in value.items()}
        return value

    def load_json(self, data: bytes) -> Any:
        """The cleaned JSON value of `data`. Raises ValueError for everything that is not JSON."""
        try:
            return self.clean(parse_json(data))
        except RecursionError as error:
            raise ValueError("JSON nested too deeply") from error

    def message_in_body(self, body: bytes, content_type: str = "") -> str | None:
        """The short message in an error body: in `error` or `detail` in any of their shapes, or a line of text."""
        if is_html(content_type, body):
            return None
        # some servers send an error as an event of a stream
        body = _EVENT.sub(b"", body.strip(), count=1)
        try:
            return self.message(parse_json(body))
        except ValueError:
            # this may be the text of any page: no more than a status line's worth of it
            line = body.decode("utf-8", "replace").strip().partition("\n")[0]
            return self.message(self.clean(line)[:_PLAIN_TEXT_CHARS])

    def message(self, value: Any) -> str | None:
        """The short message in an error value: an object, a text, JSON inside a text, or a list of those."""
        text = self.clean("; ".join(dict.fromkeys(_messages(value))))
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
        location = value.get("loc")
        for key in _MESSAGE_KEYS:
            if value.get(key) not in (None, "", [], {}) and not isinstance(value[key], bool | int | float):
                prefix = f"{'.'.join(map(str, location))}: " if isinstance(location, list) else ""
                yield from (prefix + text for text in _messages(value[key], depth - 1))
                return
        code = value.get("code") or value.get("error")
        if isinstance(code, str | int) and code and code is not True:
            yield f"code {code}"
        elif isinstance(kind := value.get("type"), str):
            yield kind


def _parsed(text: str) -> Any:
    try:
        return parse_json(text.encode("utf-8", "replace"))
    except ValueError:  # no JSON: then it is words
        return None
