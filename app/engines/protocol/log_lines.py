"""A server's log, line by line: colours removed, and the message taken out of JSON lines."""

import json
import re
from collections.abc import Iterator

from app.engines.protocol.answers import mapping

LONGEST_LINE = 4096
NUMBER = r"\d[\d.,]*"
"""A number as programs print it in any locale: `1384.12`, `1384,12`, `1.384,12`."""
# with ESC, or where that byte was lost on the way
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\[[0-9;]{1,12}m")
_GROUP = 3
_MESSAGE_KEYS = ("msg", "message", "text", "log")


def decimal(text: str) -> float | None:
    """The value of a `NUMBER`, whose last mark is the decimal one; None where that mark may separate thousands.

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
    """The messages in a log in their order; that of a JSON line follows its ids, as in llama.cpp's header lines."""
    for line in text.splitlines():
        head = line[:LONGEST_LINE]
        yield _COLOUR.sub("", _message(head) if head.lstrip().startswith("{") else head)


def _message(line: str) -> str:
    try:
        record = mapping(json.loads(line))
    except (ValueError, RecursionError):  # a line that is no JSON is the text itself
        return line
    text = next((record[key] for key in _MESSAGE_KEYS if isinstance(record.get(key), str)), None)
    if text is None:
        return line
    slot, task = record.get("id_slot"), record.get("id_task")
    has_ids = isinstance(slot, int) and isinstance(task, int)
    return f"id {slot} | task {task} | {text}" if has_ids else text
