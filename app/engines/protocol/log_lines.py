"""A server's log, line by line: colours taken off, and the message taken out of JSON lines."""

import json
import re
from collections.abc import Iterator
from typing import Any

from app.engines.protocol.openai_chunk import mapping

LONGEST_LINE = 4096
NUMBER = r"\d[\d.,]*"
"""As programs print one in whatever locale: `1384.12`, `1384,12`, `1.384,12`."""
# with ESC, or where that byte was lost on the way
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\[[0-9;]{1,12}m")
_GROUP = 3
_MESSAGES = ("msg", "message", "text", "log")


def decimal(text: str) -> float | None:
    """What such a number is: its last mark is the decimal one. None where that mark may be either.

    >>> decimal("1384.12"), decimal("1384,1"), decimal("1.384,12"), decimal("1,384.12"), decimal("1,384")
    (1384.12, 1384.1, 1384.12, 1384.12, None)
    """
    whole, mark, places = re.fullmatch(r"(.*?)(?:([.,])(\d*))?[.,]?", text).groups(default="")  # type: ignore[union-attr]  # it always matches
    marks = set(whole) & {".", ","}
    if mark == "," and not marks and len(places) == _GROUP and len(whole) <= _GROUP:
        return None
    if mark in marks:  # the same mark twice: it only separates thousands
        whole, places = whole + places, ""
    digits = whole.replace(".", "").replace(",", "")
    return float(f"{digits}.{places}") if digits else None


def lines_of(text: str) -> Iterator[str]:
    """Messages in their order; of a JSON line with its ids in front, as a header has them."""
    for line in text.splitlines():
        cut = line[:LONGEST_LINE]
        yield _COLOUR.sub("", _message(cut) if cut.lstrip().startswith("{") else cut)


def _message(line: str) -> str:
    try:
        told: dict[str, Any] = dict(mapping(json.loads(line)))
    except (ValueError, RecursionError):
        return line
    text = next((told[key] for key in _MESSAGES if isinstance(told.get(key), str)), None)
    if text is None:
        return line
    slot, task = told.get("id_slot"), told.get("id_task")
    is_known = isinstance(slot, int) and isinstance(task, int)
    return f"id {slot} | task {task} | {text}" if is_known else text
