"""One JSON value of an OpenAI-style answer: texts, counts, finish reason and faults, in all the forms servers use."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from app.core.samples import TOKEN_KINDS, Kind
from app.engines.http.text import TextCleaner
from app.engines.protocol.answers import mapping, number

_ANSWER_FIELDS = ("content", "text", "response")
_FAULT_FIELDS = ("detail", "message", "msg", "code")
# what gateways to other APIs call the same counts
_ALIASES = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "prompt_tokens_details": "input_tokens_details",
    "completion_tokens_details": "output_tokens_details",
    "cached_tokens": "prompt_cache_hit_tokens",
}
_BROKEN_OFF = frozenset({"error", "abort", "aborted", "cancelled", "canceled"})

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
_MAX_DEPTH = 6


class Texts:
    """The token text of one chunk, and the kind of event that it makes."""

    __slots__ = ("answer", "kind", "reasoning", "size_bytes")

    def __init__(self, chunk: Mapping[str, Any]) -> None:
        source = first_choice(chunk) or chunk
        for key in ("delta", "message"):
            if isinstance(source.get(key), dict):
                source = source[key]
                break
        content = next(filter(any, (content_of(source.get(key)) for key in _ANSWER_FIELDS)), content_of(None))
        self.answer = content.answer
        reasoning = self.reasoning = content.reasoning or reasoning_in(source)
        tool = _tool_text(source.get("tool_calls")) or _function_text(source.get("function_call"))
        self.size_bytes = sum(len(text.encode("utf-8", "replace")) for text in (self.answer, reasoning, tool))
        self.kind = Kind.ANSWER if self.answer else Kind.REASONING if reasoning else Kind.TOOL if tool else Kind.EMPTY


class Content(NamedTuple):
    answer: str
    reasoning: str


def content_of(value: Any, depth: int = 0) -> Content:
    """The text in one field of an answer, be it a string or a list of typed parts of which some are reasoning.

    >>> content_of([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hi"}])
    Content(answer='Hi', reasoning='hm')
    >>> content_of("Hi"), content_of({"text": "hm", "thought": True}), content_of(None)
    (Content(answer='Hi', reasoning=''), Content(answer='', reasoning='hm'), Content(answer='', reasoning=''))
    """
    if isinstance(value, str):
        return Content(value, "")
    if isinstance(value, list) and depth < _MAX_DEPTH:
        parts = [content_of(part, depth + 1) for part in value]
        return Content("".join(part.answer for part in parts), "".join(part.reasoning for part in parts))
    if not isinstance(value, dict):
        return Content("", "")
    if _is_reasoning(value):
        return Content("", text_of(value, depth))
    answer = next(filter(None, (text_of(value.get(key), depth + 1) for key in _TEXT_FIELDS)), "")
    return Content(answer, reasoning_in(value, depth + 1))


def reasoning_in(fields: Mapping[str, Any], depth: int = 0) -> str:
    """The text of the first reasoning field that has any: some servers send the same text in two of them."""
    return next(filter(None, (text_of(fields.get(key), depth) for key in REASONING_FIELDS)), "")


def text_of(value: Any, depth: int = 0) -> str:
    """All text within a value of any form."""
    if isinstance(value, str):
        return value
    if depth >= _MAX_DEPTH:
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
    is_named = isinstance(kind, str) and any(word in kind.lower() for word in _REASONING_TYPES)
    return is_named or part.get("thought") is True


def has_token(chunk: Mapping[str, Any]) -> bool:
    """Whether a chunk carries token text."""
    return Texts(chunk).kind in TOKEN_KINDS


def is_answer(value: Any) -> bool:
    """Whether a value is an answer or a part of one: it has token text, a finish reason, or usage."""
    return isinstance(value, dict) and (
        has_token(value) or finish_reason(value) is not None or bool(usage_of(value)) or bool(timings_of(value))
    )


def is_error(value: Any) -> bool:
    """Whether a value reports a fault: it says so, or it has a message where an answer should be."""
    if isinstance(value, list):
        return any(is_error(item) for item in value if isinstance(item, dict))
    if not isinstance(value, dict):
        return False
    if fault_of(value) or "error" in (value.get("object"), value.get("type")):
        return True
    if isinstance(value.get("choices"), list) or is_answer(value):
        return False
    return TextCleaner().message({key: value[key] for key in _FAULT_FIELDS if key in value}) is not None


def fault_of(chunk: Mapping[str, Any]) -> Any:
    """A server's report of what went wrong, beside its choices or within the first; falsy where there is none."""
    return chunk.get("error") or chunk.get("errors") or first_choice(chunk).get("error")


def first_choice(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """The choice with index 0, wherever it is in the list; a request asks for one."""
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices:
        return {}
    return next((choice for choice in choices if mapping(choice).get("index") == 0), mapping(choices[0]))


def finish_reason(chunk: Mapping[str, Any]) -> str | None:
    """The finish reason of the first choice; None where it has none."""
    reason = first_choice(chunk).get("finish_reason")
    return reason if isinstance(reason, str) and reason.lower() not in ("", "null", "none") else None


def is_broken_off(reason: str | None) -> bool:
    """Whether a finish reason means that the server gave the answer up."""
    return reason is not None and reason.lower() in _BROKEN_OFF


def usage_of(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """The usage of a chunk or of its first choice, by OpenAI's names; empty where there is none, or only zeros.

    >>> usage_of({"usage": {"input_tokens": 9, "output_tokens": 2}})["completion_tokens"]
    2
    """
    usage = mapping(chunk.get("usage")) or mapping(first_choice(chunk).get("usage"))
    aliased = {name: usage[alias] for name, alias in _ALIASES.items() if name not in usage and alias in usage}
    return _unless_zero({**usage, **aliased}, "prompt_tokens", "completion_tokens")


def timings_of(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """llama.cpp's `timings` in a chunk; empty where there are none, or only zeros."""
    return _unless_zero(chunk.get("timings"), "prompt_n", "cache_n", "prompt_ms", "predicted_n", "predicted_ms")


def _unless_zero(value: Any, *keys: str) -> Mapping[str, Any]:
    """The object, unless it has none but zeros under these keys: then it is a placeholder."""
    counts = mapping(value)
    return counts if any(number(counts.get(key)) for key in keys) else {}


def _tool_text(calls: Any) -> str:
    if not isinstance(calls, list):
        return ""
    return "".join(_function_text(mapping(call).get("function")) for call in calls)


def _function_text(function: Any) -> str:
    """Arguments come as text, or already parsed."""
    arguments = mapping(function).get("arguments")
    parsed = json.dumps(arguments, separators=(",", ":")) if isinstance(arguments, dict) and arguments else ""
    return text_of(mapping(function).get("name")) + (parsed or text_of(arguments))
