"""One JSON value of an OpenAI-style answer: what it carries, whatever else it may hold."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from app.core.samples import TOKEN_KINDS, Kind
from app.engines.http.text import TextCleaner
from app.engines.protocol.parts import content_of, reasoning_in, text_of

_ANSWER_FIELDS = ("content", "text", "response")
_FAULT_FIELDS = ("detail", "message", "msg", "code")
# what gateways to other APIs call the same counts
_OTHER_NAMES = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "prompt_tokens_details": "input_tokens_details",
    "completion_tokens_details": "output_tokens_details",
    "cached_tokens": "prompt_cache_hit_tokens",
}
_BROKEN_OFF = frozenset({"error", "abort", "aborted", "cancelled", "canceled"})
# some gateways quote their numbers
_QUOTED = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")


class Texts:
    """Token text of one chunk, and what kind of event that makes it."""

    __slots__ = ("answer", "kind", "size_bytes")

    def __init__(self, chunk: Mapping[str, Any]) -> None:
        source = first_choice(chunk) or chunk
        for key in ("delta", "message"):
            if isinstance(source.get(key), dict):
                source = source[key]
                break
        content = next(filter(any, (content_of(source.get(key)) for key in _ANSWER_FIELDS)), content_of(None))
        self.answer = content.answer
        reasoning = content.reasoning or reasoning_in(source)
        tool = _tool_text(source.get("tool_calls")) or _function_text(source.get("function_call"))
        self.size_bytes = sum(len(text.encode("utf-8", "replace")) for text in (self.answer, reasoning, tool))
        self.kind = Kind.ANSWER if self.answer else Kind.REASONING if reasoning else Kind.TOOL if tool else Kind.EMPTY


def has_token(chunk: Mapping[str, Any]) -> bool:
    return Texts(chunk).kind in TOKEN_KINDS


def is_answer(value: Any) -> bool:
    """Whether it is an answer or a part of one that says something: token text, a finish reason, or usage."""
    return isinstance(value, dict) and (
        has_token(value) or finish_reason(value) is not None or bool(usage_of(value)) or bool(timings_of(value))
    )


def is_error(value: Any) -> bool:
    """Whether it reports a fault: it says so, or it has a message where an answer should be."""
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
    """What stands where a server says what went wrong: beside its choices or within the one that was asked for."""
    return chunk.get("error") or chunk.get("errors") or first_choice(chunk).get("error")


def first_choice(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """The choice with index 0, wherever it stands; one was asked for."""
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices:
        return {}
    return next((choice for choice in choices if mapping(choice).get("index") == 0), mapping(choices[0]))


def finish_reason(chunk: Mapping[str, Any]) -> str | None:
    reason = first_choice(chunk).get("finish_reason")
    return reason if isinstance(reason, str) and reason.lower() not in ("", "null", "none") else None


def is_broken_off(reason: str | None) -> bool:
    """Whether a finish reason says that the server gave the answer up."""
    return reason is not None and reason.lower() in _BROKEN_OFF


def usage_of(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """Empty where there is none; one of zeros only is a placeholder. Some put it into the choice.

    >>> usage_of({"usage": {"input_tokens": 9, "output_tokens": 2}})["completion_tokens"]
    2
    """
    found = mapping(chunk.get("usage")) or mapping(first_choice(chunk).get("usage"))
    named = {name: found[other] for name, other in _OTHER_NAMES.items() if name not in found and other in found}
    return _unless_zero({**found, **named}, "prompt_tokens", "completion_tokens")


def timings_of(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """As `usage_of`."""
    return _unless_zero(chunk.get("timings"), "prompt_n", "cache_n", "prompt_ms", "predicted_n", "predicted_ms")


def count(value: Any) -> int | None:
    """A count as servers send it; whatever is none is None."""
    found = number(value)
    return None if found is None else int(found)


def number(value: Any) -> float | None:
    """A finite number that is not negative, be it in quotes; whatever else stands there is None.

    >>> number(5), number("512"), number("Indeterminate"), number(True), number(-1), number(float("nan"))
    (5.0, 512.0, None, None, None, None)
    """
    if isinstance(value, str) and _QUOTED.fullmatch(value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return float(value)


def milliseconds(value: Any) -> float | None:
    """A duration; zero was never measured."""
    return number(value) or None


def is_plain(value: Any) -> bool:
    """Whether it is a text, a truth value or a finite number."""
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _unless_zero(value: Any, *keys: str) -> Mapping[str, Any]:
    found = mapping(value)
    return found if any(number(found.get(key)) for key in keys) else {}


def _tool_text(calls: Any) -> str:
    if not isinstance(calls, list):
        return ""
    return "".join(_function_text(mapping(call).get("function")) for call in calls)


def _function_text(function: Any) -> str:
    """Arguments come as text, or parsed already."""
    arguments = mapping(function).get("arguments")
    parsed = json.dumps(arguments, separators=(",", ":")) if isinstance(arguments, dict) and arguments else ""
    return text_of(mapping(function).get("name")) + (parsed or text_of(arguments))
