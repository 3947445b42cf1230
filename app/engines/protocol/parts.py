"""The text in one field of an answer, be it a string or a list of typed parts of which some are reasoning."""

from collections.abc import Mapping
from typing import Any, NamedTuple

REASONING_FIELDS = (
    "reasoning_content",
    "reasoning",
    "thinking",
    "thought",
    "reasoning_text",
    "reasoning_details",
    "thinking_blocks",
)
_TEXT_FIELDS = ("text", "content", "value")
_REASONING_TYPES = ("think", "thought", "reason")
_DEEPEST = 6


class Content(NamedTuple):
    answer: str
    reasoning: str


def content_of(value: Any, depth: int = 0) -> Content:
    """
    >>> content_of([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hi"}])
    Content(answer='Hi', reasoning='hm')
    >>> content_of("Hi"), content_of({"text": "hm", "thought": True}), content_of(None)
    (Content(answer='Hi', reasoning=''), Content(answer='', reasoning='hm'), Content(answer='', reasoning=''))
    """
    if isinstance(value, str):
        return Content(value, "")
    if isinstance(value, list) and depth < _DEEPEST:
        parts = [content_of(part, depth + 1) for part in value]
        return Content("".join(part.answer for part in parts), "".join(part.reasoning for part in parts))
    if not isinstance(value, dict):
        return Content("", "")
    if _is_reasoning(value):
        return Content("", text_of(value, depth))
    answer = next(filter(None, (text_of(value.get(key), depth + 1) for key in _TEXT_FIELDS)), "")
    return Content(answer, reasoning_in(value, depth + 1))


def reasoning_in(fields: Mapping[str, Any], depth: int = 0) -> str:
    """Of the first field that has any: some servers send the same text in two of them."""
    return next(filter(None, (text_of(fields.get(key), depth) for key in REASONING_FIELDS)), "")


def text_of(value: Any, depth: int = 0) -> str:
    """All text within, whatever it is."""
    if isinstance(value, str):
        return value
    if depth >= _DEEPEST:
        return ""
    if isinstance(value, list):
        return "".join(text_of(part, depth + 1) for part in value)
    if isinstance(value, dict):
        fields = [value.get(key) for key in (*REASONING_FIELDS, *_TEXT_FIELDS)]
        summary = value.get("summary")
        if isinstance(summary, list):  # a plain word there is a setting
            fields.append(summary)
        return next(filter(None, (text_of(field, depth + 1) for field in fields)), "")
    return ""


def _is_reasoning(part: Mapping[str, Any]) -> bool:
    kind = part.get("type")
    named = isinstance(kind, str) and any(word in kind.lower() for word in _REASONING_TYPES)
    return named or part.get("thought") is True
