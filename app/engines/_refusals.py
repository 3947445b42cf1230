"""What a refused request teaches: that no other one can work either, or which field to leave out."""

import re
from collections.abc import Collection, Iterator
from typing import Any

from app.errors import ServerProblem, Trouble
from app.http import Answer
from app.http.text import parse_json

_TOO_LONG = re.compile(
    r"exceed_context_size|context[ _]?(length|size|window)|max_model_len|maximum (input|prompt|sequence) length"
    r"|(prompt|input|request)\b.{0,40}\b(too (long|large)|exceeds?)|too many (input |prompt )?tokens",
    re.IGNORECASE,
)
_UNKNOWN_MODEL = re.compile(
    r"model\b.{0,120}\b(not found|does not exist|doesn't exist|is not (available|loaded|supported|served)|not exist)"
    r"|(unknown|invalid|no such|unsupported|could not find|cannot find|no)( a)? model\b|model_not_found",
    re.IGNORECASE,
)


def fatal_problem(answer: Answer) -> ServerProblem | None:
    """The problem that every further request would meet as well; None when another request may fare better."""
    problem = answer.problem()
    if problem.trouble in (Trouble.NEEDS_KEY, Trouble.LOADING):
        return problem
    if not 400 <= answer.status < 500 or answer.status == 429:
        return None
    message = answer.message or ""
    said = f": {message.rstrip('.')}." if message else "."
    if answer.status == 413 or _TOO_LONG.search(_codes(answer) + message):
        return ServerProblem(f"The prompt is too long for the server{said}", Trouble.PROMPT_TOO_LONG)
    if _UNKNOWN_MODEL.search(_codes(answer) + message):
        return ServerProblem(f"The server does not know the model{said}", Trouble.UNKNOWN_MODEL)
    return None


def refused_fields(answer: Answer, sent: Collection[str]) -> set[str]:
    """Which of the fields `sent` this 4xx answer refuses by name: those it points at, else the first it mentions."""
    if not 400 <= answer.status < 500:
        return set()
    try:
        pointed = set(_pointed(parse_json(answer.body))) & set(sent)
    except ValueError:
        pointed = set()
    if pointed:
        return pointed
    message = answer.message or ""
    mentioned = {field: re.search(rf"(?<![\w]){re.escape(field)}(?![\w])", message) for field in sent}
    places = {field: match.start() for field, match in mentioned.items() if match}
    return {min(places, key=places.__getitem__)} if places else set()


def _pointed(value: Any, depth: int = 5) -> Iterator[str]:
    """Field names in `param` and `loc`, wherever they are in an error body; what the server echoes is not looked at."""
    if depth and isinstance(value, list):
        for item in value:
            yield from _pointed(item, depth - 1)
    elif depth and isinstance(value, dict):
        if isinstance(param := value.get("param"), str):
            yield param
        if isinstance(loc := value.get("loc"), list):
            yield from (part for part in loc if isinstance(part, str))
        for key in ("error", "detail"):
            yield from _pointed(value.get(key), depth - 1)


def _codes(answer: Answer) -> str:
    """Type and code of an OpenAI-style error, each followed by a space."""
    try:
        value = parse_json(answer.body)
    except ValueError:
        return ""
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return ""
    return "".join(f"{error[key]} " for key in ("type", "code") if isinstance(error.get(key), str))
