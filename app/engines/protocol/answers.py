"""Reading a server's answers to small questions: JSON objects and numbers of doubtful form, and health."""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from app.core.errors import ServerErrorKind
from app.core.i18n import _
from app.core.units import plural
from app.engines.base import Health
from app.engines.http import Answer, ServerClient

NO_ENDPOINT = frozenset({404, 405, 501})
"""Statuses of a server that does not have the path."""
# some gateways quote their numbers
_QUOTED_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_LARGEST = 1e15
_RELEASE = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})*)")


def object_in(answer: Answer) -> Mapping[str, Any]:
    """The JSON object in an answer, whatever its status; empty for anything else."""
    try:
        return mapping(answer.cleaner.load_json(answer.body))
    except ValueError:  # no JSON: another server
        return {}


def object_at(client: ServerClient, path: str) -> Mapping[str, Any]:
    """The JSON object at a path; empty for an error status or anything else.

    Raises ServerError when nothing answers at all.
    """
    answer = client.get(path)
    return object_in(answer) if answer.status < 300 else {}


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def string(value: Any) -> str | None:
    """The value if it is a text that is not blank, else None."""
    return value if isinstance(value, str) and value.strip() else None


def number(value: Any) -> float | None:
    """The value if it is a finite number that is not negative, quoted or not, else None.

    >>> number(5), number("512"), number("Indeterminate"), number(True), number(-1), number(float("nan"))
    (5.0, 512.0, None, None, None, None)
    """
    if isinstance(value, str) and _QUOTED_NUMBER.fullmatch(value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        return None
    return float(value)


def count(value: Any) -> int | None:
    """The value as a whole number, None where `number` is None."""
    parsed = number(value)
    return None if parsed is None else int(parsed)


def milliseconds(value: Any) -> float | None:
    """A duration that is already in milliseconds; None for zero, which was never measured."""
    return number(value) or None


def to_ms(value: Any, *, per_second: float = 1.0) -> float | None:
    """A duration in milliseconds, from a unit of which a second has `per_second`; None for zero or no number."""
    duration = number(value)
    return None if duration is None else milliseconds(duration / per_second * 1000)


def release(version: str | None) -> tuple[int, ...]:
    """The numbers at the start of a version; empty where it has none, which is less than any.

    >>> release("v0.5.11.post1"), release("0.11rc2"), release("main"), release(None)
    ((0, 5, 11), (0, 11), (), ())
    """
    match = _RELEASE.match(version or "")
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def is_plain(value: Any) -> bool:
    """Whether the value is a text, a truth value or a finite number."""
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def health_of(answer: Answer, cannot_tell: Collection[int] = NO_ENDPOINT) -> Health:
    """The health that an answer to a health question means; a status in `cannot_tell` counts as ready.

    Only a server that is loading is worth waiting for. Raises ServerError for any other fault.
    """
    if answer.status < 300:
        return Health(ready=True, detail=_("The server is ready."))
    if answer.status in cannot_tell:
        return Health(ready=True, detail=_("The server does not report its health."))
    problem = answer.problem()
    # a 503 without a message comes from a supervisor or proxy while the server starts
    if problem.trouble is ServerErrorKind.LOADING or (answer.status == 503 and answer.message is None):
        return Health(ready=False, detail=problem.message)
    raise problem


def busy_health(requests: Iterable[float | None]) -> Health:
    """The health of a ready server by its numbers of running and waiting requests; None where it reports no number."""
    reported = [value for value in map(number, requests) if value is not None]
    running = round(sum(reported))
    if running:
        return Health(
            ready=True,
            detail=_("The server is working on {others}.", others=plural(running, "other request")),
            busy=True,
        )
    return Health(ready=True, detail=_("The server is ready."), busy=False if reported else None)
