"""What a reader meets on a page: its texts, those of attributes and of charts, and which of them are still English."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from app.core import i18n

_SPOKEN = frozenset({"title", "aria-label", "alt", "placeholder", "data-label", "data-failed"})
_VOID = frozenset({"area", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})
_WORDS = re.compile(r"\b[a-z]{2,}(?:['’][a-z]+)?(?: [a-z]{2,}(?:['’][a-z]+)?){2,}")
"""Three words of English or more; names of products and models hold capitals, digits and signs."""

_LETTER = re.compile(r"[a-zA-Z]")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._skipping: list[str] = []
        self._script: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        is_others = attributes.get("translate") == "no" or attributes.get("lang") == "en" or tag in ("code", "style")
        if tag == "script":
            self._script = attributes.get("type") or ""
        elif not self._skipping and not is_others:
            self.texts += [value for name, value in attrs if name in _SPOKEN and value]
        if tag not in _VOID and (self._skipping or is_others):
            self._skipping.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None
        if self._skipping and tag == self._skipping[-1]:
            self._skipping.pop()

    def handle_data(self, data: str) -> None:
        if self._script == "application/json":
            self.texts += _strings(json.loads(data))
        elif self._script is None and not self._skipping and data.strip():
            self.texts.append(" ".join(data.split()))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield re.sub(r"<[^>]*>|%\{[^}]*\}", " ", value)
    elif isinstance(value, list):
        for child in value:
            yield from _strings(child)
    elif isinstance(value, dict):  # the kind of a mark is no text, nor is its name, by which it gets its colour
        is_mark = "x0" in value or "yref" in value
        for key, child in value.items():
            if not (is_mark and key in ("type", "name")):
                yield from _strings(child)


def texts(page: str) -> list[str]:
    """Without those of elements that are said to be in another language or not to be translated."""
    read = _Page()
    read.feed(page)
    return list(dict.fromkeys(read.texts))


def english(page: str) -> list[str]:
    """Texts of a Chinese page that are a message of the catalogue, or have several words of English."""
    with i18n.use("zh-Hant"):
        return [
            text for text in texts(page) if (i18n.gettext(text) != text and _LETTER.search(text)) or _WORDS.search(text)
        ]
