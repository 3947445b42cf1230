"""What the answer to a refused request means: that no request can work, or that a field has to be left out."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from app.core.errors import ServerError, ServerErrorKind
from app.core.i18n import _
from app.engines.http import Answer
from app.engines.http.problems import with_words
from app.engines.http.text import parse_json

_TOO_LONG = re.compile(
    r"exceed_context_size|context[ _]?(length|size|window)|max_(model|seq)_len|maximum (input|prompt|sequence) length"
    r"|(prompt|input|request)\b.{0,40}\b(too (long|large)|exceeds?)|too many (input |prompt )?tokens"
    r"|\binputs\b\W+(tokens|must have less)",
    re.IGNORECASE,
)
_UNKNOWN_MODEL = re.compile(
    r"model\b.{0,120}\b(not found|does not exist|doesn't exist|is not (available|loaded|supported|served)|not exist)"
    r"|\bpinned to '|(unknown|invalid|no such|unsupported|could not find|cannot find|no)( a)? model\b|model_not_found"
    r"|no instance found for model|with requested name is not found",
    re.IGNORECASE,
)
# statuses that refuse the request, not one of its fields
_OTHER_REASONS = frozenset({401, 403, 404, 408, 409, 413, 429})
# without these another length would be measured; the other fields only make answers steadier or more detailed
_LENGTHS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens", "min_tokens", "min_new_tokens"})
_UNWANTED = re.compile(
    r"un(known|recogni[sz]ed|supported|expected|wanted)|extra|forbidden|no such|deprecated|\binstead\b"
    r"|not (be )?(set|given|supported|permitted|allowed|implemented|recogni[sz]ed|accepted|available|known|present)"
    r"|does(n't| not) (support|accept|allow|have)|invalid (field|parameter|argument|key)",
    re.IGNORECASE,
)
_BAD_VALUE = re.compile(
    r"\b(must|should|has to|needs? to|cannot|can't|may not) (not )?(be|have|exceed)\b|exceeds?\b|\bout of range\b"
    r"|\b(greater|less|larger|smaller|more|higher|lower) than\b|\bat (least|most)\b|\btoo \w+|\bbetween\b"
    r"|\b(of|wrong|invalid) type\b|invalid value|_parsing|_type\b|_than|\b(maximum|minimum)\b",
    re.IGNORECASE,
)


def fatal_problem(answer: Answer) -> ServerError | None:
    """The problem that every further request would meet as well; None when another request may succeed."""
    problem = answer.problem()
    if problem.trouble in (ServerErrorKind.NEEDS_KEY, ServerErrorKind.LOADING):
        return problem
    if not 400 <= answer.status < 500 or answer.status == 429:
        return None
    message = answer.message or ""
    if answer.status == 413 or _TOO_LONG.search(_codes(answer) + message):
        return ServerError(
            with_words(_("The prompt is too long for the server"), message), ServerErrorKind.PROMPT_TOO_LONG
        )
    if _UNKNOWN_MODEL.search(_codes(answer) + message):
        return ServerError(with_words(_("The server does not know the model"), message), ServerErrorKind.UNKNOWN_MODEL)
    return None


def refused_fields(answer: Answer, sent: Collection[str]) -> set[str]:
    """The fields of `sent` (dotted where nested) that this answer refuses: those it points at, else the first it names.

    A complaint about the value of a field is a refusal too, unless the field sets the length of the output. A server
    that breaks down (500) refuses only what it says that it does not know.
    """
    is_fault = answer.status == 500
    if not (400 <= answer.status < 500 or is_fault) or answer.status in _OTHER_REASONS:
        return set()
    message, names = answer.message or "", _names(sent)
    if is_fault and not _UNWANTED.search(message):
        return set()
    try:
        pointers = list(_pointers(parse_json(answer.body)))
    except ValueError:  # a body that is no JSON points at no field
        pointers = []
    targets = [(name, reason) for path, reason in pointers if (name := _deepest(path, names)) is not None]
    if targets:
        return {name for name, reason in targets if _is_refused(name, reason)}
    positions = _named_in(message, names)
    # a parent is often named together with the field that is meant
    leaves = [name for name in positions if not any(longer.startswith(f"{name}.") for longer in positions)]
    first = min(leaves, key=positions.__getitem__, default=None)
    return {first} if first is not None and _is_refused(first, message) else set()


def names_no_field(answer: Answer, sent: Collection[str]) -> bool:
    """Whether an answer is a refusal (400 or 422) whose message names no field of the request."""
    return answer.status in (400, 422) and not _named_in(answer.message or "", _names(sent))


def _names(sent: Collection[str]) -> set[str]:
    """The fields, and the fields that they are nested in."""
    return {".".join(parts[: end + 1]) for parts in (name.split(".") for name in sent) for end in range(len(parts))}


def _deepest(path: Sequence[str], names: Collection[str]) -> str | None:
    """The field that a path such as ("body", "stream_options", "include_usage") leads to; None for none of them."""
    matches = [name for name in names if name.rpartition(".")[2] in path]
    return max(matches, key=lambda name: name.count("."), default=None)


def _named_in(message: str, names: Collection[str]) -> dict[str, int]:
    """The fields that a message names, each with its position."""
    positions = {}
    for name in names:
        if match := re.search(rf"(?<![\w]){re.escape(name.rpartition('.')[2])}(?![\w])", message):
            positions[name] = match.start()
    return positions


def _is_refused(name: str, reason: str) -> bool:
    return name not in _LENGTHS or _UNWANTED.search(reason) is not None or _BAD_VALUE.search(reason) is None


def _pointers(value: Any, depth: int = 5) -> Iterator[tuple[list[str], str]]:
    """The paths in `param` and `loc`, anywhere in an error body, each with the text beside it.

    What the server echoes of the request is not searched.
    """
    if depth and isinstance(value, list):
        for item in value:
            yield from _pointers(item, depth - 1)
    elif depth and isinstance(value, dict):
        text = " ".join(str(value[key]) for key in ("type", "code", "message", "msg") if key in value)
        if isinstance(param := value.get("param"), str):
            yield re.split(r"[.\[\]]+", param), text
        if isinstance(loc := value.get("loc"), list):
            yield [part for part in loc if isinstance(part, str)], text
        for key in ("error", "detail"):
            yield from _pointers(value.get(key), depth - 1)


def _codes(answer: Answer) -> str:
    """Type and code of an OpenAI-style error, each followed by a space."""
    try:
        value = parse_json(answer.body)
    except ValueError:  # a body that is no JSON has no message
        return ""
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return ""
    return "".join(f"{error[key]} " for key in ("type", "code") if isinstance(error.get(key), str))
